"""What the targets say: how varied their answers are, and how many to unseen prompts were training answers.

Where most were, a drafter can learn them by heart, and what it gains there says little of other targets.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.learning_gain import TEST, TRAIN
from benchmarks.experiments.running.answers import load
from benchmarks.experiments.running.pairs import TARGETS, weights
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.tasks import TASKS


def arms() -> Iterator[Arm]:
    """Every task and target."""
    for task in TASKS:
        for target in TARGETS:
            settings = {"target": target, "task": task, "train": TRAIN, "test": TEST}
            yield Arm("target_texts", "texts", settings, partial(_measure, target, task))


def _measure(target: str, task: str, work: Path) -> dict[str, Any]:
    vocab_map = weights(work, target).vocab_map
    said = [a.tokens for a in load(work, target, task, "test", TEST)]
    seen = {a.tokens for a in load(work, target, task, "train", TRAIN)}
    tokens = [t for answer in said for t in answer]
    fours = [answer[i : i + 4] for answer in said for i in range(len(answer) - 3)]
    return {
        "tokens": len(tokens),
        "distinct": len(set(said)),
        "in_training": sum(answer in seen for answer in said),
        "distinct_in_training": len(seen),
        "distinct_runs_of_4": round(len(set(fours)) / max(1, len(fours)), 3),
        "ngrams": round(sum(len(vocab_map.spell(t)) > 1 for t in tokens) / len(tokens), 4),
    }
