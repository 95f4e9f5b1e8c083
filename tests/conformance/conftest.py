"""Counts the vectors that ran, and lists them at the end of a test run."""

from __future__ import annotations

import pytest

RAN: dict[str, int] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if RAN:
        terminalreporter.section("vectors run")
        for folder, count in sorted(RAN.items()):
            terminalreporter.write_line(f"{folder:16} {count:4}")
        terminalreporter.write_line(f"{'together':16} {sum(RAN.values()):4}")
