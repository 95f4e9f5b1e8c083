"""Counts of a drafter: the runtime's loop on unseen prompts, prompt by prompt."""

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
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.runtime.session.modes import Mode, Verification
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.runtime.vocab.ngram_cache import NgramCache, Policy
from omnidraft.runtime.vocab.vocab_map import VocabMap

NUM_DRAFT_TOKENS = 4
ROUND = 4  # target tokens of an answer that a cache learns in one call


@dataclass(frozen=True)
class Way:
    """How to speculate.

    Attributes:
        mode: the proposer.
        num_draft_tokens: of a round.
        temperature: of drafter and target.
        max_new_tokens: of an answer.
        verification: of mode trie above temperature 0.
    """

    mode: Mode
    num_draft_tokens: int = NUM_DRAFT_TOKENS
    temperature: float = 0.0
    max_new_tokens: int = MAX_NEW_TOKENS
    verification: Verification = "token"


def recorded(pair: LoadedBundle) -> RecordedTarget:
    """A recorded target with the sizes of a pair's target, for greedy counts."""
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
    """The counts of one prompt.

    Args:
        pair: the loaded bundle of the pair.
        target: the real one, or a recorded one (greedy only).
        drafter: keeps its context from prompt to prompt.
        answer: the prompt, and for a recorded target its answer.
        way: how to speculate.
        cache: for the modes that use one; it learns.
        seed: of sampling.
    """
    statistics = Statistics()
    for each in rounds(pair, target, drafter, answer, way, cache, seed):
        statistics.add(each)
    return statistics


def rounds(
    pair: LoadedBundle,
    target: Model,
    drafter: Drafter,
    answer: Answer,
    way: Way,
    cache: NgramCache,
    seed: int = 0,
) -> Iterable[Round]:
    """The rounds of one prompt; arguments as in `speculated`."""
    if isinstance(target, RecordedTarget):
        assert way.temperature == 0.0, "a recorded target has no distributions"
        target.play([*answer.prompt, *answer.tokens])
    else:
        target.rewind(0)
    return decode_prompt(
        DecoderModels(target, drafter, cache),
        answer.prompt,
        answer.draft_prompt,
        GenerationConfig(way.max_new_tokens, way.temperature, mode=way.mode, verification=way.verification),
        FixedLength(way.num_draft_tokens),
        SplitMix64(seed),
        set(pair.bundle.target.eos_ids),
    )


def counts(
    pair: LoadedBundle,
    target: Model,
    drafter: Drafter,
    answers: Sequence[Answer],
    way: Way,
    cache: NgramCache,
    seed: int = 0,
) -> dict[str, Any]:
    """The counts of many prompts for a results file: one a prompt, so that arms can be compared in pairs."""
    prompts = [
        speculated(pair, target, drafter, answer, way, cache, seed + i) for i, answer in enumerate(answers)
    ]
    return {
        "rounds": [s.rounds for s in prompts],
        "emitted": [s.emitted for s in prompts],
        "drafted": [s.drafted for s in prompts],
        "passed": [s.accepted_drafts for s in prompts],
        "tested": [s.evaluated for s in prompts],
    }


def learned(
    vocab_map: VocabMap,
    answers: Iterable[Answer],
    capacity: int | None = None,
    policy: Policy = "lfu",
) -> NgramCache:
    """A cache that learned these answers, as if they had been generated."""
    sizes = {} if capacity is None else {"capacity": capacity}
    cache = NgramCache(vocab_map, policy=policy, **sizes)
    for answer in answers:
        for at in range(0, len(answer.tokens), ROUND):
            cache.learn(answer.tokens[at : at + ROUND], 0)
    return cache


def size_of(cache: NgramCache) -> dict[str, int]:
    """The cache's entries, and its bytes on disk and in memory."""
    return {
        "entries": len(cache),
        "file_bytes": len(encode(cache.table())),
        "memory_bytes": cache.memory_bytes,
    }


def tokens_per_pass(measured: dict[str, Any]) -> float:
    """Output tokens for each pass of the target, over all prompts."""
    return float(np.sum(measured["emitted"]) / max(1, np.sum(measured["rounds"])))
