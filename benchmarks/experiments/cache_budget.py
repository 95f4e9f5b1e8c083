"""The budget of the n-gram cache: none, a quarter to all of the n-grams, LFU and LRU, and pre-filled.

The cache learns the training answers under its budget, and goes on learning on the unseen prompts.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.learning_gain import TEST, TRAIN
from benchmarks.experiments.running.answers import load
from benchmarks.experiments.running.drafters import in_onnxruntime
from benchmarks.experiments.running.measure import Way, counts, learned, recorded, size_of
from benchmarks.experiments.running.pairs import TARGETS, load_pair, torch_model
from benchmarks.experiments.running.recipes import LOSSES
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.training import Training
from omnidraft.runtime.vocab.ngram_cache import NgramCache, Policy

SHARES = (0.25, 0.5, 1.0)
CACHED = 768  # answers that the cache learns
PLACES = (("a", "gsm8k"), ("b", "gsm8k"), ("b", "code"), ("b", "alpaca"))


def arms() -> Iterator[Arm]:
    """Untrained in every place; trained with trie-KL on the GSM8K answers of both targets."""
    places = [("untrained", *place) for place in PLACES] + [("trie-kl", t, "gsm8k") for t in TARGETS]
    for name, target, task in places:
        settings: dict[str, Any] = {
            "target": target, "task": task, "cached": CACHED, "test": TEST, "shares": list(SHARES),
        }  # fmt: skip
        if name != "untrained":
            settings |= {"seed": 0, "train": TRAIN, "recipe": LOSSES[name].as_json()}
        yield Arm("cache_budget", name, settings, partial(_measure, name, target, task))


def _measure(name: str, target: str, task: str, work: Path) -> dict[str, Any]:
    pair = load_pair(work, target)
    model = torch_model("drafter")
    if name != "untrained":
        model, _ = Training(target, task, LOSSES[name], TRAIN, 0).drafter(work)
    drafter = in_onnxruntime(pair, model)
    answers = load(work, target, task, "train", CACHED)
    prompts = load(work, target, task, "test", TEST)

    def run(cache: NgramCache, mode: Way) -> dict[str, Any]:
        return {"cache": size_of(cache), **counts(pair, recorded(pair), drafter, prompts, mode, cache)}

    full = len(learned(pair.vocab_map, answers))
    measured = {"none": run(NgramCache(pair.vocab_map), Way("direct"))}
    measured["cold"] = run(NgramCache(pair.vocab_map), Way("trie"))
    policies: tuple[Policy, ...] = ("lfu", "lru")
    for share in SHARES:
        for policy in policies if share < 1.0 else policies[:1]:
            cache = learned(pair.vocab_map, answers, max(1, round(share * full)), policy)
            measured[f"{policy} {share}"] = run(cache, Way("trie"))
    prefilled = NgramCache(pair.vocab_map)
    prefilled.prefill()
    measured["prefilled"] = run(prefilled, Way("trie"))
    return measured
