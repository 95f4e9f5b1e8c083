"""The keywords of JSON Schema: those that are read, those that change nothing, and those that are refused."""

from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from omnidraft.errors import GrammarError
from omnidraft.grammar.schema.constraints import COUNTS

MOST_DEPTH = 64
_NOTES = {
    "$schema", "$id", "id", "$anchor", "$comment", "$defs", "definitions", "title", "description", "default",
    "examples", "example", "deprecated", "readOnly", "writeOnly", "contentMediaType", "contentEncoding",
    "contentSchema", "$vocabulary", "$dynamicAnchor", "$recursiveAnchor",
}  # fmt: skip
KNOWN = {
    "type", "enum", "const", "nullable", "properties", "required", "additionalProperties", "propertyNames",
    "patternProperties", "items", "additionalItems", "prefixItems", "uniqueItems", "contains", "minContains",
    "maxContains", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", *COUNTS,
    "$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
    "dependencies", "unevaluatedProperties", "unevaluatedItems",
}  # fmt: skip
_REFUSED = {  # and what can be written instead
    "$dynamicRef": "write $ref", "$recursiveRef": "write $ref", "extends": "write allOf",
    "disallow": "write not", "divisibleBy": "write multipleOf",
}  # fmt: skip


def check_keywords(node: Any, place: str) -> None:
    """Refuse what is no schema, and keywords that are not supported or are written wrongly."""
    if not isinstance(node, dict):
        raise GrammarError(
            f"the schema at {place} is {node!r:.40} and not an object",
            "give a JSON Schema; from_choices takes a list of texts, load_grammar a file",
        )
    for key in sorted(node.keys() - KNOWN - _NOTES):
        if key in _REFUSED:
            raise GrammarError(f"the schema at {place} has {key!r}, which is not supported", _REFUSED[key])
        if meant := _meant(key):
            raise GrammarError(
                f"the schema at {place} has {key!r:.40}, which is no keyword", f"write {meant}"
            )


def check_depth(depth: int, place: str) -> None:
    """Refuse a schema at a place within too many others."""
    if depth > MOST_DEPTH:
        raise GrammarError(
            f"the schema at {place:.80} is nested or refers to itself more than {MOST_DEPTH} deep",
            "leave out inner parts, or allow any value there with an empty schema",
        )


@lru_cache(1000)
def _meant(key: str) -> str:
    """The keyword that is nearly the same as an unknown one; empty if there is none."""
    return next(iter(get_close_matches(key, KNOWN, 1, 0.82)), "") if key.isalpha() and len(key) < 40 else ""
