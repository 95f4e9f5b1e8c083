"""Places in a schema: references, and the objects and arrays that contain themselves."""

from collections.abc import Mapping, Sequence
from typing import Any

from omnidraft.errors import GrammarError
from omnidraft.grammar.schema_values import text_of

MOST_NODES = 10_000


def resolve(root: Any, reference: Any, place: str) -> tuple[Any, str]:
    """What a reference within the schema points to, and its place.

    Raises:
        GrammarError: it points nowhere, or out of the schema.
    """
    reference = text_of(reference, place, "$ref")
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


def recursive_places(root: Any) -> set[str]:
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
        found += [(f"{place}/properties/{escaped(k)}", v) for k, v in node["properties"].items()]
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
    """The strongly connected components (Tarjan, 1972) of several places, and places below themselves."""
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


def escaped(name: str) -> str:
    """A name as a JSON pointer writes it."""
    return name.replace("~", "~0").replace("/", "~1")
