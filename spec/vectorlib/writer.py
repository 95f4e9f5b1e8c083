"""Writes vectors to disk: a JSON file for each topic, files that vectors name, and a manifest with counts."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vectorlib.levels import with_levels

WIDTH = 108


class VectorWriter:
    """The directory of vectors; `finish` removes the files of an earlier run that this run did not write."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._written: set[Path] = set()
        self._names: dict[str, list[str]] = {}

    def vectors(self, folder: str, topic: str, vectors: Sequence[Mapping[str, Any]]) -> None:
        """Write the vectors of a topic; their names are unique in a folder."""
        names = self._names.setdefault(folder, [])
        names += [v["name"] for v in vectors]
        assert len(names) == len(set(names)), f"{folder} has two vectors with one name: {sorted(names)}"
        self.table(f"{folder}/{topic}.json", list(vectors))

    def table(self, path: str, content: Any) -> None:
        """Write a JSON file that is not a list of vectors."""
        self.file(path, (pretty(content) + "\n").encode())

    def file(self, path: str, data: bytes) -> None:
        """Write a file that a vector names."""
        place = self._root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        self._written.add(place)

    def finish(self) -> dict[str, int]:
        """Write the manifest, remove stale files, and return the counts."""
        counts = {folder: len(names) for folder, names in sorted(self._names.items())}
        self.table("manifest.json", with_levels(counts))
        for path in sorted(self._root.rglob("*")):
            if path.is_file() and path not in self._written:
                path.unlink()
        return counts


def vector(name: str, why: str, given: Mapping[str, Any], expect: Mapping[str, Any]) -> dict[str, Any]:
    """One vector: its name, its purpose, the input and the expected output."""
    return {"name": name, "why": why, "input": dict(given), "expect": dict(expect)}


def pretty(value: Any, indent: str = "") -> str:
    """JSON in which a value that fits is on one line; floats have their shortest exact form."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    is_vector = isinstance(value, dict) and ("input" in value or "name" in value)
    if (
        (len(indent) + len(line) <= WIDTH and not is_vector)
        or not isinstance(value, dict | list)
        or not value
    ):
        return line
    inner = indent + "  "
    if isinstance(value, list):
        parts = [pretty(item, inner) for item in value]
        if all(not isinstance(item, dict | list) for item in value):
            return _filled(parts, indent)
        return "[\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}]"
    parts = [f"{json.dumps(k)}: {pretty(v, inner)}" for k, v in value.items()]
    return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}}}"


def _filled(parts: Sequence[str], indent: str) -> str:
    """A long list of numbers, with as many on a line as fit."""
    lines = [indent + " "]
    for i, part in enumerate(parts):
        part += "," if i < len(parts) - 1 else ""
        if len(lines[-1]) + len(part) + 1 > WIDTH:
            lines.append(indent + " ")
        lines[-1] += " " + part
    return "[\n" + "\n".join(lines) + f"\n{indent}]"
