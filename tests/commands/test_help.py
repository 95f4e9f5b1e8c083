"""What --help says: every option that takes a name lists the names that there are."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from omnidraft.commands.adapt.adapt_learner import LEARNERS
from omnidraft.export.npu.npu_providers import NAMED
from omnidraft.export.quantize.quantization import BLOCKS, HEADS, METHODS, WEIGHTS
from omnidraft.learning.step.schedule import SCHEDULES
from omnidraft.learning.step.step_batch import OBJECTIVES as STEP_OBJECTIVES
from omnidraft.runtime.decoding.speculate import MODES, VERIFICATIONS
from omnidraft.training.head.head_options import HEAD_TRAININGS
from omnidraft.training.objectives import FROM_TRACES
from omnidraft.training.trainer_options import PRECISIONS
from support.command_line import Run

WIDE = "10000"  # columns: no name is broken


@pytest.mark.parametrize(
    ("command", "option", "names"),
    [
        ("generate", "--mode", MODES),
        ("generate", "--verification", VERIFICATIONS),
        ("adapt", "--objective", FROM_TRACES),
        ("adapt", "--learner", LEARNERS),
        ("learn", "--objective", STEP_OBJECTIVES),
        ("learn", "--schedule", SCHEDULES),
        ("train", "--objective", FROM_TRACES),
        ("train", "--schedule", SCHEDULES),
        ("train", "--head", HEAD_TRAININGS),
        ("train", "--precision", PRECISIONS),
        ("export", "--quant", WEIGHTS),
        ("export", "--embedding", WEIGHTS),
        ("export", "--lm-head", HEADS),
        ("export", "--quant-method", METHODS),
        ("export", "--block", map(str, BLOCKS)),
        ("export", "--npu", (*NAMED, "all")),
    ],
)
def test_help_lists_the_names_that_an_option_takes(
    command: str, option: str, names: Iterable[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", WIDE)
    status, out, _ = run(command, "--help")
    line = next(line for line in out.splitlines() if re.search(rf"(^|\s){option}\s", line))
    found = set(re.findall(r"[\w-]+", line))
    assert status == 0 and found.issuperset(names), line


def test_paragraphs_are_broken_by_the_terminal_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", WIDE)
    for command, begins, ends in (
        (("learn",), "It writes an adapter", "Nothing leaves the machine."),
        (("sync", "pull"), "Signature, models, tokenizers", "the next pull tries it again."),
        (("export",), "The graphs are compared", "leaves nothing behind."),
    ):
        lines = [line.strip() for line in run(*command, "--help")[1].splitlines()]
        assert any(line.startswith(begins) and line.endswith(ends) for line in lines), command


def test_sync_pull_says_its_exit_statuses(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", WIDE)
    out = " ".join(run("sync", "pull", "--help")[1].split())
    assert "Exit status: 0 the newest release is in use" in out
    assert "3 not taken, too few recordings to try it on; 4 not taken, tried" in out
