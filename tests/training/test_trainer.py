"""The trainer: learning, resuming, skipping, logging, and several processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from omnidraft.errors import SettingError  # noqa: E402
from omnidraft.learning.positions.alignment import Aligned  # noqa: E402
from omnidraft.training import Trainer, TrainerOptions, train  # noqa: E402
from omnidraft.training.lora import lora_modules  # noqa: E402
from support.places import ROOT  # noqa: E402
from support.toy_training import accepted, tiny_drafter, toy_responses  # noqa: E402
from support.train_processes import learn  # noqa: E402

FAST = TrainerOptions(learning_rate=3e-3, batch_size=4)


@pytest.fixture(scope="module")
def responses() -> list[Aligned]:
    return toy_responses(24)


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
    reports = trainer.train(toy_responses(280))
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
    reports = trainer.train(responses) + [trainer.step(responses[:8]) for _ in range(20)]
    assert reports[-1].loss < 0.9 * reports[0].loss
    kept = {k.replace(".base", ""): v for k, v in drafter.state_dict().items() if "lora_" not in k}
    assert same(kept, base)
    assert all(float(m.lora_b.detach().abs().max()) > 0 for m in lora_modules(drafter).values())


@pytest.mark.parametrize("schedule", ["constant", "decay"])
def test_a_resumed_run_equals_one_without_a_break(
    responses: list[Aligned], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedule: Any
) -> None:
    options = replace(FAST, schedule=schedule)
    whole = Trainer(tiny_drafter(), options)
    whole_log = whole.train(responses, log=tmp_path / "whole.jsonl")
    file, log = tmp_path / "state.safetensors", tmp_path / "log.jsonl"
    broken = Trainer(tiny_drafter(), options)

    class KilledError(Exception):
        pass

    step, count = broken.step, 0

    def until_killed(batch: Any) -> Any:
        nonlocal count
        count += 1
        if count == 6:
            raise KilledError
        return step(batch)

    monkeypatch.setattr(broken, "step", until_killed)
    with pytest.raises(KilledError):
        broken.train(responses, log=log, checkpoint=file, checkpoint_every=2)
    assert len(log.read_text().splitlines()) == 5
    fresh = Trainer(tiny_drafter(seed=7), options)  # all values come from the file
    rest = fresh.train(responses, log=log, checkpoint=file, checkpoint_every=2)
    assert [r.step for r in rest] == [5, 6] and fresh.steps == whole.steps == 6
    assert rest == whole_log[4:]
    assert same(state(fresh), state(whole))
    assert log.read_text() == (tmp_path / "whole.jsonl").read_text()
    again = Trainer(tiny_drafter(), options).train(responses, checkpoint=file)
    assert again == []  # no step is left


def test_lora_is_resumed_too(responses: list[Aligned], tmp_path: Path) -> None:
    options = replace(FAST, lora_rank=4)
    whole, first, second = (Trainer(tiny_drafter(), options) for _ in range(3))
    for _ in range(4):
        whole.step(responses[:4])
    for _ in range(2):
        first.step(responses[:4])
    first.save(tmp_path / "state")
    second.resume(tmp_path / "state")
    for _ in range(2):
        second.step(responses[:4])
    assert same(state(second), state(whole)) and second.steps == 4
    assert all("lora_" in name for name in state(second))


def test_a_checkpoint_of_something_else_is_refused(responses: list[Aligned], tmp_path: Path) -> None:
    file = tmp_path / "state.safetensors"
    Trainer(tiny_drafter(), FAST).train(responses, checkpoint=file)
    kept = file.read_bytes()
    for options, message in (
        (replace(FAST, learning_rate=1e-5), "made with learning_rate 0.003 and not 1e-05"),
        (replace(FAST, objective="omnidraft"), "made with objective 'trie-kl' and not 'omnidraft'"),
        (replace(FAST, lora_rank=4), "made with lora_rank None and not 4"),
    ):
        with pytest.raises(SettingError, match=message):
            Trainer(tiny_drafter(), options).train(responses, checkpoint=file)
    with pytest.raises(SettingError, match="made on 24 responses and not on 8"):
        Trainer(tiny_drafter(), FAST).train(responses[:8], checkpoint=file)
    for spoiled in (kept[:-9], b"", b"x" * 100, kept.replace(b"training_state", b"training_stale")):
        file.write_bytes(spoiled)
        trainer = Trainer(tiny_drafter(), FAST)
        before = state(trainer)
        with pytest.raises(SettingError, match="delete it or name another file"):
            trainer.train(responses, checkpoint=file)
        assert same(state(trainer), before) and file.read_bytes() == spoiled
    with pytest.raises(SettingError, match="cannot be written"):
        Trainer(tiny_drafter(), FAST).save(tmp_path / "nowhere" / "state")


def test_a_step_that_is_not_finite_changes_nothing_and_is_told(
    responses: list[Aligned], tmp_path: Path
) -> None:
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
    log = tmp_path / "log.jsonl"
    trainer = Trainer(tiny_drafter(), replace(FAST, batch_size=1))
    trainer.train([spoiled, responses[5]], log=log)
    lines = [json.loads(line, parse_constant=pytest.fail) for line in log.read_text().splitlines()]
    assert sorted(line["skipped"] for line in lines) == [False, True]
    assert [line["loss"] for line in lines if line["skipped"]] == [None]


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


def test_the_rate_rises_and_falls_over_a_pass() -> None:
    options = replace(FAST, schedule="decay")
    rates = [options.rate_at(step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(3e-3 / 5) and rates[4:70] == [3e-3] * 66
    assert rates[70:] == sorted(rates[70:], reverse=True) and 0.0 < rates[-1] < rates[70]
    assert replace(options, schedule="constant").rate_at(99, 100) == 3e-3


def test_the_rate_that_is_used_is_that_of_the_schedule(responses: list[Aligned]) -> None:
    trainer = Trainer(tiny_drafter(), replace(FAST, schedule="decay"))
    used = []
    step = trainer.step

    def watched(batch: Any) -> Any:
        used.append(trainer.optimizer.param_groups[0]["lr"])
        return step(batch)

    trainer.step = watched  # type: ignore[method-assign,assignment]
    trainer.train(responses)
    assert used == [trainer.options.rate_at(at, 6) for at in range(6)]


def test_master_weights_are_float32(responses: list[Aligned]) -> None:
    """A bfloat16 checkpoint is trained in float32; only the forward pass computes in bf16."""
    drafter = tiny_drafter().bfloat16()
    trainer = Trainer(drafter, replace(FAST, precision="bf16"))
    report = trainer.step(responses[:4])
    assert not report.skipped
    tensors = [*trainer.parameters.values()]
    tensors += [v for s in trainer.optimizer.state.values() for k, v in s.items() if k != "step"]
    assert {t.dtype for t in tensors} == {torch.float32}


def test_order_and_seed(responses: list[Aligned]) -> None:
    runs = [train(tiny_drafter(), responses, FAST) for _ in range(2)]
    assert runs[0].steps == 6 and same(state(runs[0]), state(runs[1]))
    second = runs[0].train(responses)  # another pass
    assert [r.step for r in second] == list(range(7, 13))
    losses = [Trainer(tiny_drafter(), replace(FAST, seed=s)).train(responses)[0].loss for s in (0, 1)]
    assert losses[0] != losses[1]


def test_settings_are_refused_by_name(responses: list[Aligned]) -> None:
    for settings, message in (
        ({"learning_rate": float("nan")}, "learning_rate nan"),
        ({"weight_decay": -1.0}, "weight_decay -1.0"),
        ({"batch_size": 0}, "batch_size 0"),
        ({"precision": "fp8"}, "use fp32 or bf16"),
        ({"schedule": "cosine"}, "use constant or decay"),
    ):
        with pytest.raises(SettingError, match=message):
            TrainerOptions(**settings)
    with pytest.raises(SettingError, match='"nothing" is unknown'):
        Trainer(tiny_drafter(), replace(FAST, objective="nothing"))
    trainer = Trainer(tiny_drafter(), FAST)
    with pytest.raises(SettingError, match="no responses"):
        trainer.train([])
    with pytest.raises(SettingError, match="no responses"):
        trainer.step([])


def test_two_processes_learn_what_one_learns(tmp_path: Path) -> None:
    """accelerate launch, gloo: batches of 4 and a last one of 1, which leaves one process without work.

    `--multi_gpu` starts the processes; the script keeps them on the CPU. (`--cpu` starts one, or needs MPI.)
    """
    pytest.importorskip("accelerate")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("src", "tests", ".")),
        "OMP_NUM_THREADS": "1",
    }
    files = tmp_path / "one", tmp_path / "two"
    learn(files[0])
    done = subprocess.run(
        [
            sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
            "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
            "--main_process_port", "0", str(ROOT / "tests/support/train_processes.py"), str(files[1]),
        ],
        env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "processes 2" in done.stdout

    one, two = (load_file(file) for file in files)
    assert one.keys() == two.keys()
    begun = {f"parameter.model.{name}": p.detach() for name, p in tiny_drafter().named_parameters()}
    for name, start in begun.items():
        # Adam turns a gradient near 0 into a step of either sign, so norms are compared.
        moved = float((one[name] - start).norm())
        assert float((one[name] - two[name]).norm()) < 1e-3 * moved, name
    logs = [[json.loads(x) for x in (f.with_suffix(".jsonl")).read_text().splitlines()] for f in files]
    assert len(logs[0]) == len(logs[1]) == 3
    for a, b in zip(*logs, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)
        assert a["terms"] == pytest.approx(b["terms"], rel=1e-5)
