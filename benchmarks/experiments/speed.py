"""Measured speed-up of the trained drafters: real targets, interleaved with plain decoding.

Target and drafter in fp32, one thread, k = 4, greedy, the end of the text ignored; the cache is the one that
saw the training answers. A busy machine slows both ways of a prompt alike.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.answers import MAX_NEW_TOKENS, load, prompts_of
from benchmarks.experiments.drafters import graph
from benchmarks.experiments.e1 import PASSES
from benchmarks.experiments.measure import NUM_DRAFT_TOKENS, learned
from benchmarks.experiments.pairs import TARGETS, torch_model, weights
from benchmarks.experiments.recipes import LOSSES
from benchmarks.experiments.results import Arm
from benchmarks.experiments.tasks import TASKS, spread
from benchmarks.experiments.training import Training
from omnidraft.commands.bench import as_json, bench
from omnidraft.runtime.ngram_cache import NgramCache
from omnidraft.runtime.round import Mode
from omnidraft.runtime.session import Session

PROMPTS = 10


def arms() -> Iterator[Arm]:
    """Every task and target: untrained with the direct map, and after a pass with trie-KL."""
    for task in TASKS:
        for target in TARGETS:
            settings = {
                "target": target, "task": task, "prompts": PROMPTS, "num_draft_tokens": NUM_DRAFT_TOKENS,
                "max_new_tokens": MAX_NEW_TOKENS,
            }  # fmt: skip
            yield Arm("speed", "untrained", settings, partial(_measure, None, target, task))
            training = Training(target, task, LOSSES["trie-kl"], PASSES[task], 0)
            told = {"train": training.count, "seed": 0, "recipe": training.recipe.as_json()}
            yield Arm("speed", "trie-kl", settings | told, partial(_measure, training, target, task))


def _measure(training: Training | None, target: str, task: str, work: Path) -> dict[str, Any]:
    pair = weights(work, target)
    model = torch_model("drafter") if training is None else training.drafter(work)[0]
    session = Session(replace(pair, drafter=graph(pair, model)))
    mode: Mode = "direct"
    if training is not None:
        mode, session.pair.cache = (
            "trie",
            learned(pair.vocab_map, load(work, target, task, "train", training.count)),
        )
    prompts = spread(prompts_of(task, "test"), PROMPTS)
    found = bench(
        session, prompts, max_new_tokens=MAX_NEW_TOKENS, num_draft_tokens=NUM_DRAFT_TOKENS, mode=mode
    )
    told = as_json(found)
    assert isinstance(found.predicted, float) and isinstance(session.cache, NgramCache)
    return {name: value for name, value in told.items() if name != "prompts"} | {
        "ratios": [line.ratio for line in found.lines],
        "same_text": all(line.same_text for line in found.lines),
    }
