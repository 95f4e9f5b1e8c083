"""The items of an array: which schemas hold at which place."""

from dataclasses import dataclass
from typing import Any

from omnidraft.errors import GrammarError
from omnidraft.grammar.schema.alternatives import SchemaReader
from omnidraft.grammar.schema.constraints import Constraints
from omnidraft.grammar.schema.values import MOST_ITEMS, equal


@dataclass(frozen=True)
class Items:
    """What an array consists of.

    Attributes:
        first: the schemas of each of the first items, which are all written.
        rest: the schemas of the others; None where there are none.
        least, most: how many items there are in all.
    """

    first: list[list[Any]]
    rest: list[Any] | None
    least: int
    most: int | None


def items_of(of: Constraints, place: str) -> Items | None:
    """The items of an array; None where there is no array."""
    arrays, contains = of.get("arrays", []), of.get("contains", [])
    count = max((len(first) for first, _, _ in arrays), default=0)
    first = [
        _given(first[i] if i < len(first) else others for first, others, _ in arrays) for i in range(count)
    ]
    others = _given(others for _, others, _ in arrays)
    rest: list[Any] | None = others
    least, most = of.get("minItems", 0), of.get("maxItems")
    wanted = [schema for schema, least_of, _ in contains for _ in range(least_of)]
    if any(each is False for each in others) or (count and not others and least <= count):
        rest = None
    start = 0 if rest is None else count  # what an array must contain comes behind its first items
    first += [list(others) for _ in range(start + len(wanted) - len(first))]
    for schema, at in zip(wanted, range(start, start + len(wanted)), strict=True):
        first[at] = [*first[at], schema]
    for schema, least_of, most_of in contains:
        if most_of is not None:  # no other item is one of them
            if most_of < least_of:
                return None
            first = [each if any(schema is s for s in each) else [*each, {"not": schema}] for each in first]
            rest = None if rest is None else [*rest, {"not": schema}]
    least = max(least, start + len(wanted) if wanted else 0)
    first = first[:most]
    cut = next((i for i, schemas in enumerate(first) if any(each is False for each in schemas)), None)
    if cut is not None:
        first, rest = first[:cut], None
    if (most is not None and most < least) or (rest is None and least > len(first)):
        return None
    return Items(first, rest, least, most)


def distinct_values(reader: SchemaReader, of: Constraints, place: str) -> list[Any]:
    """The values that items may have of which no two are equal.

    Raises:
        GrammarError: they are not few values.
    """
    values: list[Any] = []
    parts = [] if "contains" in of else reader.alternatives({"allOf": _rest_alone(of, place)}, place)
    for each in parts:
        mine = each.get("enum", [])
        if "enum" not in each:
            kinds = each.get("type", ["any"])
            mine = [True, False] * ("boolean" in kinds) + [None] * ("null" in kinds)
            if set(kinds) - {"boolean", "null"}:
                raise _refused(place)
        values += [
            v for v in mine if reader.facts.holds(v, each, place) and not any(equal(v, w) for w in values)
        ]
    if not parts or len(values) > MOST_ITEMS:
        raise _refused(place)
    return values


def _rest_alone(of: Constraints, place: str) -> list[Any]:
    if any(first for first, _, _ in of.get("arrays", ())):
        raise _refused(place)
    return _given(others for _, others, _ in of.get("arrays", ()))


def _given(schemas: Any) -> list[Any]:
    return [each for each in schemas if each is not None]


def _refused(place: str) -> GrammarError:
    return GrammarError(
        f"the schema at {place} has uniqueItems of items that are no enumeration, which is not supported",
        "give the items an enum, or leave uniqueItems out",
    )
