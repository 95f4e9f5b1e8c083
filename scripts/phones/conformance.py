"""Print what ran in Python, Kotlin and Swift, in Markdown: docs/conformance.md has the last whole run.

conformance.py MANIFEST RESULTS EXPECTED  # `make conformance`

RESULTS has a file for each language, with the vectors that ran and the outputs that were compared, and
exchange.json, the files that crossed; each was written by the run itself. EXPECTED has the outputs of
Python. The exit status is 1 where something did not run or did not pass.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LANGUAGES = ("python", "kotlin", "swift")
LEVELS = {
    "python": ("core", "files", "learning", "publishing", "grammar"),
    "kotlin": ("core", "files", "learning", "grammar"),
    "swift": ("core", "files", "learning"),
}
# Which kinds of file cross, from whom to whom: a phone reads no push, and publishes no release.
ALL_WAYS = tuple(f"{a} to {b}" for a in LANGUAGES for b in LANGUAGES if a != b)
KINDS = {
    "session": ALL_WAYS,
    "cache": ALL_WAYS,
    "adapter": ALL_WAYS,
    "trace": ALL_WAYS,
    "push": ("kotlin to python", "swift to python"),
    "release": ("python to kotlin", "python to swift"),
}
Results = dict[str, dict[str, Any]]


def vectors(levels: dict[str, dict[str, int]], results: Results) -> Iterator[str]:
    """A line for each level; folders that a language lacks or did not pass are named below."""
    yield "| level | folders | vectors | Python | Kotlin | Swift |"
    yield "|---|---:|---:|---:|---:|---:|"
    wrong = []
    for level, folders in levels.items():
        cells = []
        for language in LANGUAGES:
            ran = results.get(language, {}).get("vectors", {})
            passed = sum(ran.get(folder, (0, 0))[0] for folder in folders)
            cells.append(str(passed))
            if level in LEVELS[language]:
                lacking = [f for f, count in folders.items() if ran.get(f) != [count, count]]
                wrong += [f"not whole: {language}, {folder}" for folder in lacking]
        yield f"| {level} | {len(folders)} | {sum(folders.values())} | {' | '.join(cells)} |"
    yield from wrong


def outputs(expected: Path, results: Results) -> Iterator[str]:
    """A line for each starter bundle."""
    yield "\n| bundle | outputs | Kotlin | Swift |\n|---|---:|---:|---:|"
    due = {file.parent.name: json.loads(file.read_bytes()) for file in sorted(expected.glob("*/ids.json"))}
    if not due:
        yield "not whole: no outputs of Python"
    for name, content in due.items():
        count = len(content["prompts"]) * len(content["runs"])
        found = {each: results.get(each, {}).get("ids", {}).get(name, [0, 0]) for each in LANGUAGES[1:]}
        yield f"| {name} | {count} | {' | '.join(str(equal) for equal, _ in found.values())} |"
        yield from (f"not whole: {each}, bundle {name}" for each, ran in found.items() if ran != [count] * 2)


def files(crossed: dict[str, list[str]]) -> Iterator[str]:
    """A line for each kind of file."""
    yield "\n| file | read by the other languages as its writer does |\n|---|---|"
    for kind, ways in KINDS.items():
        done = [way for way in ways if way in crossed.get(kind, [])]
        yield f"| {kind} | {'in all directions' if len(done) == len(ALL_WAYS) else ', '.join(done)} |"
        yield from (f"not whole: {kind}, {way}" for way in ways if way not in done)


def main(manifest: Path, place: Path, expected: Path) -> int:
    """Print the tables; the exit status is 1 where a line says `not whole`."""
    levels = json.loads(manifest.read_text(encoding="utf-8"))["levels"]
    results = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in place.glob("*.json")}
    exchanged: Any = results.get("exchange", {})
    lines = [*vectors(levels, results), *outputs(expected, results), *files(exchanged)]
    print("\n".join(lines))
    return int(any(line.startswith("not whole") for line in lines))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
