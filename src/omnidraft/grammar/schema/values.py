"""Values of a schema's keywords, read with their types and limits."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from omnidraft.errors import GrammarError

MOST_ITEMS = 1000


def equal(a: Any, b: Any) -> bool:
    """Equality of JSON values: true is not 1, and 1.0 is."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(value, b[key]) for key, value in a.items())
    return bool(a == b)


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def list_of(value: Any, place: str, key: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        raise GrammarError(
            f"the schema at {place} has {key} that is no list of at most {MOST_ITEMS}", "give a list"
        )
    return value


def mapping_of(value: Any, place: str, key: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or len(value) > MOST_ITEMS:
        raise GrammarError(
            f"the schema at {place} has {key} that are no object of at most {MOST_ITEMS}", "give an object"
        )
    return value


def text_of(value: Any, place: str, key: str) -> str:
    if not isinstance(value, str):
        raise GrammarError(
            f"the schema at {place} has {key} {value!r:.40}, which is not a string", "write it in quotes"
        )
    return value


def count_of(node: Mapping[str, Any], key: str, most: int, place: str, *, cut: bool = False) -> int:
    """A count; one above `most` is refused, or becomes `most`."""
    value = node[key]
    if isinstance(value, float) and value == int(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or (value > most and not cut):
        raise GrammarError(
            f"the schema at {place} has {key} {value!r:.40}, which is not supported", f"give 0 to {most}"
        )
    return min(value, most)


def decimal_of(value: Any, place: str, key: str) -> Decimal:
    if not is_number(value) or value != value or abs(value) > 1e300:
        raise GrammarError(
            f"the schema at {place} has {key} {value!r:.40}, which is not a number", "give a number"
        )
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
