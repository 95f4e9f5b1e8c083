"""Counts the vectors that ran, and lists them at the end of a test run.

With OMNIDRAFT_RESULTS, the counts also go into this file, for `make conformance`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

RAN: dict[str, int] = {}
PASSED: dict[str, int] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if RAN:
        terminalreporter.section("vectors run")
        for folder, count in sorted(RAN.items()):
            terminalreporter.write_line(f"{folder:16} {count:4}")
        terminalreporter.write_line(f"{'together':16} {sum(RAN.values()):4}")


def pytest_sessionfinish() -> None:
    if os.environ.get("OMNIDRAFT_RESULTS"):
        content = {"vectors": {folder: [PASSED.get(folder, 0), count] for folder, count in RAN.items()}}
        text = json.dumps(content, indent=1, sort_keys=True) + "\n"
        Path(os.environ["OMNIDRAFT_RESULTS"]).write_text(text, encoding="utf-8")
