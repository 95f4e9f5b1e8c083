"""How varied the targets' answers are, and how many answers to unseen prompts are also training answers.

Where most are, a drafter can learn the answers by heart, and its gain says little about other targets.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.learning_gain import TEST, TRAIN
from benchmarks.experiments.running.answers import load
from benchmarks.experiments.running.pairs import TARGETS, load_pair
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.tasks import TASKS


def arms() -> Iterator[Arm]:
    """Every task and target."""
    for task in TASKS:
        for target in TARGETS:
            settings = {"target": target, "task": task, "train": TRAIN, "test": TEST}
            yield Arm("target_texts", "texts", settings, partial(_measure, target, task))


def _measure(target: str, task: str, work: Path) -> dict[str, Any]:
    vocab_map = load_pair(work, target).vocab_map
    answers = [a.tokens for a in load(work, target, task, "test", TEST)]
    training = {a.tokens for a in load(work, target, task, "train", TRAIN)}
    tokens = [t for answer in answers for t in answer]
    fours = [answer[i : i + 4] for answer in answers for i in range(len(answer) - 3)]
    return {
        "tokens": len(tokens),
        "distinct": len(set(answers)),
        "in_training": sum(answer in training for answer in answers),
        "distinct_in_training": len(training),
        "distinct_runs_of_4": round(len(set(fours)) / max(1, len(fours)), 3),
        "ngrams": round(sum(len(vocab_map.spell(t)) > 1 for t in tokens) / len(tokens), 4),
    }
