"""Print the vectors that ran and the closing line of an XCTest run; fail unless all of a phone's levels ran.

python results.py LOG MANIFEST [PATTERN]

LOG has a line `vectors FOLDER PASSED/COUNT` for each folder that ran. With a pattern, only some tests ran, so
folders may be absent.
"""

import json
import re
import sys
from pathlib import Path

LEVELS = ("core", "files", "learning")  # what a phone claims
CASE = re.compile(r"^Test Case '(.+)' (passed|failed|skipped) \(", re.MULTILINE)
VECTORS = re.compile(r"^vectors (\S+) (\d+)/(\d+)$", re.MULTILINE)
ERROR = re.compile(r"^\S+:\d+: error: .*(?:\n(?!Test |\S+:\d+: ).*)*", re.MULTILINE)


def shown_vectors(log: str, levels: dict[str, dict[str, int]], some: bool) -> list[str]:
    """Print the table of vectors, and give a sentence for each folder that did not run as a whole."""
    claimed = {folder: count for level in LEVELS for folder, count in levels[level].items()}
    known = claimed | levels["publishing"]
    ran = {folder: (int(passed), int(count)) for folder, passed, count in VECTORS.findall(log)}
    for folder, (passed, count) in sorted(ran.items()):
        print(f"{folder:18} {passed:5} of {count:5} passed, {known.get(folder, 0):5} in the manifest")
    wrong = [folder for folder, (_, count) in ran.items() if known.get(folder) != count]
    if not some:
        wrong += [folder for folder in claimed if folder not in ran]
    total = sum(known[folder] for folder in ran if folder in known)
    print(f"{'together':18} {sum(p for p, _ in ran.values()):5} of {total:5}")
    return [f"the folder {f} ran {ran.get(f, (0, 0))[1]} of {known.get(f, 0)} vectors" for f in sorted(wrong)]


def main(log: str, levels: dict[str, dict[str, int]], some: bool) -> int:
    """Print failures, the table and the closing line; the exit status."""
    for error in ERROR.findall(log):
        print(error)
    results = [result for _, result in CASE.findall(log)]
    problems = shown_vectors(log, levels, some)
    # The line of the outermost suite is the last one; a run that crashed or was killed has none.
    suites = re.findall(r"^Test Suite '(.+)' (?:passed|failed) at", log, re.MULTILINE)
    if not suites or suites[-1] not in ("All tests", "Selected tests"):
        problems.append("the run did not come to its end:\n" + log[-4000:])
    if not results:
        problems.append("no test was found")
    for problem in problems:
        print(problem)
    if "skipped" in results:
        print(f"{results.count('skipped')} skipped, for want of data or bundles")
    failed = results.count("failed") + len(problems)
    print(f"{results.count('passed')} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    manifest = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    sys.exit(main(Path(sys.argv[1]).read_text(), manifest["levels"], bool(sys.argv[3:] and sys.argv[3])))
