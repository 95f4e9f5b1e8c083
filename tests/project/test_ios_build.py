"""The Swift package: who imports the engine, how long a file is, what `make ios` runs and how it ends."""

from __future__ import annotations

import json
import re

import pytest

from scripts.ios import results
from support.places import ROOT

IOS = ROOT / "mobile/ios"
MOST_LINES = 300  # of a file of the library
LEVELS = {
    "core": {"utf8": 2},
    "files": {"costs": 1},
    "learning": {"trace/rows": 1},
    "publishing": {"sync/pull": 1},
}
GOOD = """Test Case 'A.testOne' passed (0.1 seconds)
vectors utf8 2/2
vectors costs 1/1
vectors trace/rows 1/1
Test Case 'A.testTwo' skipped (0.1 seconds)
Test Suite 'All tests' passed at 2026-01-02 03:04:05.678
\t Executed 2 tests, with 1 test skipped and 0 failures (0 unexpected) in 0.2 (0.2) seconds
"""
FAILED = "/checkout/A.swift:7: error: A.testTwo : it is 3\nand not 4\n"


def test_one_target_alone_imports_the_engine() -> None:
    imports = re.compile(r"^\s*(?:@\w+ )?import (?:COnnxRuntime|onnxruntime)\b", re.MULTILINE)
    importing = {
        file.relative_to(IOS).parts[1]
        for file in IOS.rglob("*.swift")
        if imports.search(file.read_text(encoding="utf-8"))
    }
    assert importing <= {"OmniDraftORT"}


def test_files_are_short() -> None:
    lines = {
        file.name: len(file.read_text(encoding="utf-8").splitlines())
        for file in (IOS / "Sources").rglob("*.swift")
    }
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_each_script_is_part_of_make_ios() -> None:
    assert "scripts/ios/all.sh" in (ROOT / "Makefile").read_text(encoding="utf-8")
    scripts = {file.stem for file in (ROOT / "scripts/ios").glob("*.sh")} - {"all", "common", "mutate"}
    text = (ROOT / "scripts/ios/all.sh").read_text(encoding="utf-8")
    steps = re.findall(r"\$HERE/(\w+)\.sh(?:\" (\w+))?", text)
    assert '"$PHONES/exchange.sh"' in text
    assert "scripts/ios/exchange.sh" in (ROOT / "scripts/phones/exchange.sh").read_text(encoding="utf-8")
    assert scripts == {name for name, _ in steps} | {"exchange"}
    assert len(steps) == len(set(steps))
    assert {of for name, of in steps if name == "sanitize"} == {"thread", "address"}


def test_the_rules_of_the_sources_go_beyond_those_of_all_files() -> None:
    common = json.loads((ROOT / ".swift-format").read_text(encoding="utf-8"))
    sources = json.loads((IOS / "Sources/.swift-format").read_text(encoding="utf-8"))
    assert sources.items() > common.items()
    assert {"NeverForceUnwrap", "NeverUseForceTry", "AllPublicDeclarationsHaveDocumentation"} <= {
        name for name, wanted in sources["rules"].items() if wanted
    }


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
