"""The losses at temperature 0.01, which the paper measures at, and at 1, where rejection is random.

Drafter and target sample at the temperature. The target is the real one: its whole distributions are needed.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.learning_gain import TRAIN
from benchmarks.experiments.running.answers import load
from benchmarks.experiments.running.drafters import in_onnxruntime
from benchmarks.experiments.running.measure import Way, counts, learned
from benchmarks.experiments.running.pairs import TARGETS, load_pair, torch_model
from benchmarks.experiments.running.recipes import LOSSES, PAPER, Recipe
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.training import Training
from omnidraft.runtime.vocab.ngram_cache import NgramCache

TEMPERATURES = (0.01, 1.0)
TEST = 20
TASK = "gsm8k"
ABLATED: dict[str, Recipe | None] = {
    "untrained": None,
    **LOSSES,
    "ngram-tenth": Recipe("omnidraft", {"factor": 0.02}, PAPER),
    "ngram-p": Recipe("omnidraft", {"factor": 1.0, "ngram": "probability"}, PAPER),
    "ngram-kl": Recipe("omnidraft", {"factor": 0.2, "ngram": "kl"}, PAPER),
    "renormalised": Recipe("omnidraft", {"factor": 0.2, "intersection": "renormalise"}, PAPER),
    "trie-kl-reverse": Recipe("trie-kl", {"direction": "reverse"}, PAPER),
    "forward-kl": Recipe("forward-kl"),
}


def arms() -> Iterator[Arm]:
    """Every loss on both targets; a drafter that another experiment trained is not trained again."""
    for target in TARGETS:
        for name, recipe in ABLATED.items():
            settings = {
                "target": target, "task": TASK, "train": TRAIN, "test": TEST, "seed": 0,
                "temperatures": list(TEMPERATURES), "recipe": recipe.as_json() if recipe else None,
            }  # fmt: skip
            yield Arm("temperature", name, settings, partial(_measure, target, recipe))


def _measure(target: str, recipe: Recipe | None, work: Path) -> dict[str, Any]:
    pair = load_pair(work, target)
    model, summary = torch_model("drafter"), dict[str, Any]()
    if recipe is not None:
        model, summary = Training(target, TASK, recipe, TRAIN, 0).drafter(work)
    drafter, real = in_onnxruntime(pair, model), pair.target.new_model()
    prompts = load(work, target, TASK, "test", TEST)
    measured: dict[str, Any] = {"training": summary}
    for temperature in TEMPERATURES:
        for name, mode in (
            ("direct", Way("direct", temperature=temperature)),
            ("warm", Way("trie", temperature=temperature)),
        ):
            cache = NgramCache(pair.vocab_map)
            if name == "warm":
                cache = learned(pair.vocab_map, load(work, target, TASK, "train", TRAIN))
            measured[f"{name} {temperature}"] = counts(pair, real, drafter, prompts, mode, cache)
    return measured
