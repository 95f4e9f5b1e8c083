"""How well a drafter does: the runtime's own loop on unseen prompts, prompt by prompt."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.experiments.running.answers import MAX_NEW_TOKENS, Answer
from benchmarks.experiments.running.recorded_target import RecordedTarget
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import Mode, Pair, Round, Settings, rule_for, speculate
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.runtime.vocab.ngram_cache import NgramCache, Policy
from omnidraft.runtime.vocab.vocab_map import VocabMap

NUM_DRAFT_TOKENS = 4
ROUND = 4  # target tokens that a cache learns at once from an answer


@dataclass(frozen=True)
class Way:
    """How to speculate; a head ends a draft where a refusal is likelier than its threshold (1: never)."""

    mode: Mode
    num_draft_tokens: int = NUM_DRAFT_TOKENS
    temperature: float = 0.0
    max_new_tokens: int = MAX_NEW_TOKENS
    head_threshold: float = 1.0


def recorded(pair: LoadedBundle) -> RecordedTarget:
    """A target of a pair's sizes, for greedy counts."""
    return RecordedTarget(pair.bundle.target.vocab_size, pair.bundle.target.kv.max_length)


def speculated(
    pair: LoadedBundle,
    target: Model,
    drafter: Drafter,
    answer: Answer,
    way: Way,
    cache: NgramCache,
    seed: int = 0,
) -> Statistics:
    """One prompt's counts.

    Args:
        pair: what is loaded. target: real, or recorded (greedy alone).
        drafter: keeps its context from prompt to prompt.
        answer: the prompt, and for a recorded target its answer.
        way: mode, length and temperature.
        cache: of the modes that use one; it learns.
        seed: of what is sampled.
    """
    found = Statistics()
    for each in rounds(pair, target, drafter, answer, way, cache, seed):
        found.add(each)
    return found


def rounds(
    pair: LoadedBundle,
    target: Model,
    drafter: Drafter,
    answer: Answer,
    way: Way,
    cache: NgramCache,
    seed: int = 0,
) -> Iterable[Round]:
    """The rounds of one prompt; arguments as of `speculated`."""
    if isinstance(target, RecordedTarget):
        assert way.temperature == 0.0, "a recorded target has no distributions"
        target.play([*answer.prompt, *answer.tokens])
    else:
        target.rewind(0)
    settings = Settings(
        rule_for(way.mode, way.temperature), SamplingConfig(way.temperature), way.max_new_tokens,
        set(pair.bundle.target.eos_ids),
    )  # fmt: skip
    return speculate(
        Pair(target, drafter, cache), answer.prompt, answer.draft_prompt, settings,
        FixedLength(way.num_draft_tokens, way.head_threshold), SplitMix64(seed),
    )  # fmt: skip


def counts(
    pair: LoadedBundle,
    target: Model,
    drafter: Drafter,
    answers: Sequence[Answer],
    way: Way,
    cache: NgramCache,
    seed: int = 0,
) -> dict[str, Any]:
    """The counts of many prompts, for a result file: per prompt, so that arms can be compared in pairs."""
    each = [
        speculated(pair, target, drafter, answer, way, cache, seed + i) for i, answer in enumerate(answers)
    ]
    return {
        "rounds": [s.rounds for s in each],
        "emitted": [s.emitted for s in each],
        "drafted": [s.drafted for s in each],
        "passed": [s.passed for s in each],
        "tested": [s.tested for s in each],
    }


def learned(
    vocab_map: VocabMap,
    answers: Iterable[Answer],
    capacity: int | None = None,
    policy: Policy = "lfu",
) -> NgramCache:
    """A cache that saw these answers, as if they had been generated."""
    sizes = {} if capacity is None else {"capacity": capacity}
    cache = NgramCache(vocab_map, policy=policy, replica=1, **sizes)
    for answer in answers:
        for at in range(0, len(answer.tokens), ROUND):
            cache.learn(answer.tokens[at : at + ROUND], 0)
    return cache


def size_of(cache: NgramCache) -> dict[str, int]:
    """Entries, and bytes of its file and in memory."""
    return {
        "entries": len(cache),
        "file_bytes": len(encode(cache.table())),
        "memory_bytes": cache.memory_bytes,
    }


def tokens_per_pass(found: dict[str, Any]) -> float:
    """Over all prompts."""
    return float(np.sum(found["emitted"]) / max(1, np.sum(found["rounds"])))


def acceptance(found: dict[str, Any]) -> float:
    """Accepted draft tokens over drawn ones, as the paper counts."""
    return float(np.sum(found["passed"]) / max(1, np.sum(found["drafted"])))
