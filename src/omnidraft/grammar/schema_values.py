"""Values of a schema's keywords, read with their types and limits."""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from omnidraft.errors import GrammarError

MOST_ITEMS = 1000


def join(merged: dict[str, Any], part: Mapping[str, Any], place: str) -> None:
    """Add the keywords of a schema to those of another; both must hold."""
    for rest, named in (("additionalProperties", "properties"), ("items", "prefixItems")):
        for a, b in ((merged, part), (part, merged)):
            if rest in a and named in b and not equal(a.get(named), b[named]):
                raise GrammarError(f"the schema at {place} joins {rest} with {named} of another schema")
    for key, value in part.items():
        if key not in merged:
            merged[key] = value
        elif key == "properties" and not merged[key].keys() & value.keys():
            merged[key] = {**merged[key], **value}
        elif key == "required":
            merged[key] = list(dict.fromkeys([*merged[key], *value]))
        elif not equal(merged[key], value):
            raise GrammarError(f"the schema at {place} has {key!r:.40} twice with different values")


def equal(a: Any, b: Any) -> bool:
    """Equality of JSON values: true is not 1."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def is_of(value: Any, kinds: Sequence[str]) -> bool:
    if value is None:
        return "null" in kinds
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, (int, float)):
        return "number" in kinds or ("integer" in kinds and value == int(value))
    return ("string" if isinstance(value, str) else "array" if isinstance(value, list) else "object") in kinds


def list_of(value: Any, place: str, key: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        raise GrammarError(f"the schema at {place} has {key} that is no list of at most {MOST_ITEMS}")
    return value


def text_of(value: Any, place: str, key: str) -> str:
    if not isinstance(value, str):
        raise GrammarError(f"the schema at {place} has {key} {value!r:.40}, which is not a string")
    return value


def count_of(node: Mapping[str, Any], key: str, absent: int | None, most: int, place: str) -> int | None:
    if key not in node:
        return absent
    value = node[key]
    if isinstance(value, float) and value == int(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise GrammarError(f"the schema at {place} has {key} {value!r:.40}; 0 to {most} are supported")
    return value


def decimal_of(value: Any, place: str, key: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) > 1e300:
        raise GrammarError(f"the schema at {place} has {key} {value!r:.40}, which is not a number")
    return Decimal(repr(value))


def bound_of(
    node: Mapping[str, Any], key: str, exclusive: str, place: str, stricter: Any
) -> tuple[Decimal | None, bool]:
    """A bound of numbers, and whether it is excluded; older drafts write `exclusiveMinimum: true`."""
    plain = None if key not in node else decimal_of(node[key], place, key)
    other = node.get(exclusive)
    if isinstance(other, bool) or other is None:
        return plain, bool(other)
    strict = decimal_of(other, place, exclusive)
    if plain is None:
        return strict, True
    kept = stricter(plain, strict)
    return kept, kept == strict
