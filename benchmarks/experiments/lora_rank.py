"""The rank of LoRA: 8 to 64, with the same answers and trie-KL."""

from collections.abc import Iterator
from functools import partial

from benchmarks.experiments.learning_gain import TEST, TRAIN, train_and_measure
from benchmarks.experiments.running.pairs import TARGETS
from benchmarks.experiments.running.recipes import LOSSES
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.training import Training

RANKS = (8, 16, 32, 64)


def arms() -> Iterator[Arm]:
    """Every rank on both targets."""
    for target in TARGETS:
        for rank in RANKS:
            recipe = LOSSES["trie-kl"].with_lora(rank)
            settings = {
                "target": target, "task": "gsm8k", "train": TRAIN, "test": TEST, "seed": 0, "rank": rank,
                "recipe": recipe.as_json(),
            }  # fmt: skip
            training = Training(target, "gsm8k", recipe, TRAIN, 0)
            yield Arm("lora_rank", f"rank{rank:02}", settings, partial(train_and_measure, training))
