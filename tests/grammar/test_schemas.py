"""JSON Schemas: every text of the grammar is valid, and what is not supported is refused by name."""

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jsonschema", reason="texts are validated by jsonschema")
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from omnidraft.errors import GrammarError
from omnidraft.grammar import from_schema
from omnidraft.runtime.grammar.grammar import START, Grammar

NODE = {"$ref": "#/$defs/node"}
CHAIN = {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/b"}}}
PARTS: dict[str, Any] = {
    "open": {"properties": {"a": {"type": "integer"}, "b": {"maxLength": 2}}, "required": ["a"]},
    "closed": {"properties": {"a": {"enum": [1, 2, "x"]}, "c": True}, "additionalProperties": False},
    "patterns": {"patternProperties": {"^a": {"minimum": 1}, "b$": {"type": "null"}}, "type": "object"},
    "needs b": {"type": "object", "required": ["b"]},
    "text or list": {
        "type": ["string", "array"],
        "minLength": 2,
        "items": {"type": "boolean"},
        "maxItems": 2,
    },
    "word": {"pattern": "^[a-z]+$", "maxLength": 4, "type": "string"},
    "small": {"type": "number", "maximum": 5, "exclusiveMinimum": -2},
    "whole": {"type": "integer", "multipleOf": 3},
    "long list": {"type": "array", "minItems": 1, "contains": {"const": True}},
    "whole of some": {"type": "integer", "enum": [3, 4.5, 7]},
    "no item": {"type": "array", "items": False, "contains": {"const": True}},
}
VALUES: list[Any] = [
    {}, {"a": 1}, {"a": 2, "b": None}, {"a": 1, "b": "xyz"}, {"b": 3}, {"a": "x", "c": []}, {"c": 1},
    {"ab": None}, "", "ab", "Ab", "abcde", 0, 3, 4.5, -3, 7, 600, [], [True], [False, True],
    [True, True, True], [1], None, True,
]  # fmt: skip
SCHEMAS: dict[str, Any] = {
    "any value": True,
    "types": {"type": ["object", "array", "string", "integer", "number", "boolean", "null"]},
    "strings": {"type": "string", "minLength": 2, "maxLength": 4},
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}\\d+$"},
    "part of a pattern": {"type": "string", "pattern": "b+", "maxLength": 6},
    "two alternatives of a pattern": {"type": "string", "pattern": "^a|b$"},
    "integers": {"type": "integer", "minimum": -17, "exclusiveMaximum": 230},
    "multiples": {"type": "integer", "multipleOf": 7, "minimum": 20},
    "numbers": {"type": "number", "exclusiveMinimum": -1.25, "maximum": 30.5},
    "cents": {"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 2},
    "enum": {"enum": ["a", 1, 1.5, None, True, {"a": [1, "b"]}, "\u00e9\n"]},
    "enum of a type": {"type": "string", "enum": ["a", 1]},
    "const": {"const": {"a": {"b": []}}},
    "optional properties": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "null"}},
        "required": ["b"],
    },
    "no property": {"type": "object", "properties": {}, "additionalProperties": False},
    "additional": {
        "type": "object",
        "properties": {"aa": {"type": "integer"}, "ab": {"type": "null"}},
        "required": ["ab"],
        "additionalProperties": {"type": "boolean"},
    },
    "map": {"additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 3},
    "names": {"patternProperties": {"^x-[a-z]+$": {"type": "integer"}}, "additionalProperties": False},
    "array": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    "tuple": {"prefixItems": [{"type": "null"}, {"const": 1}], "items": {"type": "string", "maxLength": 2}},
    "anyOf": {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}, {"const": "long text"}]},
    "oneOf": {"oneOf": [{"properties": {"kind": {"const": k}}, "required": ["kind"]} for k in ("a", "b")]},
    "allOf": {
        "allOf": [{"properties": {"a": {"type": "null"}}}, {"properties": {"b": {}}, "required": ["b"]}],
    },
    "beside a reference": {"$defs": {"s": {"type": "string"}}, "$ref": "#/$defs/s", "maxLength": 3},
    "tree": {
        "$defs": {
            "node": {"properties": {"v": {"type": "integer"}, "kids": {"items": NODE}}, "required": ["v"]},
        },
        **NODE,
    },
    "two that call each other": {
        "$defs": {
            "a": {"properties": {"b": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "null"}]}}},
            "b": {"type": "array", "items": {"$ref": "#/$defs/a"}, "maxItems": 2},
        },
        "$ref": "#/$defs/a",
    },
    "any two": {"anyOf": [PARTS["closed"], PARTS["patterns"]], "maxProperties": 2},
    "condition": {
        "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}},
        "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
        "then": {"required": ["n"]}, "else": {"properties": {"n": False}},
    },
    "dependent": {
        "properties": {"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}},
        "dependentRequired": {"a": ["c"]}, "dependentSchemas": {"b": {"minProperties": 2}},
    },
    "counts": {
        "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
        "minProperties": 2, "maxProperties": 3, "additionalProperties": {"type": "boolean"},
    },
    "enumerated names": {"propertyNames": {"enum": ["x", "yy"]}, "additionalProperties": {"type": "null"}},
    "contains": {"items": {"type": "integer", "maximum": 9}, "contains": {"minimum": 5}, "maxContains": 2},
    "distinct": {"items": {"enum": ["a", 1, True, None]}, "uniqueItems": True, "minItems": 2},
    "excepted": {"type": ["number", "boolean"], "minimum": 0, "maximum": 3, "not": {"enum": [0, 2.5, True]}},
    "a range of three digits": {"type": "number", "minimum": 0.005, "exclusiveMaximum": 0.95},
    "a range and cents": {"type": "number", "minimum": 0.005, "maximum": 0.5, "multipleOf": 0.01},
    "no spaces": {"type": "string", "pattern": "^\\S[^\\s]$"},
    "not a space": {"type": "string", "not": {"pattern": "\\s"}, "maxLength": 2},
    "quarters": {"type": "number", "multipleOf": 0.25, "minimum": -3},
    "two multiples": {"allOf": [{"multipleOf": 6}, {"multipleOf": 4}], "type": "integer"},
    "constants of a schema": {"enum": [{"a": 1}, {"a": "x"}, 4, [1, 2]], "properties": {"a": {"minimum": 0}}},
    "beside a reference of draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {"type": "integer"}},
        "items": {"$ref": "#/definitions/n", "type": "string"}, "minItems": 2, "type": "array",
    },
    "anchor": {"$id": "https://a.b/c", "$defs": {"s": {"$anchor": "s", "const": 3}}, "items": {"$ref": "#s"}},
    "unevaluated": {"allOf": [{"properties": {"a": {"const": 1}}}], "unevaluatedProperties": {"const": 0}},
    "a union that contains itself": {
        "oneOf": [
            {"properties": {"k": {"const": "leaf"}}, "required": ["k"]},
            {"properties": {"k": {"const": "node"}, "of": {"$ref": "#"}}, "required": ["k", "of"]},
        ],
    },
    "a format that nobody defines": {"type": "string", "format": "shoe size", "maxLength": 3},
    "nullable": {"type": "string", "maxLength": 1, "nullable": True},
    **{name: {"type": "string", "format": name} for name in
       ("date", "time", "date-time", "email", "hostname", "ipv4", "ipv6", "uuid", "uri", "duration")},
}  # fmt: skip


def random_text(grammar: Grammar, rng: np.random.Generator) -> bytes:
    """A text of the grammar: random bytes, and after a while the way to its end."""
    at, text = START, bytearray()
    while True:
        classes = np.flatnonzero(grammar.next[at[0]] >= 0)
        if grammar.is_complete(at) and (not len(classes) or rng.random() < 0.3 or len(text) > 60):
            return bytes(text)
        behind = None
        if len(text) <= 60:
            byte = int(rng.choice(np.flatnonzero(grammar.classes == rng.choice(classes))))
            behind = grammar.step(at, byte)
        if behind is None:  # too deep, or long enough
            byte = grammar.nearest[at[0]][0]
            behind = grammar.step(at, byte)
        assert behind is not None
        text.append(byte)
        at = behind


def exact(schema: Any) -> Any:
    """A validator that reads decimal numbers: multipleOf by floats is wrong in the last bit."""
    decimal = json.loads(json.dumps(schema), parse_float=Decimal)
    kind = validator_for(schema, default=Draft202012Validator)
    return kind(decimal, format_checker=kind.FORMAT_CHECKER)


@pytest.mark.parametrize("whitespace", ["space", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_every_text_is_valid(name: str, whitespace: Any) -> None:
    grammar, rng = from_schema(SCHEMAS[name], whitespace, depth=4), np.random.default_rng(0)
    validator = exact(SCHEMAS[name])
    for text in {random_text(grammar, rng) for _ in range(60)}:
        value = json.loads(text, parse_float=Decimal)
        if name == "nullable" and value is None:  # OpenAPI's word, which the validator does not know
            continue
        validator.validate(value)
        assert grammar.matches(text)


@pytest.mark.parametrize("combined", ["allOf", "oneOf", "anyOf", "if", "not"])
@pytest.mark.parametrize("name", PARTS)
def test_combined_schemas_allow_what_a_validator_allows(name: str, combined: str) -> None:
    """No text that is not valid; without a negation all values that are, of constants in their writing."""
    for other in PARTS if combined in ("if", "not") else [each for each in PARTS if each >= name]:
        schema: Any = {combined: [PARTS[name], PARTS[other]]}
        if combined == "if":
            schema = {"if": PARTS[name], "then": PARTS[other], "else": {"type": ["null", "boolean"]}}
        if combined == "not":
            schema = {"not": PARTS[name], "allOf": [PARTS[other]]}
        validator, rng = exact(schema), np.random.default_rng(0)
        valid = [value for value in VALUES if validator.is_valid(value)]
        try:
            only = from_schema({"anyOf": [{"enum": VALUES, **schema}, {"const": "never"}]})
            grammar = from_schema(schema)
        except GrammarError as refusal:
            why = str(refusal)
            assert combined in ("oneOf", "if", "not") or ("allows no text" in why and not valid), (other, why)
            continue  # parts of a negation may not be supported
        found = [value for value in VALUES if only.matches(json.dumps(value).encode())]
        assert all(value in valid for value in found), other
        assert found == valid or combined not in ("anyOf", "allOf"), other
        for text in {random_text(grammar, rng) for _ in range(8)}:
            assert validator.is_valid(json.loads(text, parse_float=Decimal)), (other, text)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"not": {}}, "allows no text"),
        ({"not": {"items": True}}, "has 'items' in a negation"),
        ({"type": "array", "uniqueItems": True}, "has uniqueItems of items that are no enumeration"),
        ({"$dynamicRef": "#a"}, "has '\\$dynamicRef'"),
        ({"type": "string", "format": "datetime"}, "has the format 'datetime'; write date-time"),
        ({"type": "string", "pattern": "(?=a)"}, "look-around"),
        ({"type": "string", "pattern": "\\bword"}, "has \\\\b"),
        ({"type": "string", "minLength": 5, "maxLength": 2}, "allows no text"),
        ({"type": "integer", "minimum": 5, "maximum": 2}, "allows no text"),
        ({"type": "number", "multipleOf": 0.12345}, "has multipleOf 0.12345, which is not supported"),
        ({"type": "strange"}, "has the type 'strange'"),
        ({"$ref": "other.json"}, "refers to 'other.json'"),
        ({"$ref": "#/$defs/none"}, "which is not there"),
        ({"$ref": "#"}, "refers to itself"),
        ({"oneOf": [True, True]}, "allows no text"),
        ({"enum": []}, "allows no text"),
        ({"enum": [{"a": 1}], "required": ["b"]}, "allows no text"),
        (False, "allows no text"),
        ([], "and not an object"),
        ({"properties": {"a": {"maxLenght": 1}}}, "at #/properties/a has 'maxLenght'.*write maxLength"),
        ({"required": ["a"], "properties": {"b": {}}, "additionalProperties": False}, "allows no text"),
        ({"anyOf": [{"enum": [i]} for i in range(20)], "allOf": [{"anyOf": [True] * 20}]}, "400 comb"),
        ({"const": float("inf")}, "is no JSON value"),
        ({"$defs": {"b": CHAIN}, "oneOf": [{"$ref": "#/$defs/b"}, {"allOf": [CHAIN]}]}, "refers to itself"),
        ({"const": "\ud800"}, "is no JSON value"),
        ({"additionalProperties": {"type": "null"}, "minProperties": 2}, "minProperties 2 and 0 named"),
        ({"$id": "http://a/", "$ref": "http://[x"}, "is no address"),
        ({"allOf": [{}], "$ref": "#/allOf/" + "9" * 5000}, "which is not there"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(schema: Any, why: str) -> None:
    with pytest.raises(GrammarError, match=why):
        from_schema(schema)


def test_numbers_of_fewer_digits_than_their_bounds_are_in_the_grammar() -> None:
    for schema, inside, outside in (
        ({"minimum": 0, "maximum": 0.95}, ("0.5", "0.9", "0.95", "0.949"), ("0.96", "1", "-0.1")),
        ({"minimum": -1, "exclusiveMaximum": -1e-5}, ("-0.5", "-1", "-0.00002"), ("-0.00001", "0", "-1.1")),
        ({"exclusiveMinimum": 0.25, "maximum": 9.5}, ("0.3", "9.5", "0.251"), ("0.2", "0.25", "9.6")),
        ({"minimum": 0.005, "multipleOf": 0.01}, ("0.01", "0.1", "7.25"), ("0.0", "0.00", "0.005")),
        ({"minimum": 1e-16}, ("0.5", "1"), ("0.0", "0")),
    ):
        grammar = from_schema({"type": "number", **schema})
        assert all(grammar.matches(text.encode()) for text in inside), schema
        assert not any(grammar.matches(text.encode()) for text in outside), schema


def test_an_identifier_in_an_unknown_keyword_identifies_nothing() -> None:
    same = "https://example.org/same.json"
    grammar = from_schema(
        {
            "$ref": same,
            "$defs": {
                "a": {"unknown": [{"$id": same, "const": 1}], "other": {"b": {"$id": same, "const": 2}}},
                "b": {"$id": same, "const": 3},
            },
        }
    )
    assert [text for text in (b"1", b"2", b"3") if grammar.matches(text)] == [b"3"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 4000, "maxLength": 4000, "pattern": "^(a|b|[c-z]{2,900}){900}$"},
        {"items": {"items": {"type": "string", "minLength": 4000}, "minItems": 1000}, "minItems": 1000},
        {"type": "string", "pattern": "(a|aa){500}" * 300},
        {"enum": ["x" * 100_000]},
        {"enum": list(range(1000)), "allOf": [{"enum": list(range(i, 1000 + i))} for i in range(100)]},
    ],
)  # fmt: skip
def test_a_schema_of_too_much_work_is_refused(schema: Any) -> None:
    with pytest.raises(GrammarError, match=r"too much work|states|characters"):
        from_schema(schema)
