"""`--help`: panels of options, and the names that an option takes."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from omnidraft.commands.adapt.adapt_learner import LEARNERS
from omnidraft.export.npu.npu_providers import NAMED
from omnidraft.export.quantize.quantization import BLOCKS, HEADS, METHODS, WEIGHTS
from omnidraft.learning.step.schedule import SCHEDULES
from omnidraft.learning.step.step_batch import OBJECTIVES as STEP_OBJECTIVES
from omnidraft.runtime.decoding.baselines import MODES, VERIFICATIONS
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
    words = set(re.findall(r"[\w-]+", line))
    assert status == 0 and words.issuperset(names), line


def test_paragraphs_are_broken_by_the_terminal_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", WIDE)
    for command, begins, ends in (
        (("learn",), "It writes an adapter", "Nothing leaves the machine."),
        (("adapt",), "The text keeps", "the same command goes on."),
        (("sync", "pull"), "Signature, models, tokenizers", "the next pull tries it again."),
        (("export",), "The graphs are compared", "leaves nothing behind."),
    ):
        lines = [line.strip() for line in run(*command, "--help")[1].splitlines()]
        assert any(line.startswith(begins) and line.endswith(ends) for line in lines), command


@pytest.mark.parametrize(
    ("command", "panels"),
    [
        ("generate", ("Options", "Text", "Drafting", "Learned and recorded", "Machine")),
        ("chat", ("Options", "Text", "Drafting", "Learned and recorded", "Machine")),
        ("bench", ("Options", "Text", "Drafting", "Learned and recorded", "Machine")),
        ("export", ("Options", "Weights", "Learning", "Graphs")),
        ("learn", ("Options", "Files", "Learning", "Machine")),
        ("train", ("Options", "Files", "Learning")),
        ("adapt", ("Options", "Prompts", "Learning", "Text", "Drafting", "Machine")),
    ],
)
def test_long_commands_group_their_options(command: str, panels: tuple[str, ...], run: Run) -> None:
    _, out, _ = run(command, "--help")
    headings = re.findall(r"^╭─ ([\w ]+?) ─", out, re.MULTILINE)
    assert [heading for heading in headings if heading != "Arguments"] == list(panels)


def test_sync_pull_says_its_exit_statuses(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", WIDE)
    out = " ".join(run("sync", "pull", "--help")[1].split())
    assert "Exit status: 0 the newest release is in use" in out
    assert "3 not taken, too few recordings to try it on; 4 not taken, tried" in out
