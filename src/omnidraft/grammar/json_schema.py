"""JSON Schema (2020-12, and what older drafts write alike) as expressions; the rest is refused by name.

Every text of the grammar is valid. Not every valid text is one of the grammar: properties come in the order
of the schema, a value has one writing, numbers have at most 15 digits, and where `additionalProperties` is
absent beside `properties` there are none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from omnidraft.errors import GrammarError
from omnidraft.grammar import json_text
from omnidraft.grammar.automaton import (
    Automaton,
    Budget,
    compile_expression,
    difference,
    intersection,
    is_empty,
)
from omnidraft.grammar.expression import (
    EMPTY,
    Call,
    Embedded,
    Expression,
    Listing,
    Repetition,
    choice,
    literal,
    sequence,
)
from omnidraft.grammar.schema_places import escaped, recursive_places, resolve
from omnidraft.grammar.schema_scalars import characters, number
from omnidraft.grammar.schema_values import MOST_ITEMS, count_of, equal, is_of, join, list_of, text_of

MOST_DEPTH = 64
TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_NOTES = {
    "$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "title", "description", "default",
    "examples", "example", "deprecated", "readOnly", "writeOnly", "contentMediaType", "contentEncoding",
}  # fmt: skip
_OF_TYPE = {
    "object": {"properties", "required", "additionalProperties", "minProperties", "maxProperties",
               "propertyNames", "patternProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}  # fmt: skip
_KNOWN = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "nullable"}.union(*_OF_TYPE.values())
_ANY = "#any"


class SchemaCompiler:
    """Compiles one schema; its rules are the objects and arrays that contain themselves."""

    def __init__(self, schema: Any, style: str, budget: Budget, name: str = "") -> None:
        """
        Args:
            name: tells the rules of this schema from those of others in the same grammar.
        """
        self._root, self._style, self._budget = schema, json_text.style_of(style), budget
        self._name = name
        self._recursive = recursive_places(schema)
        self.rules: dict[str, Expression] = {}
        self._waiting: list[tuple[str, Any, str, str]] = []

    def compile(self) -> Expression:
        """The expression of the schema; `rules` has those that it calls.

        Raises:
            GrammarError: naming the keyword that is not supported, and its place.
        """
        start = self._value(self._root, "#", 0)
        while self._waiting:
            name, node, place, kind = self._waiting.pop()
            self.rules[name] = (
                self._object(node, place, 0) if kind == "object" else self._array(node, place, 0)
            )
        return start

    def _value(self, node: Any, place: str, depth: int) -> Expression:
        if depth > MOST_DEPTH:
            raise GrammarError(
                f"the schema at {place} is nested or refers to itself more than {MOST_DEPTH} deep"
            )
        if node is True or node == {}:
            return self._anything()
        if node is False:
            return choice(())
        if not isinstance(node, dict):
            raise GrammarError(f"the schema at {place} is {node!r:.40} and not an object")
        unknown = [
            key for key in node if key not in _KNOWN and key not in _NOTES and not key.startswith("x-")
        ]
        if unknown:
            raise GrammarError(f"the schema at {place} has {unknown[0]!r:.40}, which is not supported")
        asked = {key: value for key, value in node.items() if key in _KNOWN}
        for key in ("$ref", "allOf"):
            if key in asked:
                return self._merged(asked, key, place, depth)
        if "enum" in asked or "const" in asked:
            return self._constants(asked, place)
        for key in ("anyOf", "oneOf"):
            if key in asked:
                return self._alternatives(asked, key, place, depth)
        kinds = self._kinds(asked, place)
        return choice(self._of_kind(kind, asked, place, depth) for kind in kinds)

    def _kinds(self, node: Mapping[str, Any], place: str) -> list[str]:
        """The types of a node: as given, else those that its keywords are about, else all."""
        given = node.get("type")
        if given is None:
            kinds = [kind for kind, keys in _OF_TYPE.items() if keys & node.keys()] or list(TYPES)
        else:
            kinds = list(given) if isinstance(given, list) else [given]
        for kind in kinds:
            if kind not in TYPES:
                raise GrammarError(
                    f"the schema at {place} has the type {kind!r:.40}, which JSON does not have"
                )
        if node.get("nullable") is True and "null" not in kinds:
            kinds.append("null")
        return [kind for kind in kinds if not (kind == "integer" and "number" in kinds)]

    def _of_kind(self, kind: str, node: Mapping[str, Any], place: str, depth: int) -> Expression:
        if kind in ("object", "array"):
            free = not (_OF_TYPE[kind] & node.keys())
            name = _ANY if free else place
            if free or place in self._recursive:
                return self._call(name, {} if free else node, kind)
            return (self._object if kind == "object" else self._array)(node, place, depth + 1)
        if kind == "string":
            return json_text.string(characters(node, place, self._budget))
        if kind in ("integer", "number"):
            return number(kind, node, place, self._budget)
        return choice([literal("true"), literal("false")]) if kind == "boolean" else literal("null")

    def _call(self, place: str, node: Mapping[str, Any], kind: str) -> Expression:
        name = f"{kind} {place}" if place == _ANY else f"{kind} {self._name}{place}"
        if name not in self.rules:
            self.rules[name] = EMPTY  # until it is compiled
            self._waiting.append((name, node, place, kind))
        return Call(name)

    def _anything(self) -> Expression:
        scalars = (self._of_kind(kind, {}, _ANY, 0) for kind in ("string", "number", "boolean", "null"))
        return choice([*scalars, self._call(_ANY, {}, "object"), self._call(_ANY, {}, "array")])

    def _merged(self, node: dict[str, Any], key: str, place: str, depth: int) -> Expression:
        """A reference or `allOf`, with the keywords beside it."""
        beside = {name: value for name, value in node.items() if name != key}
        if key == "$ref":
            parts = [resolve(self._root, node[key], place)]
            if not beside:
                return self._value(*parts[0], depth + 1)
        else:
            parts = [(each, place) for each in list_of(node[key], place, key)]
        merged: dict[str, Any] = {}
        for part, where in [*parts, *([(beside, place)] if beside else [])]:
            while isinstance(part, dict) and "$ref" in part and not (part.keys() - _NOTES - {"$ref"}):
                part, where = resolve(self._root, part["$ref"], where)
            if part is True:
                continue
            if not isinstance(part, dict) or where in self._recursive:
                raise GrammarError(
                    f"the schema at {place} joins {key} with a schema that it cannot be joined with"
                )
            join(merged, {k: v for k, v in part.items() if k not in _NOTES}, place)
        return self._value(merged, place, depth + 1)

    def _constants(self, node: Mapping[str, Any], place: str) -> Expression:
        values = list_of(node["enum"], place, "enum") if "enum" in node else [node["const"]]
        if "enum" in node and "const" in node:
            values = [each for each in values if equal(each, node["const"])]
        beside = node.keys() - {"enum", "const", "type", "nullable"}
        if beside:
            raise GrammarError(
                f"the schema at {place} has {min(beside)!r} beside its constants; give these alone"
            )
        if "type" in node:
            kinds = self._kinds(node, place)
            values = [each for each in values if is_of(each, kinds)]
        if not values:
            raise GrammarError(f"the schema at {place} allows no value")
        return choice(json_text.constant(each, self._style) for each in values)

    def _alternatives(self, node: Mapping[str, Any], key: str, place: str, depth: int) -> Expression:
        beside = {name: value for name, value in node.items() if name != key}
        parts = []
        for i, each in enumerate(list_of(node[key], place, key)):
            if beside:
                parts.append(self._value({"allOf": [beside, each]}, f"{place}/{key}/{i}", depth + 1))
            else:
                parts.append(self._value(each, f"{place}/{key}/{i}", depth + 1))
        if key == "oneOf" and len(parts) > 1:
            self._check_distinct(parts, place)
        return choice(parts)

    def _check_distinct(self, parts: Sequence[Expression], place: str) -> None:
        """Refuse alternatives of `oneOf` of which a text may match two; rules differ by their first byte."""
        automata = [compile_expression(part, self._budget) for part in parts]
        for i, a in enumerate(automata):
            for b in automata[:i]:
                shared = _first_bytes(a) & _first_bytes(b)
                if shared and (
                    _has_calls(a) or _has_calls(b) or not is_empty(intersection(a, b, self._budget))
                ):
                    raise GrammarError(
                        f"two schemas of oneOf at {place} allow the same text, or may",
                        "use anyOf, or tell them apart",
                    )

    def _object(self, node: Mapping[str, Any], place: str, depth: int) -> Expression:
        properties = node.get("properties", {})
        if not isinstance(properties, dict) or len(properties) > MOST_ITEMS:
            raise GrammarError(
                f"the schema at {place} has properties that are no object of at most {MOST_ITEMS}"
            )
        required = list_of(node.get("required", []), place, "required")
        closed = "properties" in node or "required" in node
        additional = node.get("additionalProperties", not closed and "patternProperties" not in node)
        names = [
            *properties,
            *(text_of(name, place, "required") for name in required if name not in properties),
        ]
        items: list[tuple[Expression, bool]] = []
        for name in dict.fromkeys(names):
            if name not in properties and additional is False and closed and "additionalProperties" in node:
                raise GrammarError(f"the schema at {place} requires {name!r:.40} and does not allow it")
            value = properties.get(name, True if additional is False else additional)
            below = f"{place}/properties/{escaped(name)}"
            entry = sequence(
                json_text.constant(name, self._style), self._style.colon, self._value(value, below, depth)
            )
            items.append((entry, name in required))
        least = count_of(node, "minProperties", 0, MOST_ITEMS, place) or 0
        most = count_of(node, "maxProperties", None, MOST_ITEMS, place)
        items += self._others(node, place, depth, additional, names, max(0, least), most)
        inside = Listing(tuple(items), self._style.comma) if items else EMPTY
        gap = self._style.inner
        return sequence(literal("{"), gap, inside, gap, literal("}"))

    def _others(
        self, node: Mapping[str, Any], place: str, depth: int, additional: Any, names: Sequence[str],
        least: int, most: int | None,
    ) -> list[tuple[Expression, bool]]:  # fmt: skip
        """The entries besides `properties`, as an item of a chain."""
        required = len(list_of(node.get("required", []), place, "required"))
        patterns = node.get("patternProperties", {})
        if (
            not isinstance(patterns, dict)
            or len(patterns) > 1
            or (patterns and additional not in (False, None))
        ):
            raise GrammarError(
                f"the schema at {place} has several patternProperties, or additionalProperties too"
            )
        values: Any = next(iter(patterns.values()), additional)
        if values is False:
            if least > required or (most is not None and most < len(names)):
                raise GrammarError(
                    f"the schema at {place} has minProperties or maxProperties beside optional properties"
                )
            return []
        if least > max(1, required) or (most is not None and (names or most < least)):
            raise GrammarError(
                f"the schema at {place} has minProperties or maxProperties that need different names"
            )
        keys: Mapping[str, Any] = {}
        if "propertyNames" in node:
            keys = node["propertyNames"]
            if not isinstance(keys, dict) or keys.keys() - _OF_TYPE["string"] - {"type"} - _NOTES:
                raise GrammarError(f"the schema at {place} has propertyNames of a kind that is not supported")
        if patterns:
            keys = {**keys, "pattern": next(iter(patterns))}
        key = compile_expression(json_text.string(characters(keys, place, self._budget)), self._budget)
        if names:
            taken = choice(json_text.constant(name, self._style) for name in names)
            key = difference(key, compile_expression(taken, self._budget), self._budget)
        where = f"{place}/patternProperties" if patterns else f"{place}/additionalProperties"
        entry = sequence(Embedded(key), self._style.colon, self._value(values, where, depth))
        more = Repetition(sequence(self._style.comma, entry), 0, None if most is None else max(0, most - 1))
        if most == 0:
            return []
        return [(sequence(entry, more), least > required)]

    def _array(self, node: Mapping[str, Any], place: str, depth: int) -> Expression:
        first = list_of(node.get("prefixItems", []), place, "prefixItems")
        items = node.get("items", True)
        least = count_of(node, "minItems", 0, MOST_ITEMS, place) or 0
        most = count_of(node, "maxItems", None, MOST_ITEMS, place)
        if most is not None and most < least:
            raise GrammarError(f"the schema at {place} allows no array: minItems {least}, maxItems {most}")
        first = first if most is None else first[:most]
        parts: list[tuple[Expression, bool]] = []
        for i, each in enumerate(first):
            parts.append((self._value(each, f"{place}/prefixItems/{i}", depth), True))
        room = None if most is None else most - len(first)
        rest = max(0, least - len(first))
        if items is False and rest:
            raise GrammarError(f"the schema at {place} has minItems {least} and items for {len(first)}")
        if items is not False and room != 0 and (not first or rest or "items" in node):
            item = self._value(items, f"{place}/items", depth)
            more = Repetition(
                sequence(self._style.comma, item), max(0, rest - 1), None if room is None else room - 1
            )
            parts.append((sequence(item, more), rest > 0))
        inside = Listing(tuple(parts), self._style.comma) if parts else EMPTY
        gap = self._style.inner
        return sequence(literal("["), gap, inside, gap, literal("]"))


def _first_bytes(automaton: Automaton) -> set[int]:
    return {*automaton.edges[0], *(ord("{["[rule.startswith("array")]) for rule in automaton.calls[0])}


def _has_calls(automaton: Automaton) -> bool:
    return any(automaton.calls)
