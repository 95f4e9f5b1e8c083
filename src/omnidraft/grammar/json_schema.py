"""JSON Schemas (2020-12, and what older drafts write alike) as expressions; the rest is refused by name.

Every text of the grammar is valid. Not every valid text is one of the grammar: properties come in the order
of the schema, a value has one writing, numbers have at most 15 digits, and where `additionalProperties` is
absent beside `properties` there are none. docs/generate.md lists the rest.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from omnidraft.errors import GrammarError
from omnidraft.grammar import json_text
from omnidraft.grammar.automaton import Automaton, compile_expression, difference, intersection
from omnidraft.grammar.budget import Budget
from omnidraft.grammar.expression import (
    Call,
    Embedded,
    Expression,
    Listing,
    Repetition,
    choice,
    literal,
    sequence,
)
from omnidraft.grammar.regex import parse_regex
from omnidraft.grammar.schema.alternatives import SchemaReader
from omnidraft.grammar.schema.constraints import Constraints, kinds_of, of_kind
from omnidraft.grammar.schema.items import distinct_values, items_of
from omnidraft.grammar.schema.keywords import check_depth
from omnidraft.grammar.schema.places import escaped
from omnidraft.grammar.schema.scalars import characters, number

MOST_NAME_CLASSES = 32


class SchemaCompiler:
    """Compiles one schema; its rules are the objects and arrays that contain themselves."""

    def __init__(
        self, schema: Any, style: str, budget: Budget, *, shares: bool = False, name: str = ""
    ) -> None:
        """
        Args:
            shares: all objects and arrays are rules, which takes less work where they occur often; two that
                may stand in one place are then refused.
            name: tells the rules of this schema from those of others in the same grammar.
        """
        self._shares, self._name = shares, name
        self._reader, self._style, self._budget = (
            SchemaReader(schema, budget),
            json_text.style_of(style),
            budget,
        )
        self.rules: dict[str, Expression] = {}
        self._open: dict[str, bool] = {}  # objects and arrays that are being compiled; whether they are rules
        self._done: dict[str, Expression] = {}

    def compile(self) -> Expression:
        """The expression of the schema; `rules` has those that it calls.

        Raises:
            GrammarError: naming the keyword that is not supported, and its place.
        """
        return self._value(self._reader.root, "#")

    def _value(self, node: Any, place: str) -> Expression:
        scalars: list[Expression] = []
        nested: dict[str, list[Constraints]] = {}
        for each in self._reader.alternatives(node, place):
            if "enum" in each:
                scalars += self._constants(each, place)
                continue
            for kind in kinds_of(each):
                if kind in ("object", "array"):
                    nested.setdefault(kind, []).append(self._nested_of(kind, each, place))
                else:
                    scalars.append(self._scalar(kind, each, place))
        return choice([*scalars, *(self._nested(kind, parts, place) for kind, parts in nested.items())])

    def _constants(self, of: Constraints, place: str) -> Iterable[Expression]:
        values = [each for each in of["enum"] if self._reader.facts.holds(each, of, place)]
        return [json_text.constant(each, self._style) for each in values]

    def _scalar(self, kind: str, of: Constraints, place: str) -> Expression:
        if kind == "string":
            return json_text.string(characters(of, place, self._budget))
        if kind in ("integer", "number"):
            return number(kind, of, place, self._budget)
        values = [None] if kind == "null" else [True, False]
        return choice(
            json_text.constant(each, self._style)
            for each in values
            if not any(each is other for other in of.get("except", ()))
        )

    def _nested_of(self, kind: str, of: Constraints, place: str) -> Constraints:
        excepted = [v for v in of.get("except", ()) if isinstance(v, dict if kind == "object" else list)]
        if any(excepted):
            raise GrammarError(
                f"the schema at {place} excludes the value {excepted[-1]!r:.60}, which is not supported",
                "list the values that are allowed, with enum",
            )
        found = of_kind(of, kind)
        least = "minProperties" if kind == "object" else "minItems"
        return {**found, least: max(1, found.get(least, 0))} if excepted else found

    def _nested(self, kind: str, parts: Sequence[Constraints], place: str) -> Expression:
        """The objects or arrays of some alternatives: a rule where they contain themselves."""
        if not all(parts):
            parts = [{}]  # any object is one of the others, too
        name = f"{kind} {self._name}{json.dumps(parts)}"
        self._budget.spend(len(name) // 100)
        if name in self._done:
            return self._done[name]
        if name in self._open:
            self._open[name] = True
            return Call(name)
        check_depth(len(self._open), place)
        self._open[name] = parts == [{}] or (self._shares and bool(self._open))
        write = self._object if kind == "object" else self._array
        found = choice([write(part, place) for part in parts])
        if self._open.pop(name):
            self.rules[name] = found
            found = Call(name)
        self._done[name] = found
        return found

    def _object(self, of: Constraints, place: str) -> Expression:
        facts, style = self._reader.facts, self._style
        required = of.get("required", [])
        known = dict.fromkeys(
            [*(name for named, _, _, _ in of.get("objects", ()) for name in named), *required]
        )
        items: list[tuple[Expression, bool]] = []
        for name in known:
            schemas = facts.schemas_of(name, of, place)
            if schemas != [False] or name in required:
                value = self._value(_all_of(schemas), f"{place}/properties/{escaped(name)}")
                entry = sequence(json_text.constant(name, style), style.colon, value)
                items.append((entry, name in required))
        others = [
            sequence(
                Embedded(key), style.colon, self._value(_all_of(schemas), f"{place}/additionalProperties")
            )
            for key, schemas in self._other_names(of, list(known), place)
        ]
        least = of.get("minProperties", 0)
        if others and least > len(items) + 1:  # other names may be written twice, so they do not count
            raise GrammarError(
                f"the schema at {place} has minProperties {least} and {len(items)} named properties, and of "
                "the others one at most is counted",
                "name the properties, or ask for fewer",
            )
        return self._listed("{", "}", Listing(
            tuple(items), style.comma, choice(others) if others else None, least, of.get("maxProperties"),
        ))  # fmt: skip

    def _listed(self, begin: str, end: str, inside: Listing) -> Expression:
        if inside.most is not None and inside.rest is None and inside.most >= len(inside.items):
            inside = Listing(inside.items, inside.separator, None, inside.least)
        gap = self._style.inner
        return sequence(literal(begin), gap, inside, gap, literal(end))

    def _other_names(
        self, of: Constraints, known: Sequence[str], place: str
    ) -> list[tuple[Automaton, list[Any]]]:
        """The names that no schema mentions, in classes, with the schemas of their values."""
        objects = of.get("objects", [])
        if not objects and known:
            return []
        free = not objects
        if not free and all(not patterns and others in (None, False) for _, patterns, others, _ in objects):
            return []
        names = self._names(of, known, place)
        classes: list[tuple[Automaton, set[str]]] = [(names, set())]
        for pattern in dict.fromkeys(pattern for _, patterns, _, _ in objects for pattern in patterns):
            body = json_text.string(parse_regex(pattern, json_text.character, anchored=False))
            machine = compile_expression(body, self._budget)
            split = [
                (part, matched | more)
                for names, matched in classes
                for part, more in (
                    (intersection(names, machine, self._budget), {pattern}),
                    (difference(names, machine, self._budget), set()),
                )
            ]
            classes = [each for each in split if each[0].accepting]
            if len(classes) > MOST_NAME_CLASSES:
                raise GrammarError(
                    f"the schema at {place} has patternProperties that overlap in too many ways",
                    "give patterns of which no name matches two",
                )
        found = []
        for names, matched in classes:
            schemas: list[Any] = []
            for _, patterns, others, _ in objects:
                mine = [schema for pattern, schema in patterns.items() if pattern in matched]
                schemas += mine or ([] if others is None else [others])
            if (schemas or free) and not any(each is False for each in schemas):
                found.append((names, schemas))
        return found

    def _names(self, of: Constraints, known: Sequence[str], place: str) -> Automaton:
        """The names that are allowed and not known, with their quotation marks."""
        schema = _all_of([*of.get("names", ()), {"type": "string"}])
        texts: list[Expression] = []
        for each in self._reader.alternatives(schema, f"{place}/propertyNames"):
            if "enum" in each:
                texts += self._constants(each, place)
            else:
                texts.append(json_text.string(characters(each, place, self._budget)))
        names = compile_expression(choice(texts), self._budget)
        if known:
            taken = choice(json_text.constant(name, self._style) for name in known)
            names = difference(names, compile_expression(taken, self._budget), self._budget)
        return names

    def _array(self, of: Constraints, place: str) -> Expression:
        comma, place = self._style.comma, f"{place}/items"
        if of.get("uniqueItems") and of.get("maxItems", 2) > 1:
            values = distinct_values(self._reader, of, place)
            constants = tuple((json_text.constant(each, self._style), False) for each in values)
            return self._listed(
                "[", "]", Listing(constants, comma, None, of.get("minItems", 0), of.get("maxItems"))
            )
        items = items_of(of, place)
        if items is None:
            return choice(())
        parts = [(self._value(_all_of(each), place), True) for each in items.first]
        room = None if items.most is None else items.most - len(parts)
        if items.rest is not None and room != 0:
            item, least = self._value(_all_of(items.rest), place), max(0, items.least - len(parts))
            most = None if room is None else room - 1
            more = Repetition(sequence(comma, item), max(0, least - 1), most)
            parts.append((sequence(item, more), least > 0))
        return self._listed("[", "]", Listing(tuple(parts), comma))


def _all_of(schemas: Sequence[Any]) -> Any:
    return schemas[0] if len(schemas) == 1 else {"allOf": list(schemas)} if schemas else True
