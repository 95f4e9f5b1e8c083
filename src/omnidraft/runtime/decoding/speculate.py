"""The loop: draft, translate, score, verify, learn, and again.

One function that reads downward; modes differ in a `Rule`, not in branches of the loop.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

import numpy as np

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.block_verifier import verify_block
from omnidraft.runtime.decoding.draft_length import DraftLength
from omnidraft.runtime.decoding.drafter import Draft, Drafter, common_length
from omnidraft.runtime.decoding.model import Logits, Model
from omnidraft.runtime.decoding.prefill import read
from omnidraft.runtime.decoding.prompt_lookup import PromptLookup
from omnidraft.runtime.decoding.proposer import DraftModel, Method, Proposer
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.sampling import Distribution, SamplingConfig, scoring, target_distribution
from omnidraft.runtime.decoding.stop import Cut
from omnidraft.runtime.decoding.translator import translate, translate_longest
from omnidraft.runtime.decoding.verifier import verify_match, verify_paper, verify_trie
from omnidraft.runtime.traces.labels import label_match, label_paper
from omnidraft.runtime.traces.trace import TracedRound
from omnidraft.runtime.traces.tracer import Outcome, Tracer
from omnidraft.runtime.vocab.ngram_cache import NgramCache

Mode = Literal["trie", "match", "direct", "paper", "lookup", "plain"]
MODES: tuple[Mode, ...] = get_args(Mode)
Verification = Literal["token", "block"]
VERIFICATIONS: tuple[Verification, ...] = get_args(Verification)
MAX_PROPOSED = 64  # target tokens in one pass, at most


class Rule(Protocol):
    """What a mode is: where a generation's proposals come from."""

    def proposer(self, pair: "Pair", temperature: float) -> Proposer:
        """A fresh proposer for one generation, which goes on from `pair.context`."""


@dataclass(frozen=True)
class DraftRule(Method):
    """The modes that draft with the small model."""

    def proposer(self, pair: "Pair", temperature: float) -> Proposer:
        return DraftModel(self, pair.drafter, pair.cache, pair.context, temperature)


class LookupRule:
    """The mode that copies from the context."""

    def proposer(self, pair: "Pair", temperature: float) -> Proposer:
        return PromptLookup()


def rule_for(mode: Mode, temperature: float, verification: Verification = "token") -> Rule:
    """The rule of a mode.

    At temperature 0 every mode accepts while the proposal is the argmax, so all share one judge.

    Args:
        mode: one of `MODES`.
        temperature: of the sampling.
        verification: how the trie mode judges above temperature 0: decision by decision, or as a block.

    Raises:
        SettingError: an unknown mode or verification.
    """
    if mode not in MODES:
        raise SettingError(f'mode "{mode}" is unknown', f"use one of {', '.join(MODES)}")
    if verification not in VERIFICATIONS:
        raise SettingError(
            f'verification "{verification}" is unknown', f"use one of {', '.join(VERIFICATIONS)}"
        )
    if mode == "lookup":
        return LookupRule()
    direct = mode in ("direct", "plain")
    if temperature == 0.0 or mode == "match":
        return DraftRule(translate_longest, verify_match, not direct, not direct, label_match)
    if mode == "paper":
        return DraftRule(translate_longest, verify_paper, expands=False, judge=label_paper)
    if direct:  # as published (Timor et al., TLI): the baseline
        return DraftRule(translate, verify_trie, uses_cache=False, expands=False)
    return DraftRule(translate, verify_block if verification == "block" else verify_trie)


@dataclass(frozen=True)
class Seconds:
    """Where a round's time went."""

    draft: float = 0.0
    translate: float = 0.0
    target: float = 0.0
    verify: float = 0.0
    learn: float = 0.0
    trace: float = 0.0


@dataclass(frozen=True)
class Round:
    """One target pass: what was drafted, proposed, accepted and emitted.

    Attributes:
        draft: draft ids (target ids in mode lookup). proposed: target ids.
        emitted: target ids that are output, cut at the end of the text.
        accepted: proposed ids among the emitted.
        tested, passed: draft tokens judged, and accepted.
        learned: n-grams new in the cache.
        logprobs: natural log-probabilities of the emitted ids under the distribution that they were sampled from,
            after penalty, temperature and truncation; at temperature 0 under the softmax of the penalised
            logits. Empty unless asked for.
        traced: what a trace keeps of it, where one is recorded.
    """

    draft: tuple[int, ...]
    proposed: tuple[int, ...]
    accepted: int
    emitted: tuple[int, ...]
    tested: int
    passed: int
    learned: int
    seconds: Seconds
    logprobs: tuple[float, ...] = ()
    traced: TracedRound | None = None


@dataclass(frozen=True)
class Settings:
    """What a generation is asked to do."""

    rule: Rule
    sampling: SamplingConfig
    max_new_tokens: int
    eos_ids: Collection[int]
    logprobs: bool = False
    trace: Tracer | None = None


class _Rows:
    """The target's distributions of one pass, each computed once and only when it is asked for."""

    def __init__(self, logits: Logits, sampling: SamplingConfig, context: Sequence[int]) -> None:
        """
        Args:
            logits: [n + 1, vocab].
            sampling: what makes a distribution of a row.
            context: target ids that the last row comes after: all so far and the n proposed.
        """
        self._logits, self._sampling, self._context = logits, sampling, context
        self._distributions: dict[int, Distribution] = {}

    def __call__(self, row: int) -> Distribution:
        if row not in self._distributions:
            unpenalised = self._sampling.repetition_penalty == 1.0  # spare the copy
            before = () if unpenalised else self._context[: len(self._context) - len(self._logits) + 1 + row]
            self._distributions[row] = target_distribution(self._logits[row], self._sampling, before)
        return self._distributions[row]

    def logprobs(self, emitted: Sequence[int]) -> tuple[float, ...]:
        """Natural log-probability of each token under its row; see `scoring` for temperature 0."""
        sampled = self._sampling.temperature > 0.0
        distributions = self if sampled else _Rows(self._logits, scoring(self._sampling), self._context)
        found = [distributions(row).probability(np.array([token]))[0] for row, token in enumerate(emitted)]
        return tuple(float(x) for x in np.log(found))


@dataclass
class Pair:
    """A target, a drafter, what was learned about the two, and the text between them.

    Attributes:
        tokens: the text so far in target ids, which `speculate` lets grow.
        context: the same text in draft ids, which the proposer lets grow; mode lookup has none.
        read: ids that the target read, alone: which of them in a pass of its own (see `reading`).
        held: how many of them its context surely holds, also after a pass that was broken off.
    """

    target: Model
    drafter: Drafter
    cache: NgramCache
    clock: Callable[[], float] = field(default=time.perf_counter)
    tokens: list[int] = field(default_factory=list)
    context: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    alone: list[bool] = field(default_factory=list)
    held: int = 0


def speculate(
    pair: Pair,
    prompt: Sequence[int],
    draft_prompt: Sequence[int],
    settings: Settings,
    draft_length: DraftLength,
    random: RandomSource,
    cut: Cut | None = None,
) -> Iterator[Round]:
    """Yield rounds whose emitted tokens follow the target's own distribution; drafting only saves time.

    Args:
        pair: the models, whose contexts are rewritten from where they differ from the prompt.
        prompt: target ids, at least one.
        draft_prompt: the same text in draft ids.
        settings: rule, sampling and where to stop.
        draft_length: how many tokens to draft in each round.
        random: the source of randomness.
        cut: says which of a round's tokens are output; up to the first end token when None.
    """
    target, clock = pair.target, pair.clock
    tokens = list(prompt)
    pair.tokens, pair.context = tokens, list(draft_prompt)
    proposer = settings.rule.proposer(pair, settings.sampling.temperature)
    _prefill(pair, tokens)
    room = settings.max_new_tokens
    while room > 0 and len(tokens) <= target.max_length:
        if pair.held < len(tokens) - 1:  # the target was given another adapter, or timed
            _prefill(pair, tokens)
        started = clock()
        most = min(MAX_PROPOSED, target.max_length - len(tokens), room - 1)
        count = draft_length.next() if most > 0 else 0
        more = draft_length.more if draft_length.hears else None
        draft = proposer.propose(tokens, count, random, more) if count else Draft()
        drafted = clock()
        proposal = proposer.translate(draft, most)
        translated = clock()
        logits = target.score([tokens[-1], *proposal.tokens])  # [n + 1, vocab]
        scored = clock()
        rows = _Rows(logits, settings.sampling, [*tokens, *proposal.tokens])
        verdict = proposer.verify(draft, proposal, rows, random)
        said = [*proposal.tokens[: verdict.accepted], verdict.token]
        emitted, ended = cut(said) if cut else _cut(said, settings.eos_ids)
        logprobs = rows.logprobs(emitted) if settings.logprobs else ()
        tokens += emitted
        target.rewind(len(tokens) - 1)
        _remember(pair, tokens, len(emitted), not proposal.tokens)
        room -= len(emitted)
        judged = clock()
        traced = None
        if settings.trace:
            traced = settings.trace(proposer, Outcome(draft, proposal, verdict, rows, logits, emitted))
        noted = clock()
        learned = proposer.learn(draft, proposal, verdict, emitted)
        draft_length.record(len(draft.tokens), verdict.tested, verdict.passed, len(emitted))
        seconds = Seconds(
            drafted - started, translated - drafted, scored - translated, judged - scored, clock() - noted,
            noted - judged,
        )  # fmt: skip
        yield Round(
            tuple(draft.tokens), tuple(proposal.tokens), min(verdict.accepted, len(emitted)), tuple(emitted),
            verdict.tested, verdict.passed, learned, seconds, logprobs, traced,
        )  # fmt: skip
        if ended:
            return


def _prefill(pair: Pair, tokens: list[int]) -> None:
    """Read a text but its last token; what the target's context shares with it is not read again."""
    target = pair.target
    same = min(common_length(pair.read, tokens), len(pair.alone), len(tokens) - 1)
    pair.held = min(pair.held, same, target.length)
    pair.read, pair.alone = tokens[:-1], pair.alone[:same] + [False] * (len(tokens) - 1 - same)
    target.rewind(pair.held)
    for length in read(target, pair.read, pair.alone):
        pair.held = length


def _remember(pair: Pair, tokens: list[int], count: int, alone: bool) -> None:
    """Note that the target read the `count` ids before the last, in one pass."""
    pair.alone = pair.alone[: len(tokens) - 1 - count] + [alone] * count
    pair.read = tokens[:-1]
    pair.held = len(pair.read)


def _cut(emitted: list[int], eos_ids: Collection[int]) -> tuple[list[int], bool]:
    """End at the first end-of-sequence token: what was accepted after it is no output."""
    for i, token in enumerate(emitted):
        if token in eos_ids:
            return emitted[: i + 1], True
    return emitted, False
