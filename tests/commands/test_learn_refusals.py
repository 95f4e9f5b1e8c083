"""`omnidraft learn`: refusals and their remedies, files that it never replaces, and what Ctrl-C leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnidraft.learning.loss_summary import COMPARED, ENOUGH, losses_of
from omnidraft.learning.step.ort_learner import OrtLearner
from omnidraft.runtime.models.adapter_file import read_adapter
from support.command_line import Run, config, refused


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"learning_rate": -1}, "learning_rate -1.0 is not a number of at least 0.0; 0.001 is usual"),
        ({"steps": 0}, "steps 0 is less than 1; give 1 or more, or leave it out for one pass over all"),
        ({"batch_size": 0}, "batch_size 0 is less than 1; 8 is usual"),
        ({"at_once": 0}, "at_once 0 is not a number of at least 1; 1 is usual"),
        ({"threads": 0}, "threads 0 is outside 1.."),
        ({"max_length": 1}, "max_length 1 leaves no room; give 2 or more, or leave it out for all that"),
        ({"max_length": 4000}, "more than the 256 that the drafter's context holds; give 256 or less"),
        ({"schedule": "up"}, 'schedule "up" is unknown; use constant or decay'),
        ({"schedule": 3}, "settings.toml: schedule = 3 is of the wrong type; give a text in quotes"),
        (
            {"batchsize": 3},
            "batchsize = 3 is no setting of this command; did you mean batch_size?",
        ),
        ({"checkpoint_every": 0}, "checkpoint_every 0 is less than 1; 20 is usual"),
    ],
)
def test_settings_are_refused_in_a_sentence(
    settings: dict[str, object],
    sentence: str,
    learnable: Path,
    learned_traces: Path,
    tmp_path: Path,
    run: Run,
) -> None:
    out = tmp_path / "mine.safetensors"
    refused(run("learn", learnable, learned_traces, "-o", out, *config(**settings)), sentence)
    assert list(tmp_path.iterdir()) == []


def test_bundles_traces_and_places_are_refused_in_a_sentence(
    learnable: Path, learned_traces: Path, bundle: Path, tmp_path: Path, run: Run
) -> None:
    out, nothere = tmp_path / "mine.safetensors", tmp_path / "nothere"
    (tmp_path / "empty").mkdir()
    for call, sentence in (
        ((bundle, learned_traces, "-o", out), "holds no training step; export it again with --train-step"),
        ((learnable, tmp_path / "empty", "-o", out), "holds no trace; check the path"),
        (
            (learnable, nothere, "-o", out),
            f"there is no trace {nothere}; give a directory that a session with a trace recorded in, as "
            f"`omnidraft generate BUNDLE PROMPT --trace {nothere}` does",
        ),
        ((learnable, "-o", out), "learning needs TRACES or --prompts FILE; give one of the two"),
        ((learnable, learned_traces, "-o", out, "--minutes", 1), "--minutes 1 is for --prompts"),
        ((learnable, learned_traces, "-o", tmp_path / "mine.bin"), "give one like mine.safetensors"),
        ((learnable, learned_traces, "-o", tmp_path / "nowhere/mine.safetensors"), "there is no directory"),
        (
            (learnable, learned_traces, "-o", out, *config(checkpoint=tmp_path / "nowhere/state")),
            "the checkpoint cannot be written to",
        ),
    ):
        refused(run("learn", *call), sentence)


def test_nothing_is_replaced_but_by_a_run_that_goes_on(
    learnable: Path, learned_traces: Path, tmp_path: Path, run: Run
) -> None:
    out, state = tmp_path / "mine.safetensors", tmp_path / "state"
    learn = ("learn", learnable, learned_traces, "-o", out, *config(steps=1, checkpoint=state))
    assert run(*learn)[0] == 0
    before = out.read_bytes()
    once = ("learn", learnable, learned_traces, "-o", out, *config(steps=1))
    refused(run(*once), f"{out} exists already; choose another place, or delete it first")
    assert out.read_bytes() == before
    out.write_bytes(b"some notes of mine")
    refused(run(*learn), "mine.safetensors is not an adapter, so it is not overwritten")
    assert out.read_bytes() == b"some notes of mine"


def test_a_run_that_goes_on_may_write_again_what_it_wrote(
    learnable: Path, learned_traces: Path, tmp_path: Path, run: Run
) -> None:
    """Killed between its last checkpoint and the end of its output, the same command ends the work."""
    out, state = tmp_path / "mine.safetensors", tmp_path / "state"
    learn = ("learn", learnable, learned_traces, "-o", out, *config(steps=1, checkpoint=state))
    assert run(*learn)[0] == 0
    digest = read_adapter(out).digest
    out.unlink()
    code, printed, err = run(*learn, "--json")
    assert code == 0 and json.loads(printed)["digest"] == digest, err
    assert json.loads(printed)["done"] == 0 and out.is_file()


def test_an_interrupt_says_what_is_kept(
    learnable: Path, learned_traces: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = OrtLearner.learn

    def interrupted(self: OrtLearner, batch: object) -> object:
        if self.steps == 2:
            raise KeyboardInterrupt
        return learn(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(OrtLearner, "learn", interrupted)
    call = ("learn", learnable, learned_traces, "-o", tmp_path / "mine.safetensors")
    state = tmp_path / "state"
    for settings, sentence in (
        ({}, "nothing was written; with a checkpoint in --config the same command can go on"),
        ({"checkpoint": state}, "nothing was written, and the first checkpoint comes after 20 steps"),
        (
            {"checkpoint": state, "checkpoint_every": 2},
            f"the last checkpoint is in {state}, and the same command goes on from it",
        ),
    ):
        assert run(*call, *config(steps=3, **settings)) == (130, "", f"omnidraft: stopped; {sentence}\n")
        assert not (tmp_path / "mine.safetensors").exists()


def test_few_steps_tell_no_trend(learnable: Path, learned_traces: Path, tmp_path: Path, run: Run) -> None:
    learn = ("learn", learnable, learned_traces, *config(steps=2), "-o")
    code, printed, _ = run(*learn, tmp_path / "mine.safetensors", "--json")
    result = json.loads(printed)
    assert code == 0 and result["mean_loss"] > 0.0
    assert (result["first_loss"], result["last_loss"], result["loss_steps"]) == (None, None, 0)
    code, printed, _ = run(*learn, tmp_path / "again.safetensors")
    assert code == 0 and f"mean loss {result['mean_loss']:.3f}\n" in printed and "first" not in printed


def test_the_ends_of_long_runs_are_compared() -> None:
    few, nan = [2.0] * (ENOUGH - 1), float("nan")
    assert losses_of([*few, nan]) == losses_of(few) and losses_of(few).compared == 0
    assert str(losses_of(few)) == "mean loss 2.000" and str(losses_of([nan])) == "no finite loss"
    losses = losses_of([*few, 1.0])
    assert (losses.first, losses.last, losses.compared) == (2.0, 2.0 - 1.0 / COMPARED, COMPARED)
    assert str(losses) == "mean loss 2.000 in the first 10 steps and 1.900 in the last 10"
    assert losses_of([1.0] * 500).compared == 50
