"""Which rate and schedule each loss gets: chosen on held-out training prompts of GSM8K, never on test."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.answers import MAX_NEW_TOKENS, load
from benchmarks.experiments.drafters import in_onnxruntime
from benchmarks.experiments.e1 import TRAIN, evaluated
from benchmarks.experiments.measure import NUM_DRAFT_TOKENS
from benchmarks.experiments.pairs import TARGETS, weights
from benchmarks.experiments.recipes import LOSSES, Recipe
from benchmarks.experiments.results import Arm
from benchmarks.experiments.training import Training

WHOLE = (5e-4, 1e-3, 3e-3, 1e-2)
LORA = (1e-3, 3e-3, 1e-2)
CONSTANT = (1e-3, 3e-3)  # without the schedule, for trie-KL
HELD_OUT = (960, 1024)  # of the training prompts: no arm that is compared here learns from them


def arms() -> Iterator[Arm]:
    """Every rate of every loss on both targets, the same 448 answers."""
    for name, recipe in LOSSES.items():
        for target in TARGETS:
            for rate in WHOLE:
                yield _arm(name, target, recipe, rate)
            for rate in LORA:
                yield _arm(f"{name}-lora", target, recipe.with_lora(), rate)
            for rate in CONSTANT if name == "trie-kl" else ():
                options = {**recipe.options, "schedule": "constant"}
                yield _arm("trie-kl-constant", target, replace(recipe, options=options), rate)


def _arm(name: str, target: str, recipe: Recipe, rate: float) -> Arm:
    recipe = replace(recipe, options={**recipe.options, "learning_rate": rate})
    settings = {
        "target": target, "task": "gsm8k", "train": TRAIN, "held_out": list(HELD_OUT), "rate": rate,
        "num_draft_tokens": NUM_DRAFT_TOKENS, "max_new_tokens": MAX_NEW_TOKENS, "seed": 0,
        "recipe": recipe.as_json(),
    }  # fmt: skip
    return Arm("rates", name, settings, partial(_measure, Training(target, "gsm8k", recipe, TRAIN, 0)))


def _measure(training: Training, work: Path) -> dict[str, Any]:
    model, told = training.drafter(work)
    drafter = in_onnxruntime(weights(work, training.target), model)
    prompts = load(work, training.target, "gsm8k", "train", HELD_OUT[1])[HELD_OUT[0] :]
    found = evaluated(work, training.target, "gsm8k", drafter, training.count, ("direct", "warm"), prompts)
    return {"training": told, **found}
