"""Write docs/conformance.md: what ran in Python, Kotlin and Swift.

conformance.py MANIFEST RESULTS EXPECTED  # `make conformance`

RESULTS has a file for each language, with the vectors that ran and the outputs that were compared, and
exchange.json, the files that crossed; each was written by the run itself. EXPECTED has the outputs of
Python. What did not run is shown as such.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parents[2] / "docs/conformance.md"
LANGUAGES = ("python", "kotlin", "swift")
LEVELS = {
    "python": ("core", "files", "learning", "publishing"),
    "kotlin": ("core", "files", "learning"),
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
HEAD = """# Conformance

Written by `make conformance`, which runs the vectors of spec/vectors in Python, and the tests of both ports;
do not edit it. Every number is what a run wrote.

A cell of the first table is the number of vectors that passed. "Not claimed" is a level that a port need not
have (spec/README.md); "not run" is a folder that did not run.

"""
OUTPUTS = """
## Outputs

The starter bundles: {prompts} prompts with {settings} settings each, on each of the targets {targets}. A cell
is the number of outputs whose ids are those of Python.

"""
FILES = """
## Files

Each language writes a session in the middle of an answer, an n-gram cache, an adapter that it learned, traces
and a push; Python also publishes a signed release. The reader goes on with the session, and generates with
the adapter. It must make the same of each file as its writer, and write the same bytes again. A phone reads
no push and publishes no release.

"""
NOT_READ = "-"

Results = dict[str, dict[str, Any]]


def cell(language: str, level: str, folder: str, count: int, results: Results) -> str:
    """What a language did with a folder of vectors."""
    found = results.get(language, {}).get("vectors", {}).get(folder)
    if found is None:
        return "not run" if level in LEVELS[language] else "not claimed"
    passed, ran = found
    return str(count) if passed == ran == count else f"**{passed} of {count}**"


def vectors(levels: dict[str, dict[str, int]], results: Results) -> list[str]:
    """The table of folders."""
    lines = ["| level | folder | vectors | Python | Kotlin | Swift |", "|---|---|---:|---:|---:|---:|"]
    for level, folders in levels.items():
        for folder, count in folders.items():
            cells = " | ".join(cell(language, level, folder, count, results) for language in LANGUAGES)
            lines.append(f"| {level} | {folder} | {count} | {cells} |")
    counts = {folder: count for folders in levels.values() for folder, count in folders.items()}
    together = " | ".join(str(passed_in(results.get(each, {}), set(counts))) for each in LANGUAGES)
    return [*lines, f"| together | {len(counts)} folders | {sum(counts.values())} | {together} |"]


def passed_in(found: dict[str, Any], folders: set[str]) -> int:
    """How many vectors a language passed."""
    return sum(passed for folder, (passed, _) in found.get("vectors", {}).items() if folder in folders)


def outputs(expected: Path, results: Results) -> list[str]:
    """The table of outputs on bundles."""
    due = {file.parent.name: json.loads(file.read_bytes()) for file in sorted(expected.glob("*/ids.json"))}
    if not due:
        return [OUTPUTS.partition("\nThe")[0] + "\nnot run"]
    [(prompts, settings)] = {(len(content["prompts"]), len(content["runs"])) for content in due.values()}
    head = OUTPUTS.format(prompts=prompts, settings=settings, targets=" and ".join(due))
    lines = ["| bundle | outputs | ids | Python | Kotlin | Swift |", "|---|---:|---:|---|---:|---:|"]
    for name, content in due.items():
        ids = sum(len(answer) for run in content["runs"] for answer in run["ids"])
        found = [results.get(each, {}).get("ids", {}).get(name) for each in LANGUAGES[1:]]
        cells = " | ".join(equal(each, prompts * settings) for each in found)
        lines.append(f"| {name} | {prompts * settings} | {ids} | the reference | {cells} |")
    return [head + "\n".join(lines)]


def equal(found: list[int] | None, count: int) -> str:
    """How many outputs are equal."""
    if found is None:
        return "not run"
    return str(count) if found == [count, count] else f"**{found[0]} of {count}**"


def files(crossed: dict[str, list[str]]) -> list[str]:
    """The table of files between languages."""
    names = " | ".join(way.title().replace(" To ", " to ") for way in ALL_WAYS)
    lines = [f"| file | {names} |", "|---|" + "---|" * len(ALL_WAYS)]
    for kind, ways in KINDS.items():
        done = crossed.get(kind, [])
        cells = [NOT_READ if way not in ways else "same" if way in done else "not run" for way in ALL_WAYS]
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return [FILES + "\n".join(lines)]


def render(levels: dict[str, dict[str, int]], results: Results, expected: Path) -> str:
    """The text of docs/conformance.md."""
    crossed: dict[str, list[str]] = results.get("exchange", {})
    parts = [HEAD + "\n".join(vectors(levels, results)), *outputs(expected, results), *files(crossed)]
    return "\n".join(parts) + "\n"


def main(manifest: Path, place: Path, expected: Path) -> int:
    """Write the file from what the runs wrote; the exit status is 1 where something did not run or pass."""
    levels = json.loads(manifest.read_text(encoding="utf-8"))["levels"]
    results = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in place.glob("*.json")}
    text = render(levels, results, expected)
    TABLE.write_text(text, encoding="utf-8")
    lacking = [
        line for line in text.splitlines() if line.startswith("|") and ("not run" in line or "**" in line)
    ]
    print("\n".join(["not complete:", *lacking]) if lacking else f"{TABLE.name}: complete")
    return int(bool(lacking))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
