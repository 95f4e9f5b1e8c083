"""A schema as alternatives, each with plain constraints: combinations and references are written out.

A value is valid by the schema if it meets all constraints of one alternative.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from omnidraft.errors import GrammarError
from omnidraft.grammar.budget import Budget
from omnidraft.grammar.schema.constraints import COUNTS, TYPES, Constraints, covers, joined, own
from omnidraft.grammar.schema.facts import SchemaFacts
from omnidraft.grammar.schema.keywords import KNOWN, check_depth, check_keywords
from omnidraft.grammar.schema.places import References, escaped
from omnidraft.grammar.schema.values import count_of, list_of, mapping_of, text_of

MOST_ALTERNATIVES = 256
_WORK = 50  # of one schema, in edges of an automaton
_REFERS_ONLY = re.compile("draft-0[3-7]/")  # drafts in which nothing beside $ref counts
Alternatives = list[Constraints]


class SchemaReader:
    """Reads the schemas of one document."""

    def __init__(self, schema: Any, budget: Budget) -> None:
        self._references, self._budget = References(schema), budget
        self._depth = 0
        named = schema.get("$schema") if isinstance(schema, dict) else None
        self._refers_only = isinstance(named, str) and bool(_REFERS_ONLY.search(named))
        self.root = self._references.root
        self.facts = SchemaFacts(self.alternatives, budget)

    def alternatives(self, node: Any, place: str) -> Alternatives:
        """The alternatives of a schema; none where it allows no value.

        Raises:
            GrammarError: naming the keyword that is not supported, and its place.
        """
        if node is True:
            return [{}]
        if node is False:
            return []
        check_keywords(node, place)
        with self._deeper(place):
            return self._combined(node, place)

    @contextmanager
    def _deeper(self, place: str) -> Iterator[None]:
        """Count one more schema within the others."""
        self._budget.spend(_WORK)
        self._depth += 1
        try:
            check_depth(self._depth, place)
            yield
        finally:
            self._depth -= 1

    def _combined(self, node: Mapping[str, Any], place: str) -> Alternatives:
        found: Alternatives = [{}]
        if "$ref" in node:
            reference = text_of(node["$ref"], place, "$ref")
            target = self._references.resolve(reference, place)
            found = self.alternatives(target, reference if reference.startswith("#") else f"#{reference}")
            if self._refers_only:
                return found
        for i, each in enumerate(_schemas(node, "allOf", place)):
            found = self._both(found, self.alternatives(each, f"{place}/allOf/{i}"), place)
        mine = own(node, place)
        found = self._both(found, [mine] if mine.get("enum") != [] else [], place)
        if "anyOf" in node:
            found = self._both(found, self._any_of(_schemas(node, "anyOf", place), f"{place}/anyOf"), place)
        if "oneOf" in node:
            found = self._one_of(found, _schemas(node, "oneOf", place), f"{place}/oneOf")
        if "not" in node:
            found = self._both(found, self._negated(node["not"], f"{place}/not"), place)
        if "if" in node:
            found = self._both(found, self._conditional(node, place), place)
        for condition in _dependencies(node, place):
            found = self._both(found, self._any_of(condition, place), place)
        return [_evaluated(each, node) for each in found]

    def _any_of(self, schemas: Sequence[Any], place: str) -> Alternatives:
        return [each for i, s in enumerate(schemas) for each in self.alternatives(s, f"{place}/{i}")]

    def _both(self, first: Alternatives, second: Alternatives, place: str) -> Alternatives:
        """What holds where one alternative of each holds."""
        if len(first) * len(second) > MOST_ALTERNATIVES:
            raise GrammarError(
                f"the schema at {place} has {len(first) * len(second)} combinations, "
                f"at most {MOST_ALTERNATIVES} are supported",
                "leave out some of the alternatives",
            )
        values = (sum(1 + len(each.get("enum", ())) for each in part) for part in (first, second))
        self._budget.spend(math.prod(values))
        both = (joined(a, b) for a in first for b in second)
        return [each for each in both if each is not None]

    def _one_of(self, beside: Alternatives, schemas: Sequence[Any], place: str) -> Alternatives:
        """Each alternative that no other schema of `oneOf` has, else without what the others allow."""
        branches = [
            self._both(beside, self.alternatives(each, f"{place}/{i}"), place)
            for i, each in enumerate(schemas)
        ]
        found: Alternatives = []
        for i, branch in enumerate(branches):
            for j, other in enumerate(branches):
                self._budget.spend(len(branch) * len(other))
                kept: Alternatives = []
                for each in branch if i != j else ():
                    kept += self._without(each, other, schemas[j], f"{place}/{j}")
                branch = branch if i == j else kept
            found += branch
        return found

    def _without(self, mine: Constraints, other: Alternatives, schema: Any, place: str) -> Alternatives:
        """An alternative without the values of a schema, whose alternatives are given."""
        kinds = mine.get("type", [kind for kind in TYPES if kind != "integer"])
        apart = [kind for kind in kinds if all(kind in self.facts.apart_kinds(mine, b, place) for b in other)]
        covered = [kind for kind in kinds if any(covers(b, kind) for b in other)]
        rest = [kind for kind in kinds if kind not in apart and kind not in covered]
        found: Alternatives = [{**mine, "type": apart}] if apart else []
        if rest:
            found += self._both([{**mine, "type": rest}], self._negated(schema, place), place)
        return found

    def _conditional(self, node: Mapping[str, Any], place: str) -> Alternatives:
        condition, found = node["if"], list[Constraints]()
        if node.get("then", True) is not False:
            then = self.alternatives(node.get("then", True), f"{place}/then")
            found += self._both(self.alternatives(condition, f"{place}/if"), then, place)
        if node.get("else", True) is not False:
            otherwise = self.alternatives(node.get("else", True), f"{place}/else")
            found += self._both(self._negated(condition, f"{place}/if"), otherwise, place)
        return found

    def _negated(self, node: Any, place: str) -> Alternatives:
        """What a schema does not allow; `is_part` marks where some of it cannot be written.

        Raises:
            GrammarError: nothing of it can be written.
        """
        if node is True or node == {}:
            return []
        if node is False:
            return [{}]
        check_keywords(node, place)
        parts = [
            partial(self._negated_keyword, key, node, place)
            for key in node
            if key in KNOWN and not (self._refers_only and "$ref" in node and key != "$ref")
        ]
        with self._deeper(place):
            return [_not_noted(each) for each in _supported(parts)]

    def _negated_keyword(self, key: str, node: Mapping[str, Any], place: str) -> Alternatives:
        value = node[key]
        if key == "$ref":
            return self._negated(self._references.resolve(text_of(value, place, key), place), place)
        if key == "not":
            return self.alternatives(value, f"{place}/not")
        if key in ("anyOf", "allOf"):
            each = [self._negated(s, f"{place}/{key}/{i}") for i, s in enumerate(list_of(value, place, key))]
            if key == "allOf":
                return [alternative for part in each for alternative in part]
            found: Alternatives = [{}]
            for part in each:
                found = self._both(found, part, place)
            return found
        plain = own(node, place)
        if key == "type":
            kinds = [kind for kind in TYPES if kind not in plain["type"] and kind != "integer"]
            if "integer" not in plain["type"]:
                return [{"type": kinds}] if kinds else []
            if kinds != ["number"]:  # what is no integer cannot be written
                return [{"type": [kind for kind in kinds if kind != "number"], "is_part": True}]
        if key in ("enum", "const"):
            return [{"except": plain["enum"]}]
        if key == "required":
            return [_object({name: False}) for name in plain["required"]]
        if key == "properties":
            named = mapping_of(value, place, key).items()
            return _supported([partial(self._negated_property, name, each, place) for name, each in named])
        if key == "pattern":
            return [{"type": ["string"], "no_pattern": plain["pattern"]}]
        if key in COUNTS:
            count, kind = count_of(node, key, COUNTS[key], place), _COUNTED[key[3:]]
            if key.startswith("min"):
                return [{"type": [kind], "max" + key[3:]: count - 1}] if count else []
            return [{"type": [kind], "min" + key[3:]: count + 1}]
        if key in ("minimum", "exclusiveMinimum") and not isinstance(value, bool):
            return [{"type": ["number"], "most": (plain["least"][0], not plain["least"][1])}]
        if key in ("maximum", "exclusiveMaximum") and not isinstance(value, bool):
            return [{"type": ["number"], "least": (plain["most"][0], not plain["most"][1])}]
        if isinstance(value, bool) and key in ("nullable", "exclusiveMinimum", "exclusiveMaximum"):
            return []  # said with `type` and the bounds
        raise GrammarError(
            f"the schema at {place} has {key!r} in a negation, which is not supported",
            "say what is allowed instead of what is not",
        )

    def _negated_property(self, name: str, node: Any, place: str) -> Alternatives:
        if not self._negated(node, f"{place}/properties/{escaped(name)}"):
            return []
        return [{**_object({name: {"not": node}}), "required": [name]}]


_COUNTED = {"Length": "string", "Items": "array", "Properties": "object"}


def _object(named: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": ["object"], "objects": [(named, {}, None, False)]}


def _not_noted(found: Constraints) -> Constraints:
    """The same; names and items in a negation do not count as evaluated."""
    noted = {
        key: [(*each[:-1], False) for each in found[key]] for key in ("objects", "arrays") if key in found
    }
    return {**found, **noted}


def _supported(parts: Sequence[Callable[[], Alternatives]]) -> Alternatives:
    """The alternatives of all parts that are supported, marked if there are others.

    Raises:
        GrammarError: of a part that is not supported, where no alternative is left.
    """
    found: Alternatives = []
    missing: GrammarError | None = None
    for part in parts:
        try:
            found += part()
        except GrammarError as error:
            if "is not supported" not in error.message:
                raise
            missing = error
    if missing and not found:
        raise missing
    return [{**each, "is_part": True} for each in found] if missing else found


def _schemas(node: Mapping[str, Any], key: str, place: str) -> list[Any]:
    return list_of(node.get(key, []), place, key)


def _dependencies(node: Mapping[str, Any], place: str) -> Iterable[list[Any]]:
    """What must hold as one of two schemas: a property is absent, or what depends on it holds."""
    for key in ("dependentRequired", "dependentSchemas", "dependencies"):
        for name, needs in mapping_of(node.get(key, {}), place, key).items():
            there = {"required": [name]}
            if isinstance(needs, (list, str)):
                then: Any = {"required": [name, *([needs] if isinstance(needs, str) else needs)]}
            else:
                then = {"allOf": [there, needs]}
            yield [{"properties": {name: False}}, then]


def _evaluated(found: Constraints, node: Mapping[str, Any]) -> Constraints:
    """With `unevaluatedProperties` and `unevaluatedItems` of a schema, which are about what is in it."""
    more: dict[str, Any] = {}
    if "unevaluatedProperties" in node:
        objects = [each for each in found.get("objects", ()) if each[-1]]
        if all(others is None for _, _, others, _ in objects):
            names = {name: True for named, _, _, _ in objects for name in named}
            patterns = {pattern: True for _, patterns, _, _ in objects for pattern in patterns}
            rest = (names, patterns, node["unevaluatedProperties"], True)
            more["objects"] = [*found.get("objects", ()), rest]
    if "unevaluatedItems" in node:
        arrays = [each for each in found.get("arrays", ()) if each[-1]]
        if all(others is None for _, others, _ in arrays):
            first = [True] * max((len(first) for first, _, _ in arrays), default=0)
            more["arrays"] = [*found.get("arrays", ()), (first, node["unevaluatedItems"], True)]
    return {**found, **more}
