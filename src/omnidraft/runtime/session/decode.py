"""The loop as a session runs it: with a mode by name, log-probabilities and a trace."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from omnidraft.runtime.decoding.draft_length import DraftLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.decoding.prompt_lookup import InGrammar
from omnidraft.runtime.decoding.proposer import Outcome
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.sampling import TargetProbs
from omnidraft.runtime.decoding.speculate import Clock, DecoderState, Observer, Round, speculate
from omnidraft.runtime.decoding.stop import cut_at_eos
from omnidraft.runtime.models.fast_softmax import fast_softmax
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.modes import Verification, proposer_for
from omnidraft.runtime.vocab.ngram_cache import NgramCache


@dataclass
class DecoderModels:
    """The models and the cache that decode a text."""

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
    record: Observer | None = None,
) -> Iterator[Round]:
    """Yield the rounds of a generation, each with its seconds and, if asked for, its log-probabilities.

    Args:
        text: from which the generation continues; see `speculate`.
        config: mode, verification ("auto" is token), sampling and log-probabilities are read; `text` and
            `draft_length` hold the rest.
        draft_length: how many tokens to draft in each round.
    """
    verification: Verification = "token" if config.verification == "auto" else config.verification
    proposer = proposer_for(
        config.mode, models.drafter, models.cache, config.temperature, verification, copies=config.copies
    )
    if text.constraint is not None:
        constrained = InGrammar(proposer, draft_length, text.constraint)
        proposer, draft_length = constrained, constrained
    logprobs: tuple[float, ...] = ()

    def observe(outcome: Outcome, probs: TargetProbs) -> None:
        nonlocal logprobs
        if config.logprobs:
            logprobs = probs.logprobs(outcome.emitted)
        if record is not None:
            record(outcome, probs)

    text.workspace.softmax = models.drafter.workspace.softmax = fast_softmax
    sampling, clock = config.sampling, models.clock
    for each in speculate(models.target, proposer, text, sampling, draft_length, random, observe, clock):
        yield replace(each, logprobs=logprobs)


def decode_prompt(
    models: DecoderModels,
    prompt: Sequence[int],
    draft_prompt: Sequence[int],
    config: GenerationConfig,
    draft_length: DraftLength,
    random: RandomSource,
    eos_ids: Collection[int] = (),
    record: Observer | None = None,
) -> Iterator[Round]:
    """`decode` of a prompt, up to the first end token or `config.max_new_tokens`."""
    text = DecoderState()
    text.restart(prompt, draft_prompt, config.max_new_tokens, cut_at_eos(eos_ids))
    return decode(models, text, config, draft_length, random, record)
