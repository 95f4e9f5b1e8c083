"""Learning without torch: the training step against the torch trainer on the same responses."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

torch = pytest.importorskip("torch")

from transformers import AutoModelForCausalLM  # noqa: E402

from omnidraft.errors import AdapterError, ExportError, SettingError  # noqa: E402
from omnidraft.export.quantize.quantization import INT4, INT8, Quantization  # noqa: E402
from omnidraft.export.train_step.train_step import step_parity  # noqa: E402
from omnidraft.learning.learn_traces import LearnOptions, _batch, learn, usual_steps  # noqa: E402
from omnidraft.learning.loss_summary import losses_of  # noqa: E402
from omnidraft.learning.positions.alignment import Aligned, Aligner  # noqa: E402
from omnidraft.learning.positions.draft_targets import full_trie  # noqa: E402
from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions  # noqa: E402
from omnidraft.runtime.bundle.bundle import Bundle  # noqa: E402
from omnidraft.runtime.models.adapter import Adapter  # noqa: E402
from omnidraft.training.lora import to_adapter  # noqa: E402
from omnidraft.training.trainer import Trainer  # noqa: E402
from omnidraft.training.trainer_options import TrainerOptions  # noqa: E402
from support import toy_step  # noqa: E402
from support.aligning import dense_rows  # noqa: E402
from support.toy import TARGET  # noqa: E402
from support.toy_step import RANK, toy_bundle, toy_checkpoint  # noqa: E402
from support.toy_training import MAP, toy_responses  # noqa: E402

CREATED = "2026-01-02T03:04:05Z"
TOKENIZERS = MAP.draft_fingerprint, MAP.target_fingerprint
FAST = StepOptions(learning_rate=1e-2)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def bundle(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return toy_bundle(tmp_path_factory.mktemp("bundle"), checkpoint)


@pytest.fixture(scope="module")
def responses() -> list[Aligned]:
    return toy_responses(32)


def learner(bundle: Bundle, options: StepOptions = FAST, adapter: Adapter | None = None) -> OrtLearner:
    return OrtLearner(bundle, MAP, options, adapter=adapter, now=lambda: CREATED)


def trainer(checkpoint: Path, options: TrainerOptions) -> Trainer:
    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    return Trainer(model, options)


def adapter_of(trained: Trainer, bundle: Bundle) -> Adapter:
    entry = bundle.drafter
    assert entry.lora is not None and entry.fingerprint is not None
    return to_adapter(trained.model, entry.lora, entry.fingerprint, TOKENIZERS, CREATED)


def largest_difference(a: Adapter, b: Adapter) -> float:
    assert a.tensors.keys() == b.tensors.keys()
    return max(
        float(np.abs(x - y).max())
        for name in a.tensors
        for x, y in zip(a.tensors[name], b.tensors[name], strict=True)
    )


def test_an_adapter_of_another_target_is_a_beginning_and_one_of_another_drafter_is_not(
    bundle: Bundle, responses: list[Aligned]
) -> None:
    learned = learner(bundle)
    learned.learn(responses[:8])
    foreign = replace(learned.adapter(), target_tokenizer="0" * 64)
    begun = learner(bundle, adapter=foreign).adapter()
    assert largest_difference(begun, foreign) == 0.0
    assert begun.target_tokenizer == learned.adapter().target_tokenizer
    with pytest.raises(AdapterError, match="made on the weights"):
        learner(bundle, adapter=replace(foreign, base="0" * 64))
    with pytest.raises(AdapterError, match="drafter tokenizer"):
        learner(bundle, adapter=replace(foreign, draft_tokenizer="0" * 64))


@pytest.mark.parametrize("at_once", [1, 3])
def test_50_steps_are_those_of_the_torch_trainer(
    at_once: int, bundle: Bundle, checkpoint: Path, responses: list[Aligned]
) -> None:
    """Loss, norm and tensors, with a batch in one call of the graph or in parts."""
    theirs = trainer(checkpoint, TrainerOptions(learning_rate=1e-3, lora_rank=RANK))
    options = StepOptions(learning_rate=1e-3, at_once=at_once)
    ours = learner(bundle, options, adapter_of(theirs, bundle))
    first = adapter_of(theirs, bundle)
    assert largest_difference(ours.adapter(), first) == 0.0
    rng = np.random.default_rng(0)
    for _ in range(50):
        batch = [responses[i] for i in rng.integers(0, len(responses), 8)]
        expected, actual = theirs.step(batch), ours.learn(batch)
        assert actual.loss == pytest.approx(expected.loss, abs=1e-5)
        assert actual.norm == pytest.approx(expected.norm, abs=1e-4)
        assert (actual.step, actual.skipped) == (expected.step, expected.skipped)
    assert largest_difference(ours.adapter(), adapter_of(theirs, bundle)) < 1e-4
    assert largest_difference(ours.adapter(), first) > 0.01


@pytest.mark.parametrize("quantization", [INT8, INT4, Quantization(4, "rtn")])
def test_a_quantised_drafter_learns_against_the_weights_that_run(
    quantization: Any, checkpoint: Path, responses: list[Aligned], tmp_path: Path
) -> None:
    """The loss of the untrained drafter is that of its own graph's logits, and it decreases."""
    bundle = toy_bundle(tmp_path, checkpoint, quantization)
    parities = step_parity(tmp_path / "drafter/cpu/model.onnx", toy_step.STEPS[checkpoint])
    assert max(each.worst for each in parities.values()) < 2e-5
    ours = learner(bundle)
    losses = [ours.learn(responses[:8]).loss for _ in range(20)]
    assert losses[-1] < 0.9 * losses[0]
    from omnidraft.runtime.models.ort_model import Graph, OrtModel

    model = OrtModel(Graph(bundle.file(bundle.drafter.graph), bundle.drafter.kv, bundle.drafter.vocab_size))
    terms = np.array([0.0, 0.0])
    for response in responses[:8]:
        model.rewind(0)
        terms += trie_kl(response, model.score(response.draft_ids.tolist()))
    assert losses[0] == pytest.approx(terms[0] / terms[1], rel=2e-2)  # its kernels also round activations
    weights = sum(file.stat().st_size for file in (tmp_path / "drafter/cpu").iterdir())
    assert (tmp_path / "drafter/train/step.onnx.data").exists() is False and weights > 0


def test_a_tied_drafter_learns_with_one_quantised_table(learnable: Path) -> None:
    """The step reads the codes that the embedding and the LM head of the starters' drafter share."""
    step = onnx.load(learnable / "drafter/train/step.onnx", load_external_data=False).graph
    tables = [t.name for t in step.initializer if t.name.endswith(".q") and "layers" not in t.name]
    assert tables == ["embedding.weight.q"]


@pytest.mark.parametrize("output", ["next_parameters", "next_gradient"])
def test_a_graph_that_computes_another_step_than_torch_is_refused(
    output: str, bundle: Bundle, checkpoint: Path, tmp_path: Path
) -> None:
    """One output a thousandth larger is enough."""
    shutil.copytree(bundle.path, tmp_path / "bundle")
    drafter, step = tmp_path / "bundle/drafter/cpu/model.onnx", toy_step.STEPS[checkpoint]
    parities = step_parity(drafter, step)
    assert parities.keys() == {"step.onnx"} and parities["step.onnx"].worst < 2e-5
    file = tmp_path / "bundle/drafter/train/step.onnx"
    model = onnx.load(file, load_external_data=False)
    (maker,) = (node for node in model.graph.node if output in node.output)
    maker.output[list(maker.output).index(output)] = "before"
    model.graph.initializer.append(numpy_helper.from_array(np.array(1.001, np.float32), "more"))
    model.graph.node.append(helper.make_node("Mul", ["before", "more"], [output]))
    file.write_bytes(model.SerializeToString())
    with pytest.raises(ExportError, match=r"training graph step\.onnx computes another step"):
        step_parity(drafter, step)


def trie_kl(response: Aligned, logits: Any) -> Any:
    """The weighted sum of KL(P || q) over the distributions of a response, and the sum of weights; numpy."""
    rows = logits[response.prompt_length - 1 :].astype(np.float64)
    log_q = rows - rows.max(axis=1, keepdims=True)
    log_q -= np.log(np.exp(log_q).sum(axis=1, keepdims=True))
    distributions, sums = response.trie_distributions, np.zeros(2)
    for n in range(len(distributions)):
        listed = distributions.ids[n] >= 0
        q = np.exp(log_q[distributions.rows[n]])
        p = np.append(distributions.probabilities[n][listed], distributions.other[n])
        q = np.append(
            q[distributions.ids[n][listed]], max(1.0 - q[distributions.ids[n][listed]].sum(), 1e-30)
        )
        kl = float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum())
        sums += distributions.weights[n] * np.array([kl, 1.0])
    return sums


def test_going_on_from_a_state_is_as_if_there_had_been_no_break(
    bundle: Bundle, responses: list[Aligned]
) -> None:
    whole, first = learner(bundle), learner(bundle)
    batches = [responses[i : i + 4] for i in range(0, 32, 4)]
    expected = [whole.learn(batch) for batch in batches]
    for batch in batches[:3]:
        first.learn(batch)
    second = learner(bundle, replace(FAST, seed=5))
    second.restore(first.state())
    assert [second.learn(batch) for batch in batches[3:]] == expected[3:]
    assert second.adapter().digest == whole.adapter().digest
    assert all(
        np.array_equal(a, b) for a, b in zip(second.state().values(), whole.state().values(), strict=True)
    )


def test_a_step_that_is_not_finite_changes_nothing_and_is_told(
    bundle: Bundle, responses: list[Aligned]
) -> None:
    ours = learner(bundle)
    ours.learn(responses[:4])
    before = ours.state()
    distributions = responses[4].trie_distributions
    spoiled = replace(distributions, probabilities=np.full_like(distributions.probabilities, np.nan))
    step = ours.learn([replace(responses[4], trie_distributions=spoiled), *responses[5:8]])
    assert step.skipped and (step.step, ours.skipped) == (2, 1)
    after = ours.state()
    assert all(np.array_equal(before[name], after[name]) for name in before if name != "counts")
    assert not ours.learn(responses[:4]).skipped


def test_a_pass_goes_over_all_responses_in_an_order_of_its_own(
    bundle: Bundle, responses: list[Aligned]
) -> None:
    """Where a step was not finite, the reported losses are those of the other steps."""
    options = LearnOptions(step=FAST, steps=8, batch_size=3, schedule="constant")
    ours, seen = learner(bundle), list[list[int]]()
    distributions = responses[5].trie_distributions
    spoiled = replace(distributions, probabilities=np.full_like(distributions.probabilities, np.nan))
    chosen = [*responses[:5], replace(responses[5], trie_distributions=spoiled), *responses[6:10]]
    losses = list[float]()
    done = learn(ours, chosen, options, progress=lambda step, _: losses.append(step.loss))
    for step in range(8):
        seen.append(_batch(step, len(chosen), options))
    passes = [[i for batch in seen[at : at + 4] for i in batch] for at in (0, 4)]
    assert all(sorted(each) == [*range(10)] for each in passes) and passes[0] != passes[1]
    assert [np.isnan(loss) for loss in losses] == [5 in batch for batch in seen]
    finite = [loss for loss in losses if not np.isnan(loss)]
    assert done.losses == losses_of(losses) and done.losses.mean == pytest.approx(np.mean(finite))
    assert done.skipped == 2


def test_batches_of_something_else_are_refused_and_change_nothing(
    bundle: Bundle, responses: list[Aligned]
) -> None:
    ours = learner(bundle)
    before = ours.state()
    other = replace(MAP, draft_fingerprint="f" * 64)
    for batch, message in (
        ([], "no responses; give at least one"),
        ([responses[0], replace(responses[1], vocab_map=other)], "of the tokenizers ffffffffffff and"),
        ([long_response()], "has 3[0-9][0-9] draft tokens and the drafter's context holds 256"),
    ):
        with pytest.raises(SettingError, match=message):
            ours.learn(batch)
    assert all(np.array_equal(before[name], value) for name, value in ours.state().items())


def long_response() -> Aligned:
    tokens = [0] * 300
    rows = dense_rows(np.full((300, MAP.target_size), 1.0 / MAP.target_size))
    return Aligner(full_trie(MAP), max_length=400).align([1], tokens, rows)


def test_states_adapters_and_settings_of_something_else_are_refused(bundle: Bundle, checkpoint: Path) -> None:
    ours = learner(bundle)
    state = ours.state()
    for name, value in (("parameters", state["parameters"][:-1]), ("updates", np.zeros(2, np.int64))):
        with pytest.raises(SettingError, match=f"as {name} and this learner needs .* go on with the bundle"):
            ours.restore({**state, name: value})
    with pytest.raises(AdapterError, match="rank 6 and the training step takes 12"):
        learner(bundle, adapter=adapter_of(trainer(checkpoint, TrainerOptions(lora_rank=2)), bundle))
    with pytest.raises(SettingError, match="holds no training step; export it again with --train-step"):
        learner(replace(bundle, drafter=replace(bundle.drafter, train=None)))
    for settings, message in (
        ({"learning_rate": float("nan")}, "learning_rate nan"),
        ({"at_once": 0}, "at_once 0"),
        ({"lora_alpha": 0.0}, "lora_alpha 0.0"),
    ):
        with pytest.raises(SettingError, match=message):
            StepOptions(**settings)


def test_a_response_that_nothing_can_be_learned_from_is_no_fault(bundle: Bundle) -> None:
    """The target ends at once, with certainty, with a token without a spelling; or the response is empty."""
    surely = np.eye(MAP.target_size)[[TARGET.index("X")]]
    aligner = Aligner(full_trie(MAP), max_length=64)
    ended = aligner.align([1], [TARGET.index("X")], dense_rows(surely))
    silent = aligner.align([1], [], dense_rows(np.zeros((0, MAP.target_size))))
    assert not len(ended.trie_distributions) and not len(silent.trie_distributions)
    ours = learner(bundle, replace(FAST, weight_decay=0.0))
    before = ours.adapter().digest
    for batch in ([ended], [silent], [ended, silent]):
        assert (ours.learn(batch).loss, ours.adapter().digest) == (0.0, before)


@pytest.mark.parametrize(
    ("count", "steps"),
    [(1, 16), (127, 256), (128, 256), (129, 16 * 17), (257, 8 * 33), (683, 3 * 86), (9000, 1125)],
)
def test_few_responses_are_learned_from_again(count: int, steps: int) -> None:
    assert usual_steps(count, 8) == steps
