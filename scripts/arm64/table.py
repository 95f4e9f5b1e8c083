"""Print what ran on x86-64 and on emulated ARM64 processors, in Markdown, and whether the promises hold.

    python scripts/arm64/table.py RESULTS MANIFEST

RESULTS has a file for each processor, written by measure.py, `x86-64.json` among them, and in `vectors` the
counts of the tests with the vectors; `kotlin` has what kotlin.sh wrote. The last line counts what must hold:
every vector of level core and each other that ran passes, ids of tokenizers are those of x86-64, and greedy
text in fp32 is the same with drafts; on x86-64 also greedy text with `bitwise`, and the bits of all rows of
`EvenModel`. The exit status is 1 where something does not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HOST = "x86-64"
ODD, EVEN = ("3", "5", "7"), ("4", "6", "8", "64")  # lengths of passes
BITWISE = ("1 bitwise", "3 bitwise", "8 bitwise")
Results = dict[str, dict[str, Any]]


def vectors(counts: Results, core: dict[str, int], checks: list[bool]) -> Iterator[str]:
    """How many vectors passed on each processor, of level core and of the others that ran."""
    yield "| processor | vectors of level core that pass | of other levels |\n|---|---:|---:|"
    for name, ran in counts.items():
        passed = sum(ran["vectors"].get(folder, [0, 0])[0] for folder in core)
        checks += [ran["vectors"].get(folder) == [count, count] for folder, count in core.items()]
        others = [count for folder, count in ran["vectors"].items() if folder not in core]
        checks += map(whole, others)
        sums = [sum(each) for each in zip(*others, strict=True)]
        cell = f"{sums[0]} of {sums[1]}" if sums else "not run"
        yield f"| {name} | {passed} of {sum(core.values())} | {cell} |"


def tokenizers(results: Results, checks: list[bool]) -> Iterator[str]:
    """How many lines have the ids of x86-64."""
    others = [name for name in results if name != HOST]
    yield f"| tokenizer | {' | '.join(others)} |\n|---{'|---:' * len(others)}|"
    for name, expected in results[HOST]["tokenizers"].items():
        cells = []
        for other in others:
            same = sum(map(str.__eq__, results[other]["tokenizers"][name], expected))
            checks.append(same == len(expected))
            cells.append(f"{same} of {len(expected)}")
        yield f"| {name} | {' | '.join(cells)} |"


def rows(results: Results, checks: list[bool]) -> Iterator[str]:
    """For each bundle and processor: rows against passes of two tokens, and greedy texts."""
    yield f"| form | processor | pass of 1 | {', '.join(ODD)} | {', '.join(EVEN)} | `bitwise` |" + (
        " drafted is plain | with `bitwise` | plain is that of x86-64 |\n" + "|---" * 9 + "|"
    )
    for bundle, host in results[HOST]["bundles"].items():
        for processor, result in results.items():
            if bundle not in result["bundles"]:  # too slow for each processor
                continue
            one = result["bundles"][bundle]
            found, ids = one["rows"], one["ids"]
            same = [
                equal_texts(ids["plain"], ids["drafted"]),
                equal_texts(ids["plain, bitwise"], ids["drafted, bitwise"]),
            ]
            if processor == HOST:
                checks += [all(found[width] is None for width in BITWISE), whole(same[1])]
            if one["form"] == "fp32":
                checks.append(whole(same[0]))
            same.append(equal_texts(ids["plain"], host["ids"]["plain"]))
            cells = [largest(found, widths) for widths in (("1",), ODD, EVEN, BITWISE)]
            texts = [f"{equal} of {count}" for equal, count in same]
            yield f"| {one['form']} | {processor} | {' | '.join(cells + texts)} |"


def kotlin(folder: Path, results: Results, checks: list[bool]) -> Iterator[str]:
    """Greedy texts of the Kotlin library in fp32."""
    files = sorted(folder.glob("*.json"))
    if files:
        yield "| processor | Kotlin, drafted is plain | plain is that of Python |\n|---|---:|---:|"
    for file in files:
        ids, python = json.loads(file.read_text("utf-8")), results[file.stem]["bundles"]["fp32"]["ids"]
        same = equal_texts(ids["plain"], ids["drafted"]), equal_texts(ids["plain"], python["plain"])
        checks.append(whole(same[0]))
        yield f"| {file.stem} | {' | '.join(f'{equal} of {count}' for equal, count in same)} |"


def largest(found: dict[str, float | None], widths: tuple[str, ...]) -> str:
    """The largest difference of passes of these lengths, or that there is none."""
    differences = [each for width in widths if (each := found[width]) is not None]
    return f"{max(differences):.1g}" if differences else "same bits"


def equal_texts(texts: list[list[int]], others: list[list[int]]) -> tuple[int, int]:
    """How many texts are equal, and how many there are."""
    return sum(map(list.__eq__, texts, others)), len(texts)


def whole(count: Sequence[int]) -> bool:
    return count[0] == count[1]


def main(folder: Path, manifest: Path) -> int:
    """Print the tables; the exit status."""
    files = sorted(folder.glob("*.json"), key=lambda file: file.stem != HOST)
    results: Results = {file.stem: json.loads(file.read_text("utf-8")) for file in files}
    counts = {
        file.stem: json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("vectors/*.json"))
    }
    core = json.loads(manifest.read_text("utf-8"))["levels"]["core"]
    for name, result in results.items():
        print(f"{name}: {result['processor']}, onnxruntime {result['onnxruntime']}")
    checks = list[bool]()
    tables = [vectors(counts, core, checks), tokenizers(results, checks), rows(results, checks)]
    for table in (*tables, kotlin(folder / "kotlin", results, checks)):
        print("", *table, sep="\n")
    print(f"\n{sum(checks)} passed, {len(checks) - sum(checks)} failed")
    return int(not all(checks))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
