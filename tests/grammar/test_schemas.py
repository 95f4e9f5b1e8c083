"""JSON Schemas: every text of the grammar is valid, and what is not supported is refused by name."""

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jsonschema", reason="texts are validated by jsonschema")
from jsonschema import Draft202012Validator

from omnidraft.errors import GrammarError
from omnidraft.grammar import from_schema
from omnidraft.runtime.grammar.grammar import START, Grammar
from omnidraft.runtime.grammar.token_masks import nearer

NODE = {"$ref": "#/$defs/node"}
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
            byte = nearer(grammar, at[0])[0]
            behind = grammar.step(at, byte)
        assert behind is not None
        text.append(byte)
        at = behind


@pytest.mark.parametrize("whitespace", ["space", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_every_text_is_valid(name: str, whitespace: Any) -> None:
    schema = SCHEMAS[name]
    grammar, rng = from_schema(schema, whitespace, depth=4), np.random.default_rng(0)
    exact = json.loads(
        json.dumps(schema), parse_float=Decimal
    )  # multipleOf by floats is wrong in the last bit
    validator = Draft202012Validator(exact, format_checker=Draft202012Validator.FORMAT_CHECKER)
    texts = {random_text(grammar, rng) for _ in range(60)}
    for text in texts:
        value = json.loads(text, parse_float=Decimal)
        if name == "nullable" and value is None:  # OpenAPI's word, which the validator does not know
            continue
        validator.validate(value)
        assert grammar.matches(text)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"not": {}}, "has 'not', which is not supported"),
        ({"type": "array", "uniqueItems": True}, "has 'uniqueItems'"),
        ({"type": "array", "contains": {}}, "has 'contains'"),
        ({"if": {}, "then": {}}, "has 'if'"),
        ({"type": "string", "format": "iri"}, "has the format 'iri'"),
        ({"type": "string", "pattern": "(?=a)"}, "look-around"),
        ({"type": "string", "pattern": "\\bword"}, "has \\\\b"),
        ({"type": "string", "minLength": 5, "maxLength": 2}, "allows no string"),
        ({"type": "integer", "minimum": 5, "maximum": 2}, "allows no number"),
        ({"type": "strange"}, "has the type 'strange'"),
        ({"$ref": "other.json"}, "refers to 'other.json'"),
        ({"$ref": "#/$defs/none"}, "which is not there"),
        ({"$ref": "#"}, "refers to itself"),
        ({"oneOf": [{"type": "string"}, {"const": "a"}]}, "allow the same text"),
        ({"enum": []}, "allows no value"),
        ({"allOf": [{"properties": {"a": {}}}, {"additionalProperties": False}]}, "joins additional"),
        (False, "allows no text"),
        ([], "and not an object"),
        ({"properties": {"a": {"x": 1}}}, "at #/properties/a has 'x'"),
        ({"required": ["a"], "properties": {"b": {}}, "additionalProperties": False}, "requires 'a'"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(schema: Any, why: str) -> None:
    with pytest.raises(GrammarError, match=why):
        from_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 4000, "maxLength": 4000, "pattern": "^(a|b|[c-z]{2,900}){900}$"},
        {"items": {"items": {"type": "string", "minLength": 4000}, "minItems": 1000}, "minItems": 1000},
        {"type": "string", "pattern": "(a|aa){500}" * 300},
        {"enum": ["x" * 100_000]},
    ],
)  # fmt: skip
def test_a_schema_of_too_much_work_is_refused(schema: Any) -> None:
    with pytest.raises(GrammarError, match=r"too much work|states|characters"):
        from_schema(schema)
