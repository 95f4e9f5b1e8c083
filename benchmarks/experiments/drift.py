"""E4, drift: an online drafter whose prompts change from GSM8K to code, or whose target changes and returns.

Prompts come one by one: each is answered with speculation, and every eight the drafter learns from them (so
every count is of prompts that it had not seen). With the cache (trie) or the direct map alone; with learning
and without. Each target keeps a cache of its own; weights and moments are the drafter's.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.running.answers import load
from benchmarks.experiments.running.drafters import in_onnxruntime
from benchmarks.experiments.running.measure import NUM_DRAFT_TOKENS, Way, recorded, speculated
from benchmarks.experiments.running.pairs import torch_model, weights
from benchmarks.experiments.running.recipes import Recipe
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.training import align
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.training.objectives import objective
from omnidraft.training.trainer import Trainer

INTERVAL = 8
RECIPE = Recipe(
    "trie-kl", options={"learning_rate": 1e-3, "batch_size": INTERVAL}
)  # no end is known: constant
Phase = tuple[str, str, int, int]  # target, task, first and last answer
DRIFTS: dict[str, tuple[Phase, ...]] = {
    "data": (("b", "gsm8k", 0, 240), ("b", "code", 0, 240)),
    "target": (("a", "gsm8k", 0, 160), ("b", "gsm8k", 160, 320), ("a", "gsm8k", 320, 480)),
}


def arms() -> Iterator[Arm]:
    """Both drifts, four ways each."""
    for drift, phases in DRIFTS.items():
        for learns in (True, False):
            for cached in (True, False):
                settings = {
                    "phases": [list(p) for p in phases], "learns": learns, "cache": cached, "seed": 0,
                    "interval": INTERVAL, "num_draft_tokens": NUM_DRAFT_TOKENS,
                    "recipe": RECIPE.as_json() if learns else None,
                }  # fmt: skip
                name = f"{drift}-{'learning' if learns else 'still'}-{'cache' if cached else 'direct'}"
                yield Arm("drift", name, settings, partial(_measure, phases, learns, cached))


def _measure(phases: Sequence[Phase], learns: bool, cached: bool, work: Path) -> dict[str, Any]:
    model = torch_model("drafter")
    trainer = (
        Trainer(model, RECIPE.trainer_options(0), objective=objective(RECIPE.objective)) if learns else None
    )
    caches: dict[str, NgramCache] = {}
    steps = list[dict[str, Any]]()
    for number, (target, task, first, last) in enumerate(phases):
        pair = weights(work, target)
        answers = load(work, target, task, "train", last)[first:last]
        cache = caches.setdefault(target, NgramCache(pair.vocab_map, replica=1))
        drafter = in_onnxruntime(pair, model)
        for at in range(0, len(answers), INTERVAL):
            some = answers[at : at + INTERVAL]
            way = Way("trie" if cached else "direct")
            each = [speculated(pair, recorded(pair), drafter, a, way, cache) for a in some]
            steps.append(
                {
                    "phase": number,
                    "drafted": sum(s.drafted for s in each),
                    "passed": sum(s.passed for s in each),
                    "emitted": sum(s.emitted for s in each),
                    "rounds": sum(s.rounds for s in each),
                    "entries": len(cache),
                }
            )
            if trainer is not None:
                trainer.step(align(pair, some))
                drafter = in_onnxruntime(pair, model)
    names = ("phase", "drafted", "passed", "emitted", "rounds", "entries")
    return {name: [step[name] for step in steps] for name in names}
