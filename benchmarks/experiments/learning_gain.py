"""What training on a target's answers gains, loss by loss, whole and LoRA: the main table.

Every trained arm sees the same answers in the order of its seed. Each is measured with the direct map alone
and with the cache that saw those answers ("warm"); the untrained drafter also with a cache that starts
empty ("cold"). The arms `pass-...` make one pass over all training prompts of a task.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.running.answers import MAX_NEW_TOKENS, Answer, load
from benchmarks.experiments.running.drafters import in_onnxruntime
from benchmarks.experiments.running.measure import NUM_DRAFT_TOKENS, Way, counts, learned, recorded, size_of
from benchmarks.experiments.running.pairs import TARGETS, load_pair, torch_model
from benchmarks.experiments.running.recipes import EQUAL, EQUAL_LORA, LOSSES, Recipe
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.tasks import TASKS
from benchmarks.experiments.running.training import Training
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.vocab.ngram_cache import NgramCache

TRAIN = 448  # answers that every arm learns from, except the whole passes
PASSES = {"gsm8k": 7473, "code": 910, "alpaca": 8000, "scitldr": 1992}  # all training prompts
TEST = 40
SEEDS = (0, 1, 2)


def arms() -> Iterator[Arm]:
    """The most important arms first: untrained, the first seed, whole passes, LoRA, the other seeds."""
    for target in TARGETS:
        for task in TASKS:
            yield _untrained(target, task)
    grid = [(target, task, loss) for task in TASKS for target in TARGETS for loss in LOSSES]
    for target, task, loss in grid:
        yield _trained(loss, target, task, EQUAL[loss], TRAIN, 0)
    for task in TASKS:
        for target in TARGETS:
            yield _trained("pass-trie-kl", target, task, LOSSES["trie-kl"], PASSES[task], 0)
    for target, task, loss in grid:
        yield _trained(f"{loss}-lora", target, task, EQUAL_LORA[loss], TRAIN, 0)
    for seed in SEEDS[1:]:
        for target, task, loss in grid:
            yield _trained(loss, target, task, EQUAL[loss], TRAIN, seed)
    for seed in SEEDS[1:]:
        for target, task, loss in grid:
            yield _trained(f"{loss}-lora", target, task, EQUAL_LORA[loss], TRAIN, seed)
    for task in TASKS:
        for target in TARGETS:
            yield _trained("pass-dm-ngram", target, task, LOSSES["dm-ngram"], PASSES[task], 0)
            yield _trained("pass-trie-kl-lora", target, task, LOSSES["trie-kl"].with_lora(), PASSES[task], 0)


def evaluated(
    work: Path,
    target: str,
    task: str,
    drafter: Drafter,
    count: int,
    ways: tuple[str, ...],
    prompts: Sequence[Answer] = (),
) -> dict[str, Any]:
    """Greedy counts of a drafter.

    Args:
        work: the work directory.
        target, task: whose answers are drafted.
        drafter: the drafter to measure.
        count: training answers that the warm cache learns.
        ways: any of "direct", "cold" (the cache starts empty) and "warm".
        prompts: answers that are drafted; the test prompts by default.
    """
    pair = load_pair(work, target)
    prompts = prompts or load(work, target, task, "test", TEST)
    measured: dict[str, Any] = {}
    for way in ways:
        cache = NgramCache(pair.vocab_map)
        if way == "warm":
            cache = learned(pair.vocab_map, load(work, target, task, "train", count))
            measured["cache"] = size_of(cache)
        mode = Way("direct" if way == "direct" else "trie")
        measured[way] = counts(pair, recorded(pair), drafter, prompts, mode, cache)
    return measured


def _settings(target: str, task: str, count: int) -> dict[str, Any]:
    return {
        "target": target, "task": task, "train": count, "test": TEST, "num_draft_tokens": NUM_DRAFT_TOKENS,
        "max_new_tokens": MAX_NEW_TOKENS,
    }  # fmt: skip


def _untrained(target: str, task: str) -> Arm:
    def run(work: Path) -> dict[str, Any]:
        drafter = in_onnxruntime(load_pair(work, target), torch_model("drafter"))
        return evaluated(work, target, task, drafter, TRAIN, ("direct", "cold", "warm"))

    return Arm("learning_gain", "untrained", _settings(target, task, TRAIN), run)


def _trained(name: str, target: str, task: str, recipe: Recipe, count: int, seed: int) -> Arm:
    settings = _settings(target, task, count) | {"seed": seed, "recipe": recipe.as_json()}
    training = Training(target, task, recipe, count, seed)
    return Arm("learning_gain", name, settings, partial(train_and_measure, training))


def train_and_measure(training: Training, work: Path) -> dict[str, Any]:
    """Train a drafter, then count with the direct map and with the warm cache."""
    model, summary = training.drafter(work)
    drafter = in_onnxruntime(load_pair(work, training.target), model)
    ways = ("direct", "warm")
    measured = evaluated(work, training.target, training.task, drafter, training.count, ways)
    return {"training": summary, **measured}
