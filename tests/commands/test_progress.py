"""Progress of long commands: a bar in a terminal, plain lines in a pipe, nothing for programs; plurals."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from omnidraft.commands.terminal import progress
from omnidraft.errors import counted
from support.command_line import Run

DEADLINE = 60.0  # seconds to wait for a line


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_a_pipe_gets_lines_while_one_step_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    err = ""

    def has(words: str) -> bool:
        nonlocal err
        err += capsys.readouterr().err
        return words in err

    with progress.progress_bar("export") as bar:
        until(lambda: has("omnidraft: export, 0:0"))
        bar.stage("quantise [the] target", 3, 8)
        until(lambda: has("omnidraft: export: quantise [the] target, 3 of 8 (38 %), 0:0"))
        bar.step(12_000, 48_000)
        until(lambda: has("target, 12,000 of 48,000 (25 %)"))
    assert "\x1b" not in err and "\r" not in err
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""  # nothing after the end


def test_a_terminal_gets_the_bar_and_programs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    for terminal in (True, False):
        shown = io.StringIO()
        console = Console(file=shown, force_terminal=terminal, width=100)
        monkeypatch.setattr(progress, "err", console)
        with progress.progress_bar("learn", quiet=True) as bar:
            bar.stage("loss 1.0", 1, 2)
            time.sleep(0.05)
        assert shown.getvalue() == "" and capsys.readouterr().err == ""
        if terminal:
            with progress.progress_bar("learn") as bar:
                bar.stage("loss [1.0]", 1, 2)
            assert "learn: loss [1.0]" in shown.getvalue() and capsys.readouterr().err == ""


def test_commands_tell_a_pipe_how_far_they_are(
    bundle: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.02)
    (tmp_path / "two.txt").write_text("How many?\nHow much?\n")
    bench = ("bench", bundle, "--prompts", tmp_path / "two.txt", "-n", 4)
    status, out, err = run(*bench)
    assert status == 0 and "omnidraft: bench: " in err and "bench:" not in out
    status, _, err = run(*bench, "--json")
    assert status == 0 and "bench:" not in err


def test_one_is_no_plural() -> None:
    assert [counted(n, "step") for n in (0, 1, 2, 1024)] == ["0 steps", "1 step", "2 steps", "1,024 steps"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_alone_is_told_that_a_bundle_loads(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Err(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    err = Err()
    monkeypatch.setattr(sys, "stderr", err)
    with progress.loading("app"):
        assert err.getvalue() == ("loading app ...\r" if is_terminal else "")
    assert err.getvalue() == ("loading app ...\r\x1b[K" if is_terminal else "")
