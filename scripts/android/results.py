"""Print what ran and the closing line of a JUnit run; fail unless all of a phone's levels ran.

python -m scripts.android.results LOG LINES MANIFEST RESULT [PATTERN]

LINES has the lines of scripts/phones/results.py; the counts of a whole run go into RESULT. With a pattern,
only some classes ran, so folders may be absent.
"""

import json
import re
import sys
from pathlib import Path

from scripts.phones.results import Ran


def found(log: str, what: str) -> int:
    """A number of JUnit's summary; without one, nothing ran to its end."""
    match = re.search(rf"^\[ *(\d+) {what} *\]", log, re.MULTILINE)
    return int(match[1]) if match else 0


def main(log: str, ran: Ran, levels: dict[str, dict[str, int]], some: bool) -> int:
    """Print the table and the closing line; the exit status."""
    ran.show(levels)
    problems = ran.problems(levels, some)
    for problem in problems:
        print(problem)
    passed = found(log, "tests successful")
    failed = found(log, "tests failed") + found(log, "containers failed") + len(problems)
    if found(log, "tests found") == 0:
        print("no test was found:", log[-2000:])
        failed += 1
    skipped = found(log, "tests aborted") + found(log, "tests skipped") + found(log, "containers aborted")
    if skipped:
        print(f"{skipped} skipped, for want of data or bundles")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    lines = Path(sys.argv[2])
    what_ran = Ran.read(lines.read_text(encoding="utf-8") if lines.exists() else "")
    manifest = json.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
    some_tests = bool(sys.argv[5:] and sys.argv[5])
    if not some_tests:
        what_ran.write(Path(sys.argv[4]))
    sys.exit(main(Path(sys.argv[1]).read_text(encoding="utf-8"), what_ran, manifest["levels"], some_tests))
