"""Drift: an online drafter whose prompts change from GSM8K to code, or whose target changes and returns.

Prompts come one by one. Each is answered with speculation, and the drafter learns from every eight, so
every count is of prompts that the drafter has not seen. The arms: with the cache (trie) or the direct map
alone, with learning or without. Each target has its own cache; weights and moments belong to the drafter.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.running.answers import load
from benchmarks.experiments.running.drafters import in_onnxruntime
from benchmarks.experiments.running.measure import NUM_DRAFT_TOKENS, Way, recorded, speculated
from benchmarks.experiments.running.pairs import load_pair, torch_model
from benchmarks.experiments.running.recipes import Recipe
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.training import align
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.training.objectives import objective
from omnidraft.training.trainer import Trainer

INTERVAL = 8
# A constant rate, because the number of prompts is not known.
RECIPE = Recipe("trie-kl", options={"learning_rate": 1e-3, "batch_size": INTERVAL})
Phase = tuple[str, str, int, int]  # target, task, and the range of its training answers
DRIFTS: dict[str, tuple[Phase, ...]] = {
    "data": (("b", "gsm8k", 0, 240), ("b", "code", 0, 240)),
    "target": (("a", "gsm8k", 0, 160), ("b", "gsm8k", 160, 320), ("a", "gsm8k", 320, 480)),
}


def arms() -> Iterator[Arm]:
    """Both drifts, four arms each."""
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
        pair = load_pair(work, target)
        answers = load(work, target, task, "train", last)[first:last]
        cache = caches.setdefault(target, NgramCache(pair.vocab_map))
        drafter = in_onnxruntime(pair, model)
        for at in range(0, len(answers), INTERVAL):
            batch = answers[at : at + INTERVAL]
            way = Way("trie" if cached else "direct")
            prompts = [speculated(pair, recorded(pair), drafter, answer, way, cache) for answer in batch]
            steps.append(
                {
                    "phase": number,
                    "drafted": sum(s.drafted for s in prompts),
                    "passed": sum(s.accepted_drafts for s in prompts),
                    "emitted": sum(s.emitted for s in prompts),
                    "rounds": sum(s.rounds for s in prompts),
                    "entries": len(cache),
                }
            )
            if trainer is not None:
                trainer.step(align(pair, batch))
                drafter = in_onnxruntime(pair, model)
    names = ("phase", "drafted", "passed", "emitted", "rounds", "entries")
    return {name: [step[name] for step in steps] for name in names}
