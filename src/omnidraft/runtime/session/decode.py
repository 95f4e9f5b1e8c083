"""The loop as a session runs it: with a mode by name, log-probabilities and a trace."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from omnidraft.runtime.decoding.draft_length import DraftLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.decoding.prompt_lookup import CopyingProposer
from omnidraft.runtime.decoding.proposer import Outcome, Proposer, TrieProposer
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.sampling import TargetProbs
from omnidraft.runtime.decoding.speculate import Clock, DecoderState, Round, speculate
from omnidraft.runtime.decoding.stop import cut_at_eos
from omnidraft.runtime.grammar.constraint import Constraint
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.modes import Verification, proposer_for
from omnidraft.runtime.vocab.ngram_cache import NgramCache


class RoundRecorder(Protocol):
    """Records the rounds of one generation; see `Recorder`."""

    def __call__(self, outcome: Outcome, probs: TargetProbs) -> None:
        """Record a verified round."""

    def close(self) -> None:
        """End the record."""


@dataclass
class DecoderModels:
    """The models and the cache that decode a text.

    Attributes:
        clock: gives seconds.
    """

    target: Model
    drafter: Drafter
    cache: NgramCache
    clock: Clock = time.perf_counter


def decode(
    models: DecoderModels,
    text: DecoderState,
    config: GenerationConfig,
    draft_length: DraftLength,
    random: RandomSource,
    recorder_of: Callable[[Proposer], RoundRecorder] | None = None,
    constraint: Constraint | None = None,
) -> Iterator[Round]:
    """Yield the rounds of a generation, each with its seconds and, if asked for, its log-probabilities.

    Args:
        text: from which the generation continues; see `speculate`.
        config: mode, verification ("auto" is token), sampling and log-probabilities are read; `text` and
            `draft_length` hold the rest.
        draft_length: how many tokens to draft in each round.
        recorder_of: makes the recorder of a trace for the proposer of this generation.
        constraint: keeps the text in a grammar.
    """
    verification: Verification = "token" if config.verification == "auto" else config.verification
    proposer = proposer_for(
        config.mode, models.drafter, models.cache, config.temperature, verification, copies=config.copies
    )
    if constraint is not None:
        constraint.begin(text.room(models.target))
        if isinstance(proposer, (TrieProposer, CopyingProposer)) and constraint.masks_drafts:
            proposer.allow(constraint.draft_mask)
    recorder = None if recorder_of is None else recorder_of(proposer)
    logprobs: tuple[float, ...] = ()

    def observe(outcome: Outcome, probs: TargetProbs) -> None:
        nonlocal logprobs
        if config.logprobs:
            logprobs = probs.logprobs(outcome.emitted)
        if recorder is not None:
            recorder(outcome, probs)

    sampling, clock = config.sampling, models.clock
    try:
        rounds = speculate(
            models.target, proposer, text, sampling, draft_length, random, observe, clock, constraint
        )
        for each in rounds:
            yield replace(each, logprobs=logprobs)
    finally:
        if recorder is not None:
            recorder.close()


def decode_prompt(
    models: DecoderModels,
    prompt: Sequence[int],
    draft_prompt: Sequence[int],
    config: GenerationConfig,
    draft_length: DraftLength,
    random: RandomSource,
    eos_ids: Collection[int] = (),
    recorder_of: Callable[[Proposer], RoundRecorder] | None = None,
) -> Iterator[Round]:
    """`decode` of a prompt, up to the first end token or `config.max_new_tokens`.

    Args:
        prompt: target ids, at least one.
        draft_prompt: the same text in draft ids.
    """
    text = DecoderState()
    text.restart(prompt, draft_prompt, config.max_new_tokens, cut_at_eos(eos_ids))
    return decode(models, text, config, draft_length, random, recorder_of)
