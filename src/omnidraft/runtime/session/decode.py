"""The loop as a session runs it: with a mode by name, seconds, log-probabilities and a trace."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from omnidraft.runtime.decoding.baselines import Verification, proposer_for
from omnidraft.runtime.decoding.draft_length import DraftLength, Plan
from omnidraft.runtime.decoding.drafter import Draft, Drafter
from omnidraft.runtime.decoding.model import Logits, Model
from omnidraft.runtime.decoding.proposer import Copy, Outcome, Proposer
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.sampling import TargetProbs
from omnidraft.runtime.decoding.speculate import DecoderState, Round, Seconds, TextRead, speculate
from omnidraft.runtime.decoding.stop import cut_at_eos
from omnidraft.runtime.decoding.translator import Proposal
from omnidraft.runtime.decoding.verifier import Probs, Verdict
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.vocab.ngram_cache import NgramCache

Clock = Callable[[], float]


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
        target, drafter: the two models.
        cache: n-grams of the pair.
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
) -> Iterator[Round]:
    """Yield the rounds of a generation, each with its seconds and, if asked for, its log-probabilities.

    Args:
        models: target, drafter and cache.
        text: from which the generation continues; see `speculate`.
        config: mode, verification ("auto" is token), sampling and log-probabilities are read; `text` and
            `draft_length` hold the rest.
        draft_length: how many tokens to draft in each round.
        random: the source of randomness.
        recorder_of: makes the recorder of a trace for the proposer of this generation.
    """
    verification: Verification = "token" if config.verification == "auto" else config.verification
    proposer = proposer_for(
        config.mode, models.drafter, models.cache, config.temperature, verification, copies=config.copies
    )
    recorder = None if recorder_of is None else recorder_of(proposer)
    watch = Stopwatch(models.clock)
    logprobs: tuple[float, ...] = ()

    def observe(outcome: Outcome, probs: TargetProbs) -> None:
        nonlocal logprobs
        if config.logprobs:
            logprobs = probs.logprobs(outcome.emitted)
        if recorder is not None:
            recorder(outcome, probs)

    target, timed = TimedTarget(models.target, watch), TimedProposer(proposer, watch)
    try:
        for each in speculate(target, timed, text, config.sampling, draft_length, random, observe):
            yield replace(each, seconds=watch.take(), read=watch.take_read(), logprobs=logprobs)
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
        eos_ids: end tokens.
        models, config, draft_length, random, recorder_of: see `decode`.
    """
    text = DecoderState()
    text.restart(prompt, draft_prompt, config.max_new_tokens, cut_at_eos(eos_ids))
    return decode(models, text, config, draft_length, random, recorder_of)


@dataclass
class Stopwatch:
    """Adds up the seconds of the parts of a round.

    Attributes:
        clock: gives seconds.
    """

    clock: Clock
    _seconds: dict[str, float] = field(default_factory=dict)
    _read: TextRead = field(default_factory=TextRead)

    def add(self, part: str, started: float) -> None:
        """Add the time since `started` to a part, a field of `Seconds`."""
        self._seconds[part] = self._seconds.get(part, 0.0) + self.clock() - started

    def take(self) -> Seconds:
        """The seconds since the last call."""
        seconds, self._seconds = Seconds(**self._seconds), {}
        return seconds

    def add_read(self, tokens: int, started: float) -> None:
        """Count tokens that the target read since `started`."""
        self._read = TextRead(self._read.tokens + tokens, self._read.seconds + self.clock() - started)

    def take_read(self) -> TextRead:
        """What was read since the last call."""
        read, self._read = self._read, TextRead()
        return read


class TimedTarget:
    """A target whose scoring and rewinding is timed; reading a prompt is counted apart from the round."""

    def __init__(self, model: Model, watch: Stopwatch) -> None:
        self._model, self._watch = model, watch
        self.vocab_size, self.max_length = model.vocab_size, model.max_length

    @property
    def length(self) -> int:
        """See `Model.length`."""
        return self._model.length

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        """See `Model.score`."""
        started = self._watch.clock()
        if num_logits is not None:  # a round asks for all rows
            row = self._model.score(tokens, num_logits)
            self._watch.add_read(len(tokens), started)
            return row
        logits = self._model.score(tokens)
        self._watch.add("target", started)
        return logits

    def rewind(self, length: int) -> None:
        """See `Model.rewind`."""
        started = self._watch.clock()
        self._model.rewind(length)
        self._watch.add("verify", started)


class TimedProposer:
    """A proposer whose calls are timed."""

    def __init__(self, proposer: Proposer, watch: Stopwatch) -> None:
        self._proposer, self._watch = proposer, watch
        self.rule, self.trie = proposer.rule, proposer.trie

    def find(self, tokens: Sequence[int]) -> Copy:
        """See `Proposer.find`."""
        started = self._watch.clock()
        copy = self._proposer.find(tokens)
        self._watch.add("draft", started)
        return copy

    def read_ahead(self, context: Sequence[int]) -> None:
        """See `Proposer.read_ahead`."""
        self._proposer.read_ahead(context)

    def settle(self) -> None:
        """See `Proposer.settle`."""
        started = self._watch.clock()
        self._proposer.settle()
        self._watch.add("draft", started)

    def propose(self, plan: Plan, copy: Copy, context: Sequence[int], random: RandomSource) -> Draft:
        """See `Proposer.propose`."""
        started = self._watch.clock()
        draft = self._proposer.propose(plan, copy, context, random)
        self._watch.add("draft", started)
        return draft

    def translate(self, draft: Draft, room: int) -> Proposal:
        """See `Proposer.translate`."""
        started = self._watch.clock()
        proposal = self._proposer.translate(draft, room)
        self._watch.add("translate", started)
        return proposal

    def verify(self, draft: Draft, proposal: Proposal, probs: Probs, random: RandomSource) -> Verdict:
        """See `Proposer.verify`."""
        started = self._watch.clock()
        verdict = self._proposer.verify(draft, proposal, probs, random)
        self._watch.add("verify", started)
        return verdict

    def learn(self, outcome: Outcome, context: list[int]) -> int:
        """See `Proposer.learn`."""
        started = self._watch.clock()
        learned = self._proposer.learn(outcome, context)
        self._watch.add("learn", started)
        return learned
