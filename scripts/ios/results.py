"""Print what ran and the closing line of an XCTest run; fail unless all of a phone's levels ran.

python -m scripts.ios.results LOG MANIFEST RESULT [PATTERN]

The counts of a whole run go into RESULT. With a pattern, only some tests ran, so folders may be absent.
"""

import json
import re
import sys
from pathlib import Path

from scripts.phones.results import Ran

CASE = re.compile(r"^Test Case '(.+)' (passed|failed|skipped) \(", re.MULTILINE)
ERROR = re.compile(r"^\S+:\d+: error: .*(?:\n(?!Test |\S+:\d+: ).*)*", re.MULTILINE)


def main(log: str, levels: dict[str, dict[str, int]], some: bool) -> int:
    """Print failures, the table and the closing line; the exit status."""
    for error in ERROR.findall(log):
        print(error)
    results = [result for _, result in CASE.findall(log)]
    ran = Ran.read(log)
    ran.show(levels)
    problems = ran.problems(levels, some)
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
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    manifest = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    some_tests = bool(sys.argv[4:] and sys.argv[4])
    if not some_tests:
        Ran.read(text).write(Path(sys.argv[3]))
    sys.exit(main(text, manifest["levels"], some_tests))
