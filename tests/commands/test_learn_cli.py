"""`export --train-step`, then `learn`: the starter drafter learns without torch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from omnidraft.commands.learn.while_answering import Learning
from omnidraft.errors import BundleError
from omnidraft.learning.learn_traces import MOST_PASSES, LearnOptions, responses_of
from omnidraft.learning.online.profiles import profile_of
from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.runtime.session.api import load
from omnidraft.runtime.session.language_model import load_bundle
from omnidraft.runtime.vocab.vocab_map import load_vocab_map
from omnidraft.sample_prompts import word_problems
from support.command_line import Run, config, runs_without
from support.places import STARTERS
from support.recordings import LEARNED as QUESTIONS

STEP = "drafter/train/step.onnx"
EXPORTS = {"torch", "transformers", "onnx", "onnxscript", "optimum"}


def test_the_step_is_part_of_the_bundle_and_has_no_weights_of_its_own(learnable: Path) -> None:
    bundle = open_bundle(learnable)
    entry = bundle.drafter.train
    assert entry is not None and (entry.graph, entry.folder, entry.rank) == (STEP, "drafter", 8)
    assert STEP in bundle.manifest["files"]
    names = {"step.onnx"}
    assert {file.name for file in (learnable / "drafter/train").iterdir()} == names
    checked = bundle.manifest["checks"]["train"]
    assert checked.keys() == names and all(0.0 <= v < 1e-4 for c in checked.values() for v in c.values())
    graph = onnx.load(learnable / STEP, load_external_data=False)
    places = {e.value for t in graph.graph.initializer for e in t.external_data if e.key == "location"}
    assert places == {"cpu/model.onnx.data"}
    own = sum(len(tensor.raw_data) for tensor in graph.graph.initializer)
    assert own < 0.05 * (learnable / "drafter/cpu/model.onnx.data").stat().st_size  # zero points, norms
    assert b"/site-packages/" not in (learnable / STEP).read_bytes()


def test_the_export_says_what_takes_long(exported_learnable: tuple[Path, list[str]]) -> None:
    """Stages of the drafter, in order; a plain line or the bar shows the last one."""
    _, stages = exported_learnable
    begun = stages.index("write the drafter")
    # torch reports the layers only when it has not traced them before in this process.
    later = [
        stage for stage in stages[begun:] if "weights" not in stage and "trace the drafter, " not in stage
    ]
    assert later[:5] == [
        "write the drafter",
        "trace the drafter",
        "trace the training step, which takes minutes",
        "compare the training step with torch",
        "compare vocabularies",
    ]
    counted = [stage for stage in stages if stage.startswith("write the drafter as int8, ")]
    weights = len(counted)  # each is told once, in order
    assert weights > 5
    assert counted == [f"write the drafter as int8, {i} of {weights} weights" for i in range(weights)]


def test_the_drafter_learns_what_the_target_says_and_a_session_takes_it(
    learnable: Path, learned_traces: Path, tmp_path: Path, run: Run
) -> None:
    out = tmp_path / "mine.safetensors"
    code, printed, err = run(
        "learn", learnable, learned_traces, "-o", out, *config(steps=40, learning_rate=3e-3), "--json"
    )
    assert code == 0, err
    result = json.loads(printed)
    assert result["steps"] == result["done"] == 40 and result["responses"] == len(QUESTIONS)
    assert result["last_loss"] < 0.8 * result["first_loss"] and result["skipped"] == 0
    assert result["loss_steps"] == 10 and result["last_loss"] < result["mean_loss"] < result["first_loss"]
    assert read_adapter(out).digest == result["digest"]
    plain, fast = load(learnable), load(learnable)
    fast.use_adapter(out)
    counts = []
    for session in (plain, fast):
        answers = [session.generate(q, max_new_tokens=40, num_draft_tokens=3).finish() for q in QUESTIONS]
        counts.append(([s.token_ids for s in answers], sum(s.statistics.rounds for s in answers)))
    assert counts[0][0] == counts[1][0], "an adapter of the drafter changed a word"
    assert counts[1][1] < counts[0][1]


def test_few_answers_are_learned_from_again_but_not_by_an_adapter_that_has_learned(
    learnable: Path, learned_traces: Path, tmp_path: Path, run: Run
) -> None:
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    call = ["learn", learnable, learned_traces, "--json", *config(batch_size=len(QUESTIONS))]
    assert json.loads(run(*call, "-o", first)[1])["steps"] == MOST_PASSES
    assert json.loads(run(*call, "-o", second, "--adapter", first)[1])["steps"] == 1


def test_torch_is_never_imported(learnable: Path, learned_traces: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.safetensors"
    runs_without(EXPORTS | {"scipy"}, "learn", learnable, learned_traces, *config(steps=2), "-o", out)
    assert read_adapter(out).rank == 24


def test_it_goes_on_from_its_checkpoint_after_a_kill(
    learnable: Path, learned_traces: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between two steps, a second start writes the same adapter as an uninterrupted run."""
    bundle = open_bundle(learnable)
    vocab_map = load_vocab_map(bundle.file(bundle.vocab_map))
    assert len(responses_of([learned_traces], bundle, vocab_map, LearnOptions())) == len(QUESTIONS)
    whole, broken, state = (tmp_path / name for name in ("whole.safetensors", "broken.safetensors", "state"))
    call, few = ["learn", learnable, learned_traces], {"steps": 6, "batch_size": 2}
    assert run(*call, "-o", whole, *config(**few))[0] == 0
    learn = OrtLearner.learn

    def killed(self: OrtLearner, batch: object) -> object:
        if self.steps == 4:
            raise KeyboardInterrupt
        return learn(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(OrtLearner, "learn", killed)
    code, _, _ = run(*call, "-o", broken, *config(**few, checkpoint=state, checkpoint_every=1))
    assert code != 0 and state.exists() and not broken.exists()
    monkeypatch.setattr(OrtLearner, "learn", learn)
    goes_on = (*call, "-o", broken, *config(**few, checkpoint=state))
    code, printed, err = run(*goes_on, "--json")
    assert code == 0 and json.loads(printed)["done"] == 2, err
    assert read_adapter(broken).digest == read_adapter(whole).digest
    code, _, err = run(*call, "-o", broken, *config(**few, checkpoint=state, learning_rate=1))
    assert code == 1 and "was made with step" in err and "Traceback" not in err
    state.write_bytes(state.read_bytes()[:-3])
    code, _, err = run(*goes_on)
    assert code == 1 and "delete it or name another file" in err


def test_it_learns_while_it_answers_without_torch(learnable: Path, tmp_path: Path) -> None:
    """It runs in its own process; a session then uses its adapter, and the text is the same."""
    place, prompts = tmp_path / "place", tmp_path / "prompts.txt"
    prompts.write_text("".join(f"{question}\n" for question in word_problems(8)))
    settings = config(max_new_tokens=12, interval=2, passes=1, replay=1)
    runs_without(EXPORTS, "learn", learnable, "-o", place, "--prompts", prompts, *settings)
    profile = profile_of(place, open_bundle(learnable))
    session = load(learnable)
    plain = session.generate(QUESTIONS[0], max_new_tokens=12, mode="plain").finish().token_ids
    session.use_adapter(profile.adapter)
    assert session.generate(QUESTIONS[0], max_new_tokens=12).finish().token_ids == plain


def test_adapt_by_the_step_goes_on_to_the_last_bit(learnable: Path, tmp_path: Path) -> None:
    """Interrupted between two answers and within an interval, it gives the same as one run."""
    from support.adapting import answers, assert_same, begin

    weights, make = load_bundle(learnable), Learning().make
    for place, counts in (("whole", [9]), ("broken", [1, 6, 5])):
        for count in counts:
            adaptation = begin(tmp_path / place, weights, make=make)
            answers(adaptation, min(count, 9 - adaptation.position))
            ended = adaptation.position == 9
            if ended:
                adaptation.write()
            adaptation.close()
        assert ended, place
    assert_same(tmp_path / "whole", tmp_path / "broken", weights)


@pytest.mark.parametrize(
    ("options", "settings", "sentence"),
    [
        ((), {"train_rank": 8}, "train_rank 8 is for --train-step"),
        (("--train-step",), {"train_rank": 0}, "train_rank 0 is outside 1..341"),
        (("--train-step",), {"lora_drafter": False}, "leave one of the two out"),
    ],
)
@pytest.mark.usefixtures("export_packages")
def test_options_of_the_export_are_refused_in_a_sentence(
    options: tuple[str, ...], settings: dict[str, object], sentence: str, tmp_path: Path, run: Run
) -> None:
    models = (STARTERS / "b", "--drafter", STARTERS / "drafter")
    code, _, err = run("export", *models, "-o", tmp_path / "out", *options, *config(**settings))
    assert code == 1 and sentence in " ".join(err.split()) and not (tmp_path / "out").exists()


def test_a_graph_that_changed_since_the_bundle_was_opened_is_refused(learnable: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(learnable, tmp_path / "bundle"))
    bundle = open_bundle(copy)
    vocab_map = load_vocab_map(bundle.file(bundle.vocab_map))
    (copy / STEP).write_bytes(b"nothing")
    with pytest.raises(BundleError, match=r"step\.onnx was changed while it was loaded"):
        OrtLearner(bundle, vocab_map, StepOptions())


def test_the_beginning_is_the_specs(learnable: Path) -> None:
    """B is zero, A is drawn within 1 / sqrt(in), and its first number is that of spec/14-train-step.md."""
    bundle = open_bundle(learnable)
    adapter = OrtLearner(bundle, load_vocab_map(bundle.file(bundle.vocab_map))).adapter()
    a, b = adapter.tensors["layers.0.qkv"]
    assert (
        not b.any() and np.abs(a).max() <= 160**-0.5 and a.std() == pytest.approx((160 * 3) ** -0.5, rel=0.05)
    )
    assert a[0, 0] == np.float32((2.0 * 0.8833108082136426 - 1.0) * 160**-0.5)
