"""Fixed draft lengths against drafts that the adaptive head ends, trained jointly or interleaved.

A joint head is trained on each step's answers, an interleaved one on a replay of earlier answers. The draft
length is not measured: drafts are `MOST` tokens long, or end where the head's chance of a rejection is above
the threshold. The worth of that depends on the cost of a draft token, so the speed-up is predicted from the
counts and the bundle's costs.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from benchmarks.experiments.learning_gain import TEST, TRAIN
from benchmarks.experiments.running.answers import load
from benchmarks.experiments.running.drafters import in_onnxruntime
from benchmarks.experiments.running.measure import Way, counts, learned, recorded
from benchmarks.experiments.running.pairs import TARGETS, load_pair, torch_model
from benchmarks.experiments.running.recipes import LOSSES
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.training import aligned
from omnidraft.training.objectives import objective
from omnidraft.training.trainer import Trainer

MOST = 8
THRESHOLDS = (0.3, 0.5, 0.7)
TASKS = ("gsm8k", "alpaca")
_LOSS = LOSSES["trie-kl"]
Head = Literal["joint", "interleaved"]
MODES: tuple[Head, ...] = ("joint", "interleaved")


def arms() -> Iterator[Arm]:
    """Both targets; a task where drafts are long and one where they are short."""
    for task in TASKS:
        for target in TARGETS:
            for mode in MODES:
                settings = {
                    "target": target, "task": task, "train": TRAIN, "test": TEST, "seed": 0, "head": mode,
                    "most": MOST, "thresholds": list(THRESHOLDS), "recipe": _LOSS.as_json(),
                }  # fmt: skip
                yield Arm("head_lengths", mode, settings, partial(_measure, target, task, mode))


def _measure(target: str, task: str, mode: Head, work: Path) -> dict[str, Any]:
    """All lengths on one drafter: a head does not change what the drafter learns."""
    pair = load_pair(work, target)
    options = _LOSS.trainer_options(0, head=mode)
    trainer = Trainer(torch_model("drafter"), options, objective=objective(_LOSS.objective))
    reports = trainer.train(aligned(work, target, task, TRAIN))
    assert trainer.head is not None
    model: Any = trainer.model
    drafter = in_onnxruntime(pair, model, trainer.head.head)
    prompts = load(work, target, task, "test", TEST)
    costs = pair.bundle.costs
    measured: dict[str, Any] = {
        "head_loss": [round(r.terms["head"], 4) for r in (reports[0], reports[-1])],
        "costs": {"target": list(costs.target), "draft": costs.draft},
    }
    ways = {f"k={k}": Way("trie", k) for k in (2, 4, MOST)}
    ways |= {f"head {t}": Way("trie", MOST, head_threshold=t) for t in THRESHOLDS}
    for name, way in ways.items():
        cache = learned(pair.vocab_map, load(work, target, task, "train", TRAIN))
        measured[name] = counts(pair, recorded(pair), drafter, prompts, way, cache)
    return measured
