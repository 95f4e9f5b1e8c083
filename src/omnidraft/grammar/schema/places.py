"""References in a schema: to a pointer, an anchor or an identifier, all of the same schema."""

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import unquote, urljoin

from omnidraft.errors import GrammarError

MOST_NESTED = 200
_VALUES = {"enum", "const", "default", "examples", "example"}  # values, in which nothing is a schema
_NAMED = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
_SCHEMAS = {
    "items", "prefixItems", "additionalItems", "contains", "unevaluatedItems", "additionalProperties",
    "propertyNames", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
    "contentSchema",
}  # fmt: skip
Kind = Literal[
    "schema", "named", "other"
]  # of a node: a schema, schemas by name, or what is in an unknown keyword


class References:
    """A copy of a schema, in which references are absolute; `root` is the copy."""

    def __init__(self, schema: Any) -> None:
        self._targets: dict[str, Any] = {}  # by absolute address
        self.root = self._copied(schema, "", 0, "schema")
        self._targets.setdefault("", self.root)

    def resolve(self, reference: str, place: str) -> Any:
        """What an absolute reference points to.

        Raises:
            GrammarError: it points nowhere, or out of the schema.
        """
        if reference in self._targets:
            return self._targets[reference]
        base, _, pointer = reference.partition("#")
        if base not in self._targets or (pointer and not pointer.startswith("/")):
            raise GrammarError(
                f"the schema at {place} refers to {reference!r:.60}, which is not in it",
                "copy it into $defs of this schema, and refer to #/$defs/NAME",
            )
        node = self._targets[base]
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and len(key) < 6 and int(key) < len(node):
                node = node[int(key)]
            else:
                raise GrammarError(
                    f"the schema at {place} refers to {reference!r:.60}, which is not there",
                    "correct the reference",
                )
        return node

    def _copied(self, node: Any, base: str, depth: int, kind: Kind) -> Any:
        if depth > MOST_NESTED:
            raise GrammarError(f"the schema is nested more than {MOST_NESTED} deep", "leave out inner parts")
        if isinstance(node, list):
            return [self._copied(each, base, depth + 1, kind) for each in node]
        if not isinstance(node, dict):
            return node
        copy: dict[str, Any] = {}
        if kind == "schema":
            base = self._addressed(node, copy, base)
        for key, value in node.items():
            if kind != "named" and key in _VALUES:
                copy[key] = value
            elif kind != "named" and key == "$ref" and isinstance(value, str):
                copy[key] = _joined(base, value)
            else:
                copy[key] = self._copied(value, base, depth + 1, _kind_in(kind, key))
        return copy

    def _addressed(self, node: Mapping[str, Any], copy: Mapping[str, Any], base: str) -> str:
        """Note the identifier and the anchor of a node; returns the address of what is in it."""
        for key in ("$id", "id"):  # the latter is of draft 4
            name = node.get(key)
            if isinstance(name, str):
                address = _joined(base, name)
                if not name.startswith("#"):
                    base = address.rstrip("#")
                    address = base
                self._targets.setdefault(address, copy)
        if isinstance(node.get("$anchor"), str):
            self._targets.setdefault(f"{base}#{node['$anchor']}", copy)
        return base


def _kind_in(kind: Kind, key: str) -> Kind:
    """What a node has under a key. Identifiers in unknown keywords identify nothing, by JSON Schema."""
    if kind == "named":
        return "schema"
    if kind == "other":
        return "other"
    return "named" if key in _NAMED else "schema" if key in _SCHEMAS else "other"


def _joined(base: str, reference: str) -> str:
    if reference.startswith("#"):
        return base + reference if len(reference) > 1 else base
    try:
        return urljoin(base, reference)
    except ValueError as error:
        raise GrammarError(
            f"the schema has the reference {reference!r:.60}, which is no address ({error!s:.40})",
            "copy what it refers to into $defs, and refer to #/$defs/NAME",
        ) from None


def escaped(name: str) -> str:
    """A name as a JSON pointer writes it."""
    return name.replace("~", "~0").replace("/", "~1")
