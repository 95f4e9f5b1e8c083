"""Print the vectors that ran and the closing line of a JUnit run; fail unless all of a phone's levels ran.

python results.py LOG VECTORS MANIFEST [PATTERN]

VECTORS has a line `folder count` for each folder that ran. With a pattern, only some classes ran, so folders
may be absent.
"""

import json
import re
import sys
from pathlib import Path

LEVELS = ("core", "files", "learning")  # what a phone claims


def found(log: str, what: str) -> int:
    """A number of JUnit's summary; without one, nothing ran to its end."""
    match = re.search(rf"^\[ *(\d+) {what} *\]", log, re.MULTILINE)
    return int(match[1]) if match else 0


def main(log: str, ran: dict[str, int], levels: dict[str, dict[str, int]], some: bool) -> int:
    """Print the table and the closing line; the exit status."""
    claimed = {folder: count for level in LEVELS for folder, count in levels[level].items()}
    known = claimed | levels["publishing"]
    wrong = [
        f for f, count in known.items() if ran.get(f, None if f in claimed and not some else count) != count
    ]
    for folder, count in sorted(ran.items()):
        print(f"{folder:18} {count:5} of {known.get(folder, 0)}")
    print(
        f"{'together':18} {sum(ran.values()):5} of {sum(known[folder] for folder in ran if folder in known)}"
    )
    for folder in wrong:
        print(f"the folder {folder} ran {ran.get(folder, 0)} of {known[folder]} vectors")
    passed = found(log, "tests successful")
    failed = found(log, "tests failed") + found(log, "containers failed") + len(wrong)
    if found(log, "tests found") == 0:
        print("no test was found:", log[-2000:])
        failed += 1
    skipped = found(log, "tests aborted") + found(log, "tests skipped") + found(log, "containers aborted")
    if skipped:
        print(f"{skipped} skipped, for want of data or bundles")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    lines = Path(sys.argv[2]).read_text().split("\n") if Path(sys.argv[2]).exists() else []
    counts = {folder: int(count) for folder, count in (line.split() for line in lines if line)}
    manifest = json.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
    sys.exit(
        main(Path(sys.argv[1]).read_text(), counts, manifest["levels"], bool(sys.argv[4:] and sys.argv[4]))
    )
