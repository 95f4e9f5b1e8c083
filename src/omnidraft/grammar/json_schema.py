"""JSON Schema (2020-12, and what older drafts write alike) as expressions; what is not supported is refused by name.

Every text of the grammar is valid; not every valid text is one of the grammar: properties come in the order of
the schema, a value has one writing, numbers have at most 15 digits, and where `additionalProperties` is absent
beside `properties` there are none.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from omnidraft.errors import GrammarError
from omnidraft.grammar import json_text, numbers
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
    Chain,
    Embedded,
    Expression,
    Repeat,
    choice,
    literal,
    sequence,
)
from omnidraft.grammar.regex import parse_regex

MOST_DEPTH, MOST_ITEMS, MOST_LENGTH, MOST_NODES = 64, 1000, 4000, 10_000
MOST_MULTIPLE = 1000
TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_NOTES = {
    "$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "title", "description", "default", "examples",
    "deprecated", "readOnly", "writeOnly", "contentMediaType", "contentEncoding", "example",
}  # fmt: skip
_OF_TYPE = {
    "object": {"properties", "required", "additionalProperties", "minProperties", "maxProperties", "propertyNames",
               "patternProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}  # fmt: skip
_KNOWN = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "nullable"}.union(*_OF_TYPE.values())
_DAY = r"(0[1-9]|1\d|2[0-8])"
_DATE = rf"\d{{4}}-(((0[13578]|1[02])-({_DAY}|29|30|31))|((0[469]|11)-({_DAY}|29|30))|(02-{_DAY}))"
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+\-]([01]\d|2[0-3]):[0-5]\d)"
_BYTE = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9\-]{0,30}[A-Za-z0-9])?"
FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": rf"{_DATE}T{_TIME}",
    "email": rf"[A-Za-z0-9_+\-]+(\.[A-Za-z0-9_+\-]+)*@{_LABEL}(\.{_LABEL})+",
    "hostname": rf"{_LABEL}(\.{_LABEL}){{0,5}}",
    "ipv4": rf"{_BYTE}\.{_BYTE}\.{_BYTE}\.{_BYTE}",
    "ipv6": r"([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "uri": r"https?://[A-Za-z0-9\-]+(\.[A-Za-z0-9\-]+)*(:\d{1,5})?(/[A-Za-z0-9_.~!$&'()*+,;=:@\-]*)*"
    r"(\?[A-Za-z0-9_.~!$&'()*+,;=:@/?\-]*)?(#[A-Za-z0-9_.~!$&'()*+,;=:@/?\-]*)?",
    "duration": r"P(\d{1,4}Y)?(\d{1,4}M)?\d{1,4}D(T(\d{1,4}H)?(\d{1,4}M)?\d{1,4}S)?",
}
_ANY = "#any"


class SchemaCompiler:
    """Compiles one schema; its rules are the objects and arrays that contain themselves."""

    def __init__(self, schema: Any, style: str, budget: Budget) -> None:
        self._root, self._style, self._budget = schema, json_text.style_of(style), budget
        self._recursive = _recursive_places(schema)
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
            return json_text.string(self._characters(node, place))
        if kind in ("integer", "number"):
            return self._number(kind, node, place)
        return choice([literal("true"), literal("false")]) if kind == "boolean" else literal("null")

    def _call(self, place: str, node: Mapping[str, Any], kind: str) -> Expression:
        name = f"{kind} {place}"
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
        parts = (
            [(node[key], place)]
            if key == "$ref"
            else [(each, place) for each in _list(node[key], place, key)]
        )
        if key == "$ref":
            target, where = self._resolve(node[key], place)
            if not beside:
                return self._value(target, where, depth + 1)
            parts = [(target, where)]
        merged: dict[str, Any] = {}
        for part, where in [*parts, *([(beside, place)] if beside else [])]:
            while isinstance(part, dict) and "$ref" in part and not (part.keys() - _NOTES - {"$ref"}):
                part, where = self._resolve(part["$ref"], where)
            if part is True:
                continue
            if not isinstance(part, dict) or where in self._recursive:
                raise GrammarError(
                    f"the schema at {place} joins {key} with a schema that it cannot be joined with"
                )
            _join(merged, {k: v for k, v in part.items() if k not in _NOTES}, place)
        return self._value(merged, place, depth + 1)

    def _constants(self, node: Mapping[str, Any], place: str) -> Expression:
        values = _list(node["enum"], place, "enum") if "enum" in node else [node["const"]]
        if "enum" in node and "const" in node:
            values = [each for each in values if _equal(each, node["const"])]
        beside = node.keys() - {"enum", "const", "type", "nullable"}
        if beside:
            raise GrammarError(
                f"the schema at {place} has {min(beside)!r} beside its constants; give these alone"
            )
        if "type" in node:
            kinds = self._kinds(node, place)
            values = [each for each in values if _is_of(each, kinds)]
        if not values:
            raise GrammarError(f"the schema at {place} allows no value")
        return choice(json_text.constant(each, self._style) for each in values)

    def _alternatives(self, node: Mapping[str, Any], key: str, place: str, depth: int) -> Expression:
        beside = {name: value for name, value in node.items() if name != key}
        parts = []
        for i, each in enumerate(_list(node[key], place, key)):
            if beside:
                parts.append(self._value({"allOf": [beside, each]}, f"{place}/{key}/{i}", depth + 1))
            else:
                parts.append(self._value(each, f"{place}/{key}/{i}", depth + 1))
        if key == "oneOf" and len(parts) > 1:
            self._check_distinct(parts, place)
        return choice(parts)

    def _check_distinct(self, parts: Sequence[Expression], place: str) -> None:
        """Refuse alternatives of `oneOf` of which a text may match two; rules are told by their first byte."""
        automata = [compile_expression(part, self._budget) for part in parts]
        for i, a in enumerate(automata):
            for b in automata[:i]:
                shared = _first_bytes(a) & _first_bytes(b)
                if shared and (
                    _has_calls(a) or _has_calls(b) or not is_empty(intersection(a, b, self._budget))
                ):
                    raise GrammarError(
                        f"two schemas of oneOf at {place} allow the same text, or may; use anyOf, or tell them apart"
                    )

    def _characters(self, node: Mapping[str, Any], place: str) -> Expression:
        least = _count(node, "minLength", 0, MOST_LENGTH, place)
        most = _count(node, "maxLength", None, MOST_LENGTH, place)
        machines = []
        if "pattern" in node:
            pattern = _text(node["pattern"], place, "pattern")
            machines.append(parse_regex(pattern, json_text.character, anchored=False))
        if "format" in node:
            name = _text(node["format"], place, "format")
            if name not in FORMATS:
                raise GrammarError(
                    f"the schema at {place} has the format {name!r:.40}, which is not supported; "
                    f"there are {', '.join(FORMATS)}"
                )
            machines.append(parse_regex(FORMATS[name], json_text.character, anchored=True))
        assert least is not None
        if not machines:
            if most is not None and most < least:
                raise GrammarError(
                    f"the schema at {place} allows no string: minLength {least}, maxLength {most}"
                )
            return json_text.characters(least, most)
        if least or most is not None:
            machines.append(json_text.characters(least, most))
        if len(machines) == 1:
            return machines[0]
        found = compile_expression(machines[0], self._budget)
        for each in machines[1:]:
            found = intersection(found, compile_expression(each, self._budget), self._budget)
        if is_empty(found):
            raise GrammarError(f"the schema at {place} allows no string")
        return Embedded(found)

    def _number(self, kind: str, node: Mapping[str, Any], place: str) -> Expression:
        least, above = _bound(node, "minimum", "exclusiveMinimum", place, max)
        most, below = _bound(node, "maximum", "exclusiveMaximum", place, min)
        multiple = None if "multipleOf" not in node else _decimal(node["multipleOf"], place, "multipleOf")
        if multiple is not None and multiple <= 0:
            raise GrammarError(f"the schema at {place} has multipleOf {multiple}, which is not above 0")
        whole = multiple is not None and multiple == multiple.to_integral_value()
        if kind == "number" and not whole:
            places = numbers.MOST_DIGITS
            if multiple is not None:
                digits, exponent = multiple.normalize().as_tuple()[1:]
                if digits != (1,) or not isinstance(exponent, int) or -exponent > numbers.MOST_DIGITS:
                    raise GrammarError(
                        f"the schema at {place} has multipleOf {multiple}; 0.1, 0.01 and so on are supported"
                    )
                places = -exponent
            if least is None and most is None and multiple is None:
                return numbers.any_number()
            found = numbers.decimals(least, most, above=above, below=below, places=places)
        else:
            low = (
                None
                if least is None
                else numbers.ceiling(least) + (above and least == numbers.ceiling(least))
            )
            high = None if most is None else numbers.floor(most) - (below and most == numbers.floor(most))
            found = numbers.integers(low, high)
            if multiple is not None and (kind == "number" or whole) and multiple != 1:
                if not whole or multiple > MOST_MULTIPLE:
                    raise GrammarError(
                        f"the schema at {place} has multipleOf {multiple}; whole numbers up to {MOST_MULTIPLE} are supported"
                    )
                both = intersection(
                    compile_expression(found, self._budget), numbers.multiples(int(multiple)), self._budget
                )
                found = Embedded(both)
            elif multiple is not None and not whole:
                inverse = 1 / multiple
                if (
                    inverse != inverse.to_integral_value()
                ):  # such as 0.3: its integer multiples are not all integers
                    raise GrammarError(f"the schema at {place} has multipleOf {multiple} for integers")
        if is_empty(compile_expression(found, self._budget)):
            raise GrammarError(f"the schema at {place} allows no number")
        return found

    def _object(self, node: Mapping[str, Any], place: str, depth: int) -> Expression:
        properties = node.get("properties", {})
        if not isinstance(properties, dict) or len(properties) > MOST_ITEMS:
            raise GrammarError(
                f"the schema at {place} has properties that are no object of at most {MOST_ITEMS}"
            )
        required = _list(node.get("required", []), place, "required")
        closed = "properties" in node or "required" in node
        additional = node.get("additionalProperties", not closed and "patternProperties" not in node)
        names = [
            *properties,
            *(_text(name, place, "required") for name in required if name not in properties),
        ]
        items: list[tuple[Expression, bool]] = []
        for name in dict.fromkeys(names):
            if name not in properties and additional is False and closed and "additionalProperties" in node:
                raise GrammarError(f"the schema at {place} requires {name!r:.40} and does not allow it")
            value = properties.get(name, True if additional is False else additional)
            below = f"{place}/properties/{_escaped(name)}"
            entry = sequence(
                json_text.constant(name, self._style), self._style.colon, self._value(value, below, depth)
            )
            items.append((entry, name in required))
        least = _count(node, "minProperties", 0, MOST_ITEMS, place) or 0
        most = _count(node, "maxProperties", None, MOST_ITEMS, place)
        items += self._others(node, place, depth, additional, names, max(0, least), most)
        inside = Chain(tuple(items), self._style.comma) if items else EMPTY
        gap = self._style.inner
        return sequence(literal("{"), gap, inside, gap, literal("}"))

    def _others(
        self, node: Mapping[str, Any], place: str, depth: int, additional: Any, names: Sequence[str],
        least: int, most: int | None,
    ) -> list[tuple[Expression, bool]]:  # fmt: skip
        """The entries besides `properties`, as an item of a chain."""
        required = len(_list(node.get("required", []), place, "required"))
        patterns = node.get("patternProperties", {})
        if (
            not isinstance(patterns, dict)
            or len(patterns) > 1
            or (patterns and additional not in (False, None))
        ):
            raise GrammarError(
                f"the schema at {place} has patternProperties of several patterns, or beside additionalProperties"
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
        key = compile_expression(json_text.string(self._characters(keys, place)), self._budget)
        if names:
            taken = choice(json_text.constant(name, self._style) for name in names)
            key = difference(key, compile_expression(taken, self._budget), self._budget)
        where = f"{place}/patternProperties" if patterns else f"{place}/additionalProperties"
        entry = sequence(Embedded(key), self._style.colon, self._value(values, where, depth))
        more = Repeat(sequence(self._style.comma, entry), 0, None if most is None else max(0, most - 1))
        if most == 0:
            return []
        return [(sequence(entry, more), least > required)]

    def _array(self, node: Mapping[str, Any], place: str, depth: int) -> Expression:
        first = _list(node.get("prefixItems", []), place, "prefixItems")
        items = node.get("items", True)
        least = _count(node, "minItems", 0, MOST_ITEMS, place) or 0
        most = _count(node, "maxItems", None, MOST_ITEMS, place)
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
            more = Repeat(
                sequence(self._style.comma, item), max(0, rest - 1), None if room is None else room - 1
            )
            parts.append((sequence(item, more), rest > 0))
        inside = Chain(tuple(parts), self._style.comma) if parts else EMPTY
        gap = self._style.inner
        return sequence(literal("["), gap, inside, gap, literal("]"))

    def _resolve(self, reference: Any, place: str) -> tuple[Any, str]:
        return resolve(self._root, reference, place)


def resolve(root: Any, reference: Any, place: str) -> tuple[Any, str]:
    """What a reference within the schema points to, and its place.

    Raises:
        GrammarError: it points nowhere, or out of the schema.
    """
    reference = _text(reference, place, "$ref")
    if not reference.startswith("#") or (len(reference) > 1 and reference[1] != "/"):
        raise GrammarError(f"the schema at {place} refers to {reference!r:.60}, which is not in it (#/...)")
    node = root
    for part in reference[2:].split("/") if len(reference) > 1 else []:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        else:
            raise GrammarError(f"the schema at {place} refers to {reference!r:.60}, which is not there")
    return node, reference


def _recursive_places(root: Any) -> set[str]:
    """The places of objects and arrays that contain themselves, by a reference."""
    below: dict[str, list[str]] = {}
    waiting = [("#", root)]
    while waiting:
        place, node = waiting.pop()
        if place in below:
            continue
        if len(below) > MOST_NODES:
            raise GrammarError(f"the schema has more than {MOST_NODES:,} parts")
        children = list(_children(root, place, node)) if isinstance(node, dict) else []
        below[place] = [where for where, _ in children]
        waiting += children
    return {place for component in _cycles(below) for place in component}


def _children(root: Any, place: str, node: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    if isinstance(node.get("$ref"), str):
        target, where = resolve(root, node["$ref"], place)
        found.append((where, target))
    if isinstance(node.get("properties"), dict):
        found += [(f"{place}/properties/{_escaped(k)}", v) for k, v in node["properties"].items()]
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            found.append((f"{place}/{key}", node[key]))
    if isinstance(node.get("patternProperties"), dict):
        found += [(f"{place}/patternProperties", v) for v in node["patternProperties"].values()]
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(node.get(key), list):
            found += [(f"{place}/{key}/{i}", v) for i, v in enumerate(node[key])]
    return found


def _cycles(below: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The strongly connected components of more than one place, and places below themselves (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: dict[str, None] = {}
    found: list[list[str]] = []
    for start in below:
        if start in index:
            continue
        walk = [(start, iter(below[start]))]
        index[start] = low[start] = len(index)
        open_[start] = None
        while walk:
            place, children = walk[-1]
            for child in children:
                if child not in index:
                    index[child] = low[child] = len(index)
                    open_[child] = None
                    walk.append((child, iter(below[child])))
                    break
                if child in open_:
                    low[place] = min(low[place], index[child])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[place])
                if low[place] == index[place]:
                    component = []
                    while True:
                        last, _ = open_.popitem()
                        component.append(last)
                        if last == place:
                            break
                    if len(component) > 1 or place in below[place]:
                        found.append(component)
    return found


def _join(merged: dict[str, Any], part: Mapping[str, Any], place: str) -> None:
    """Add the keywords of a schema to those of another; both must hold."""
    for rest, named in (("additionalProperties", "properties"), ("items", "prefixItems")):
        for a, b in ((merged, part), (part, merged)):
            if rest in a and named in b and not _equal(a.get(named), b[named]):
                raise GrammarError(f"the schema at {place} joins {rest} with {named} of another schema")
    for key, value in part.items():
        if key not in merged:
            merged[key] = value
        elif key == "properties" and not merged[key].keys() & value.keys():
            merged[key] = {**merged[key], **value}
        elif key == "required":
            merged[key] = list(dict.fromkeys([*merged[key], *value]))
        elif not _equal(merged[key], value):
            raise GrammarError(f"the schema at {place} has {key!r:.40} twice with different values")


def _equal(a: Any, b: Any) -> bool:
    """Equality of JSON values: true is not 1."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def _is_of(value: Any, kinds: Sequence[str]) -> bool:
    if value is None:
        return "null" in kinds
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, (int, float)):
        return "number" in kinds or ("integer" in kinds and value == int(value))
    name = {str: "string", list: "array", dict: "object"}[type(value)]
    return name in kinds


def _first_bytes(automaton: Automaton) -> set[int]:
    return {*automaton.edges[0], *(ord("{["[rule.startswith("array")]) for rule in automaton.calls[0])}


def _has_calls(automaton: Automaton) -> bool:
    return any(automaton.calls)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _list(value: Any, place: str, key: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        raise GrammarError(f"the schema at {place} has {key} that is no list of at most {MOST_ITEMS}")
    return value


def _text(value: Any, place: str, key: str) -> str:
    if not isinstance(value, str):
        raise GrammarError(f"the schema at {place} has {key} {value!r:.40} that is no text")
    return value


def _count(node: Mapping[str, Any], key: str, absent: int | None, most: int, place: str) -> int | None:
    if key not in node:
        return absent
    value = node[key]
    if isinstance(value, float) and value == int(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise GrammarError(f"the schema at {place} has {key} {value!r:.40}; 0 to {most} are supported")
    return value


def _decimal(value: Any, place: str, key: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) > 1e300:
        raise GrammarError(f"the schema at {place} has {key} {value!r:.40} that is no number")
    return Decimal(repr(value))


def _bound(
    node: Mapping[str, Any], key: str, exclusive: str, place: str, stricter: Any
) -> tuple[Decimal | None, bool]:
    """A bound of numbers, and whether it is excluded; older drafts write `exclusiveMinimum: true`."""
    plain = None if key not in node else _decimal(node[key], place, key)
    other = node.get(exclusive)
    if isinstance(other, bool) or other is None:
        return plain, bool(other)
    strict = _decimal(other, place, exclusive)
    if plain is None:
        return strict, True
    kept = stricter(plain, strict)
    return kept, kept == strict
