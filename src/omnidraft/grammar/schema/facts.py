"""What is certain about a schema's alternatives: whether a value is one of theirs, whether two share none."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from omnidraft.grammar.automaton import Automaton, compile_expression
from omnidraft.grammar.budget import Budget
from omnidraft.grammar.expression import utf8
from omnidraft.grammar.regex import parse_regex
from omnidraft.grammar.schema.constraints import TYPES, Constraints, common_types, joined
from omnidraft.grammar.schema.scalars import characters, format_patterns
from omnidraft.grammar.schema.values import equal

_MOST_COMPARED = 8  # values within values
_ALL = [kind for kind in TYPES if kind != "integer"]


class SchemaFacts:
    """Decides about the schemas of one document."""

    def __init__(self, alternatives: Callable[[Any, str], list[Constraints]], budget: Budget) -> None:
        self._alternatives, self._budget = alternatives, budget
        self._depth = 0
        self._patterns: dict[tuple[str, bool, bool], Automaton] = {}

    def matches(self, pattern: str, text: str, *, whole: bool = False, outer: bool = False) -> bool:
        """Whether a pattern matches a part of a text, or the whole text; `outer` as in `parse_regex`."""
        key = pattern, whole, outer
        if key not in self._patterns:
            expression = parse_regex(pattern, utf8, anchored=whole, outer=outer)
            self._patterns[key] = compile_expression(expression, self._budget)
        self._budget.spend(len(text))
        automaton, at = self._patterns[key], 0
        for byte in text.encode("utf-8", "surrogatepass"):
            at = automaton.edges[at].get(byte, -1)
            if at < 0:
                return False
        return at in automaton.accepting

    def schemas_of(self, name: str, constraints: Constraints, place: str) -> list[Any]:
        """The schemas of the value of a property; `[False]` where it may not be there."""
        if any(not self.allows(name, each, place) for each in constraints.get("names", ())):
            return [False]
        found: list[Any] = []
        for named, patterns, others, _ in constraints.get("objects", ()):
            mine = [named[name]] if name in named else []
            mine += [schema for pattern, schema in patterns.items() if self.matches(pattern, name)]
            found += mine or ([] if others is None else [others])
        return [False] if any(each is False for each in found) else found

    def allows(self, value: Any, schema: Any, place: str) -> bool:
        """Whether a value is valid by a schema; false where that is not certain."""
        return any(self.holds(value, each, place) for each in self._alternatives(schema, place))

    def holds(self, value: Any, constraints: Constraints, place: str, *, unless: bool = False) -> bool:
        """Whether a value meets all constraints.

        Args:
            unless: the answer where it is not certain.
        """
        kind = _kind(value)
        types = constraints.get("type", [kind])
        if kind not in types and not (kind == "integer" and "number" in types):
            return False
        if "enum" in constraints and not any(equal(value, each) for each in constraints["enum"]):
            return False
        if any(equal(value, each) for each in constraints.get("except", ())):
            return False
        if kind == "string":
            return self._string_holds(value, constraints, place, unless)
        if kind in ("integer", "number"):
            return _number_holds(value, constraints)
        if kind == "array":
            return self._array_holds(value, constraints, place, unless)
        return kind != "object" or self._object_holds(value, constraints, place, unless)

    def _string_holds(self, value: str, constraints: Constraints, place: str, unless: bool) -> bool:
        least, most = constraints.get("minLength", 0), constraints.get("maxLength", len(value))
        return (
            least <= len(value) <= most
            and all(self.matches(pattern, value) for pattern in constraints.get("pattern", ()))
            and not any(
                self.matches(pattern, value, outer=True) for pattern in constraints.get("no_pattern", ())
            )
            and (
                unless
                or all(self.matches(each, value, whole=True) for each in format_patterns(constraints, place))
            )
        )

    def _array_holds(self, value: list[Any], constraints: Constraints, place: str, unless: bool) -> bool:
        if not constraints.get("minItems", 0) <= len(value) <= constraints.get("maxItems", len(value)):
            return False
        for first, others, _ in constraints.get("arrays", ()):
            for i, each in enumerate(value):
                schema = first[i] if i < len(first) else others
                if schema is not None and not self._may(each, schema, place, unless):
                    return False
        for schema, least, most in constraints.get("contains", ()):
            count = sum(self._may(each, schema, place, unless=False) for each in value)
            if count < least or most is not None:
                return unless
        if constraints.get("uniqueItems"):
            return not any(equal(a, b) for i, a in enumerate(value) for b in value[:i])
        return True

    def _object_holds(
        self, value: dict[str, Any], constraints: Constraints, place: str, unless: bool
    ) -> bool:
        count = len(value)
        if not constraints.get("minProperties", 0) <= count <= constraints.get("maxProperties", count):
            return False
        return all(name in value for name in constraints.get("required", ())) and all(
            self._may(each, schema, place, unless)
            for name, each in value.items()
            for schema in self.schemas_of(name, constraints, place)
        )

    def _may(self, value: Any, schema: Any, place: str, unless: bool) -> bool:
        found = self._alternatives(schema, place)
        if unless and any("is_part" in each for each in found):
            return True
        return any(self.holds(value, each, place, unless=unless) for each in found)

    def apart_kinds(self, a: Constraints, b: Constraints, place: str) -> list[str]:
        """The types of the first for which it is certain that no value meets the constraints of both."""
        kinds = a.get("type", _ALL)
        if "is_part" in b:
            return []
        for one, other in ((a, b), (b, a)):
            if "enum" in one and "is_part" not in other:
                shared = [value for value in one["enum"] if self.holds(value, other, place, unless=True)]
                if not shared:
                    return list(kinds)
        return [
            kind
            for kind in kinds
            if not common_types([kind], b.get("type", [kind])) or self._disjoint_of(kind, a, b, place)
        ]

    def _disjoint_of(self, kind: str, a: Constraints, b: Constraints, place: str) -> bool:
        if kind == "object":
            names = {name: None for each in (a, b) for name in each.get("required", ())}
            return any(self._apart(name, a, b, place) for name in names)
        if kind == "array":
            if max(a.get("minItems", 0), b.get("minItems", 0)) < 1:
                return False
            both = [
                [first[0] if first else others for first, others, _ in each.get("arrays", ())]
                for each in (a, b)
            ]
            one, other = ([schema for schema in schemas if schema is not None] for schemas in both)
            return self._schemas_apart(one, other, place)
        merged = joined(a, b)
        if merged is None:
            return True
        if kind == "string":
            exact = {key: value for key, value in merged.items() if key != "format"}
            return not compile_expression(characters(exact, place, self._budget), self._budget).accepting
        if kind in ("number", "integer") and "least" in merged and "most" in merged:
            least, most = Decimal(merged["least"][0]), Decimal(merged["most"][0])
            return least > most or (least == most and (merged["least"][1] or merged["most"][1]))
        return False

    def _apart(self, name: str, a: Constraints, b: Constraints, place: str) -> bool:
        """Whether the value of a property that one of both requires cannot be that of both."""
        both = [{key: value for key, value in each.items() if key != "names"} for each in (a, b)]
        mine, other = (self.schemas_of(name, each, place) for each in both)
        return self._schemas_apart(mine, other, place)

    def _schemas_apart(self, one: Sequence[Any], other: Sequence[Any], place: str) -> bool:
        if self._depth >= _MOST_COMPARED:
            return False
        self._depth += 1
        try:
            first, second = (self._alternatives({"allOf": list(each)}, place) for each in (one, other))
            return all(
                len(self.apart_kinds(a, b, place)) == len(a.get("type", _ALL)) for a in first for b in second
            )
        finally:
            self._depth -= 1


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if value == int(value) else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _number_holds(value: float, constraints: Constraints) -> bool:
    exact = Fraction(Decimal(repr(value)))
    for key, sign in (("least", 1), ("most", -1)):
        if key in constraints:
            bound, excluded = constraints[key]
            gap = sign * (exact - Fraction(bound))
            if gap < 0 or (excluded and gap == 0):
                return False
    return all(
        (exact / Fraction(multiple)).denominator == 1 for multiple in constraints.get("multipleOf", ())
    )
