"""The trainer: learning, resuming, skipping and logging."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from omnidraft.errors import SettingError  # noqa: E402
from omnidraft.learning.positions.alignment import Aligned  # noqa: E402
from omnidraft.training.lora import lora_modules  # noqa: E402
from omnidraft.training.train_traces import log_line  # noqa: E402
from omnidraft.training.trainer import StepReport, Trainer  # noqa: E402
from omnidraft.training.trainer_options import TrainerOptions  # noqa: E402
from support.toy_training import accepted, tiny_drafter, toy_responses  # noqa: E402

FAST = TrainerOptions(learning_rate=3e-3, batch_size=4)


@pytest.fixture(scope="module")
def responses() -> list[Aligned]:
    return toy_responses(24)


def learn(trainer: Trainer, responses: list[Aligned]) -> list[StepReport]:
    """One pass over the responses."""
    size = trainer.options.batch_size
    return [trainer.step(responses[at : at + size]) for at in range(0, len(responses), size)]


def state(trainer: Trainer) -> dict[str, Any]:
    return {name: p.detach().clone() for name, p in trainer.parameters.items()}


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize(("name", "gain"), [("trie-kl", 1.15), ("omnidraft", None)])
def test_the_loss_falls_and_acceptance_rises(name: str, gain: float | None) -> None:
    """Greedy for both; at temperature 1 for trie-kl, whose gain is well above the noise of 150 rounds."""
    drafter = tiny_drafter()
    greedy, sampled = accepted(drafter, temperature=0.0), accepted(drafter)
    trainer = Trainer(drafter, replace(FAST, objective=name, batch_size=8))
    reports = learn(trainer, toy_responses(280))
    assert len(reports) == 35 and trainer.skipped == 0
    first, last = (np.mean([r.loss for r in part]) for part in (reports[:5], reports[-5:]))
    assert last < 0.6 * first
    assert accepted(drafter, temperature=0.0) > 1.3 * greedy
    if gain is not None:
        assert accepted(drafter) > gain * sampled


def test_lora_learns_and_leaves_the_base_alone(responses: list[Aligned]) -> None:
    drafter = tiny_drafter()
    base = {k: v.clone() for k, v in drafter.state_dict().items()}
    trainer = Trainer(drafter, replace(FAST, lora_rank=8, learning_rate=1e-2))
    reports = learn(trainer, responses) + [trainer.step(responses[:8]) for _ in range(20)]
    assert reports[-1].loss < 0.9 * reports[0].loss
    kept = {k.replace(".base", ""): v for k, v in drafter.state_dict().items() if "lora_" not in k}
    assert same(kept, base)
    assert all(float(m.lora_b.detach().abs().max()) > 0 for m in lora_modules(drafter).values())


def test_a_checkpoint_of_something_else_is_refused(responses: list[Aligned], tmp_path: Path) -> None:
    file = tmp_path / "state.safetensors"
    trainer = Trainer(tiny_drafter(), FAST)
    learn(trainer, responses)
    trainer.save(file, 24)
    kept = file.read_bytes()
    for options, message in (
        (replace(FAST, learning_rate=1e-5), "made with learning_rate 0.003 and not 1e-05"),
        (replace(FAST, objective="omnidraft"), "made with objective 'trie-kl' and not 'omnidraft'"),
        (replace(FAST, lora_rank=4), "made with lora_rank None and not 4"),
    ):
        with pytest.raises(SettingError, match=message):
            Trainer(tiny_drafter(), options).resume(file, 24)
    with pytest.raises(SettingError, match="made on 24 responses and not on 8"):
        Trainer(tiny_drafter(), FAST).resume(file, 8)
    for spoiled in (kept[:-9], b"", b"x" * 100, kept.replace(b"training_state", b"training_stale")):
        file.write_bytes(spoiled)
        trainer = Trainer(tiny_drafter(), FAST)
        before = state(trainer)
        with pytest.raises(SettingError, match="delete it or name another file"):
            trainer.resume(file, 24)
        assert same(state(trainer), before) and file.read_bytes() == spoiled
    with pytest.raises(SettingError, match="cannot be written"):
        Trainer(tiny_drafter(), FAST).save(tmp_path / "nowhere" / "state", 24)


def test_a_step_that_is_not_finite_changes_nothing_and_is_told(responses: list[Aligned]) -> None:
    trainer = Trainer(tiny_drafter(), FAST)
    trainer.step(responses[:4])
    distributions = responses[4].trie_distributions
    spoiled = replace(
        responses[4],
        trie_distributions=replace(
            distributions, probabilities=np.full_like(distributions.probabilities, np.nan)
        ),
    )
    before = state(trainer)
    moments = {k: v.clone() for k, v in next(iter(trainer.optimizer.state.values())).items()}
    report = trainer.step([spoiled, *responses[5:8]])
    assert report.skipped and trainer.skipped == 1 and trainer.steps == 2
    assert same(state(trainer), before)
    assert same(next(iter(trainer.optimizer.state.values())), moments)
    assert not trainer.step(responses[:4]).skipped
    line = json.loads(log_line(report), parse_constant=pytest.fail)
    assert line["skipped"] and line["loss"] is None


def test_the_gradient_is_clipped_and_the_rate_constant(responses: list[Aligned]) -> None:
    options = replace(FAST, clip_norm=1e-3, weight_decay=0.0)
    trainer = Trainer(tiny_drafter(), options)
    seen = []
    step = trainer.optimizer.step

    def watched(*args: Any, **kwargs: Any) -> Any:
        grads = [p.grad for p in trainer.parameters.values()]
        seen.append(float(torch.cat([g.flatten() for g in grads if g is not None]).norm()))
        return step(*args, **kwargs)

    trainer.optimizer.step = watched  # type: ignore[method-assign]
    report = trainer.step(responses[:4])
    assert report.norm > 0.01 and seen == pytest.approx([1e-3], rel=1e-3)
    (group,) = trainer.optimizer.param_groups
    assert group["betas"] == (0.9, 0.999) and group["lr"] == 3e-3


def test_master_weights_are_float32(responses: list[Aligned]) -> None:
    """A bfloat16 checkpoint is trained in float32; only the forward pass computes in bf16."""
    drafter = tiny_drafter().bfloat16()
    trainer = Trainer(drafter, replace(FAST, precision="bf16"))
    report = trainer.step(responses[:4])
    assert not report.skipped
    tensors = [*trainer.parameters.values()]
    tensors += [v for s in trainer.optimizer.state.values() for k, v in s.items() if k != "step"]
    assert {t.dtype for t in tensors} == {torch.float32}
