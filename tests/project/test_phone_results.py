"""The closing line of a run of a port's tests: what did not run, or did not come to its end, has failed."""

from __future__ import annotations

import re

import pytest

from scripts.ios import results
from scripts.phones.results import Ran

LEVELS = {
    "core": {"utf8": 2},
    "files": {"costs": 1},
    "learning": {"trace/rows": 1},
    "publishing": {"sync/pull": 1},
    "grammar": {"grammar/valid": 1},
}
GOOD = """Test Case 'A.testOne' passed (0.1 seconds)
vectors utf8 2/2
vectors costs 1/1
vectors trace/rows 1/1
vectors grammar/valid 1/1
Test Case 'A.testTwo' skipped (0.1 seconds)
Test Suite 'All tests' passed at 2026-01-02 03:04:05.678
\t Executed 2 tests, with 1 test skipped and 0 failures (0 unexpected) in 0.2 (0.2) seconds
"""
FAILED = "/checkout/A.swift:7: error: A.testTwo : it is 3\nand not 4\n"


def test_a_whole_run_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert results.main(GOOD, LEVELS, some=False) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "1 passed, 0 failed"
    assert said[-2].startswith("1 skipped")
    assert said[0].split() == ["costs", "1", "of", "1", "passed,", "1", "in", "the", "manifest"]


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (GOOD.replace("vectors costs 1/1\n", ""), "the folder costs ran 0 of 1 vectors"),
        (GOOD.replace("vectors utf8 2/2", "vectors utf8 1/1"), "the folder utf8 ran 1 of 2 vectors"),
        (GOOD + "vectors nonsense 1/1\n", "the folder nonsense ran 1 of 0 vectors"),
        (GOOD[: GOOD.index("Test Suite")], "the run did not come to its end"),
        (GOOD.replace("testOne' passed", "testOne' failed") + FAILED, "and not 4"),
        ("", "no test was found"),
    ],
)
def test_a_run_that_is_not_whole_fails(log: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert results.main(log, LEVELS, some=False) == 1
    printed = capsys.readouterr().out
    assert said in printed
    assert re.fullmatch(r"\d+ passed, [1-9]\d* failed", printed.splitlines()[-1])


def test_some_tests_alone_need_not_run_every_folder() -> None:
    log = GOOD.replace("vectors costs 1/1\n", "").replace("All tests", "Selected tests")
    assert results.main(log, LEVELS, some=True) == 0


def test_the_lines_of_a_run_are_added_for_a_bundle_and_not_for_a_folder() -> None:
    ran = Ran.read("vectors utf8 2/3\nvectors utf8 3/3\nids a 29/30\nids a 30/30\nids b 1/1\nids b x/1\n")
    assert ran.vectors == {"utf8": (3, 3)}
    assert ran.ids == {"a": (59, 60), "b": (1, 1)}
