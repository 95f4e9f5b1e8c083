"""The constraints of one alternative of a schema: all of them hold, and each is in one plain form.

| name | constraint |
|---|---|
| `type` | the types that are allowed; absent for all |
| `enum`, `except` | the only values, and values that are not allowed |
| `minLength`, `maxLength`, `pattern`, `no_pattern`, `format` | of strings; lists of patterns and formats |
| `least`, `most`, `multipleOf` | of numbers: (bound, whether it is excluded), and a list |
| `minItems`, `maxItems`, `uniqueItems` | of arrays |
| `arrays` | a list of (schemas of the first items, schema of the others, whether they count as evaluated) |
| `contains` | a list of (schema, count at least, count at most) |
| `minProperties`, `maxProperties`, `required`, `names` | of objects; `names` are schemas of names |
| `objects` | a list of (schemas by name, by pattern, schema of the others, whether they count as evaluated) |
| `is_part` | values of the schema may be absent from this and all other alternatives |

A schema of others is None where nothing is said.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from omnidraft.errors import GrammarError
from omnidraft.grammar.schema.values import (
    MOST_ITEMS,
    bound_of,
    count_of,
    decimal_of,
    equal,
    list_of,
    mapping_of,
    text_of,
)

Constraints = Mapping[str, Any]
TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
MOST_LENGTH = 4000
OF_KIND = {
    "object": ("minProperties", "maxProperties", "required", "names", "objects"),
    "array": ("minItems", "maxItems", "uniqueItems", "arrays", "contains"),
    "string": ("minLength", "maxLength", "pattern", "no_pattern", "format"),
    "number": ("least", "most", "multipleOf"),
}
COUNTS = {"minLength": MOST_LENGTH, "maxLength": MOST_LENGTH, "minItems": MOST_ITEMS, "maxItems": MOST_ITEMS,
          "minProperties": MOST_ITEMS, "maxProperties": MOST_ITEMS}  # fmt: skip


def own(node: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The constraints of a schema's own keywords, without those that combine schemas.

    Raises:
        GrammarError: a keyword has a value that is none of its own.
    """
    found: dict[str, Any] = {}
    if "type" in node:
        found["type"] = _types(node, place)
    if "enum" in node:
        found["enum"] = list_of(node["enum"], place, "enum")
    if "const" in node:
        found["enum"] = [each for each in found.get("enum", [node["const"]]) if equal(each, node["const"])]
    for key, largest in COUNTS.items():
        if key in node and not (key.startswith("min") and node[key] == 0):
            found[key] = count_of(node, key, largest, place, cut=key.startswith("max"))
    for key in ("pattern", "format"):
        if key in node:
            found[key] = [text_of(node[key], place, key)]
    least, above = bound_of(node, "minimum", "exclusiveMinimum", place, max)
    most, below = bound_of(node, "maximum", "exclusiveMaximum", place, min)
    found |= {} if least is None else {"least": (str(least), above)}
    found |= {} if most is None else {"most": (str(most), below)}
    if "multipleOf" in node:
        multiple = decimal_of(node["multipleOf"], place, "multipleOf")
        if multiple <= 0:
            raise GrammarError(
                f"the schema at {place} has multipleOf {multiple}, which is not above 0",
                "give a number above 0",
            )
        found["multipleOf"] = [str(multiple)]
    return _of_arrays(node, place, found) | _of_objects(node, place)


def _types(node: Mapping[str, Any], place: str) -> list[str]:
    given = node["type"]
    kinds = list(given) if isinstance(given, list) else [given]
    for kind in kinds:
        if kind not in TYPES:
            raise GrammarError(
                f"the schema at {place} has the type {kind!r:.40}, which JSON does not have",
                f"write one of {', '.join(TYPES)}",
            )
    if node.get("nullable") is True and "null" not in kinds:
        kinds.append("null")
    return [kind for kind in kinds if not (kind == "integer" and "number" in kinds)]


def _of_arrays(node: Mapping[str, Any], place: str, found: dict[str, Any]) -> dict[str, Any]:
    if node.get("uniqueItems") is True:
        found["uniqueItems"] = True
    first, rest = node.get("prefixItems"), node.get("items")
    if isinstance(rest, list):  # before 2020-12
        first, rest = rest, node.get("additionalItems")
    if first is not None or rest is not None:
        found["arrays"] = [(list_of(first or [], place, "prefixItems"), rest, True)]
    if "contains" in node:
        least = count_of({"minContains": 1, **node}, "minContains", MOST_ITEMS, place)
        most = count_of(node, "maxContains", MOST_ITEMS, place) if "maxContains" in node else None
        if least or most is not None:
            found["contains"] = [(node["contains"], least, most)]
    return found


def _of_objects(node: Mapping[str, Any], place: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "required" in node:
        names = list_of(node["required"], place, "required")
        found["required"] = list(dict.fromkeys(text_of(name, place, "required") for name in names))
    if "propertyNames" in node:
        found["names"] = [node["propertyNames"]]
    keys = ("properties", "patternProperties", "additionalProperties")
    if any(key in node for key in keys):
        named, patterns = (mapping_of(node.get(key, {}), place, key) for key in keys[:2])
        found["objects"] = [(named, patterns, node.get(keys[2]), True)]
    return found


def joined(a: Constraints, b: Constraints) -> Constraints | None:
    """What holds where both hold; None where that is seen to be no value."""
    found = dict(a)
    for key, value in b.items():
        if key not in found:
            found[key] = value
            continue
        mine = found[key]
        if key == "type":
            found[key] = common_types(mine, value)
        elif key == "enum":
            found[key] = [each for each in mine if any(equal(each, other) for other in value)]
        elif key == "least":
            found[key] = max(mine, value, key=lambda bound: (Decimal(bound[0]), bound[1]))
        elif key == "most":
            found[key] = min(mine, value, key=lambda bound: (Decimal(bound[0]), not bound[1]))
        elif key in COUNTS:
            found[key] = max(mine, value) if key.startswith("min") else min(mine, value)
        elif key in ("uniqueItems", "is_part"):
            found[key] = True
        else:
            found[key] = mine + [each for each in value if not any(_same(each, other) for other in mine)]
    return None if found.get("type") == [] or found.get("enum") == [] else found


def _same(a: Any, b: Any) -> bool:
    """Whether two constraints came from one place of the schema, or are equal texts."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return all(x is y for x, y in zip(a, b, strict=True))
    return a is b or (isinstance(a, str) and a == b)


def common_types(a: Sequence[str], b: Sequence[str]) -> list[str]:
    """The types of both lists; an integer is a number."""
    both = [kind for kind in a if kind in b or (kind == "integer" and "number" in b)]
    return both + (["integer"] if "number" in a and "integer" in b else [])


def kinds_of(constraints: Constraints) -> list[str]:
    """The types that are written: as given, else those that the constraints are about, else all."""
    given: list[str] | None = constraints.get("type")
    if given is not None:
        return given
    about = [kind for kind, keys in OF_KIND.items() if any(key in constraints for key in keys)]
    return about or [kind for kind in TYPES if kind != "integer"]


def of_kind(constraints: Constraints, kind: str) -> Constraints:
    """Those of the constraints that are about a type."""
    return {key: constraints[key] for key in OF_KIND.get(kind, ()) if key in constraints}


def covers(constraints: Constraints, kind: str) -> bool:
    """Whether every value of a type meets the constraints."""
    if (
        "enum" in constraints
        or "except" in constraints
        or of_kind(constraints, "number" if kind == "integer" else kind)
    ):
        return False
    return bool(common_types([kind], constraints.get("type", [kind])) == [kind])
