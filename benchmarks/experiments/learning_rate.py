"""The learning rate and schedule of each loss, chosen on held-out GSM8K training prompts, never on test."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.learning_gain import TRAIN, evaluated
from benchmarks.experiments.running.answers import MAX_NEW_TOKENS, load
from benchmarks.experiments.running.drafters import in_onnxruntime
from benchmarks.experiments.running.measure import NUM_DRAFT_TOKENS
from benchmarks.experiments.running.pairs import TARGETS, load_pair
from benchmarks.experiments.running.recipes import LOSSES, Recipe
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.training import Training

WHOLE = (5e-4, 1e-3, 3e-3, 1e-2)
LORA = (1e-3, 3e-3, 1e-2)
CONSTANT = (1e-3, 3e-3)  # a constant rate, for trie-KL
LONGER = {"trie-kl": (1e-3, 3e-3), "dm-ngram": (5e-4, 1e-3, 3e-3)}  # for whole passes
LONG = 2048  # answers of LONGER
HELD_OUT = (960, 1024)  # a range of training prompts; no arm with 448 answers learns from them
HELD_OUT_LONG = (7409, 7473)  # for LONGER


def arms() -> Iterator[Arm]:
    """Every rate of every loss on both targets, with the same 448 answers; some rates also with 2,048."""
    for name, recipe in LOSSES.items():
        for target in TARGETS:
            for rate in WHOLE:
                yield _arm(name, target, recipe, rate)
            for rate in LORA:
                yield _arm(f"{name}-lora", target, recipe.with_lora(), rate)
            for rate in CONSTANT if name == "trie-kl" else ():
                options = {**recipe.options, "schedule": "constant"}
                yield _arm("trie-kl-constant", target, replace(recipe, options=options), rate)
    for name, rates in LONGER.items():
        for target in TARGETS:
            for rate in rates:
                yield _arm(f"long-{name}", target, LOSSES[name], rate, LONG, HELD_OUT_LONG)


def _arm(
    name: str,
    target: str,
    recipe: Recipe,
    rate: float,
    count: int = TRAIN,
    held_out: tuple[int, int] = HELD_OUT,
) -> Arm:
    recipe = recipe.at(rate)
    settings = {
        "target": target, "task": "gsm8k", "train": count, "held_out": list(held_out), "rate": rate,
        "num_draft_tokens": NUM_DRAFT_TOKENS, "max_new_tokens": MAX_NEW_TOKENS, "seed": 0,
        "recipe": recipe.as_json(),
    }  # fmt: skip
    training = Training(target, "gsm8k", recipe, count, 0)
    return Arm("learning_rate", name, settings, partial(_measure, training, held_out))


def _measure(training: Training, held_out: tuple[int, int], work: Path) -> dict[str, Any]:
    model, summary = training.drafter(work)
    drafter = in_onnxruntime(load_pair(work, training.target), model)
    prompts = load(work, training.target, "gsm8k", "train", held_out[1])[held_out[0] :]
    ways = ("direct", "warm")
    measured = evaluated(work, training.target, "gsm8k", drafter, training.count, ways, prompts)
    return {"training": summary, **measured}
