"""The loop: draft, translate, score, verify, learn, repeat.

One function that reads downward. A mode is a `Proposer`, not a branch of the loop. Tracing and
log-probabilities leave through one observer.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields

from omnidraft.runtime.decoding.distribution import Workspace
from omnidraft.runtime.decoding.draft_length import MAX_PROPOSED, MOST_UNREAD, DraftLength, Plan, RoundCounts
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.decoding.prefill import common_length, prefill
from omnidraft.runtime.decoding.proposer import NO_COPY, Copy, Outcome, Proposer
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.sampling import SamplingConfig, TargetProbs
from omnidraft.runtime.decoding.stop import Cut, cut_at_eos
from omnidraft.runtime.grammar.constraint import Constraint

Observer = Callable[[Outcome, TargetProbs], None]
Clock = Callable[[], float]  # gives seconds


@dataclass(frozen=True)
class Seconds:
    """Seconds of a round by its parts; rewinding counts as verifying, what an observer does is left out."""

    draft: float = 0.0
    translate: float = 0.0
    target: float = 0.0
    verify: float = 0.0
    learn: float = 0.0


@dataclass(frozen=True)
class TextRead:
    """What the target read before a round: the prompt, or text that its KV cache lacked."""

    tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Round:
    """One target pass: what was drafted, proposed, accepted and emitted.

    Attributes:
        draft: draft ids; none where the context was copied from.
        accepted: number of proposed ids among the emitted.
        emitted: target ids that are output, cut at the end of the text.
        evaluated, accepted_drafts: draft tokens up to the one that ended the round, and accepted ones.
        learned: number of n-grams that are new in the cache.
        copied: whether the proposed ids were copied from the context.
        unsound: whether the drafter gave NaN or infinity, so that the draft ended there.
        logprobs: natural log-probabilities of the emitted ids under the distribution that they were sampled
            from, after penalty, temperature and truncation; at temperature 0 under the softmax of the
            penalised logits. Empty unless asked for.
        seconds: where the time went; zeros without a clock.
    """

    draft: tuple[int, ...]
    proposed: tuple[int, ...]
    accepted: int
    emitted: tuple[int, ...]
    evaluated: int
    accepted_drafts: int
    learned: int = 0
    copied: bool = False
    unsound: bool = False
    logprobs: tuple[float, ...] = ()
    seconds: Seconds = Seconds()
    read: TextRead = TextRead()

    @classmethod
    def of(cls, outcome: Outcome, learned: int, laps: "_Laps", read: int) -> "Round":
        """The plain values of a round; nothing of the size of a vocabulary is kept."""
        verdict, emitted = outcome.verdict, tuple(outcome.emitted)
        return cls(
            draft=tuple(outcome.draft.tokens),
            proposed=tuple(outcome.proposal.tokens),
            accepted=min(verdict.accepted, len(emitted)),
            emitted=emitted,
            evaluated=verdict.evaluated,
            accepted_drafts=verdict.accepted_drafts,
            learned=learned,
            copied=bool(outcome.draft.copied),
            unsound=outcome.draft.unsound,
            read=TextRead(read, laps.seconds["read"] if read else 0.0),
            seconds=Seconds(**{part.name: laps.seconds.get(part.name, 0.0) for part in fields(Seconds)}),
        )


class _Laps:
    """The time of a round, cut into parts."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._last = clock, clock()
        self.seconds: dict[str, float] = {}

    def end(self, part: str) -> None:
        """Add the time since the last part ended to this one."""
        now = self._clock()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now


@dataclass
class DecoderState:
    """A text while it is decoded, in both vocabularies.

    Attributes:
        tokens: target ids, prompt and output; `speculate` extends them.
        context: the same text in draft ids, which the proposer extends; empty in modes plain and lookup.
        remaining: target tokens that may still be emitted.
        cut: a function that says which of a round's tokens are output, and whether the text ends there.
        cached: target ids that the target's KV cache holds.
        workspace: memory of a round's distributions.
        constraint: keeps the output in a grammar; `remaining` then says when it must be whole.
    """

    tokens: list[int] = field(default_factory=list)
    context: list[int] = field(default_factory=list)
    remaining: int = 0
    cut: Cut = field(default=cut_at_eos(()))
    cached: list[int] = field(default_factory=list)
    workspace: Workspace = field(default_factory=Workspace)
    constraint: Constraint | None = None

    def restart(
        self,
        tokens: Sequence[int],
        context: Sequence[int],
        remaining: int,
        cut: Cut,
        constraint: Constraint | None = None,
    ) -> None:
        """Begin another text, and keep what the KV cache shares with it."""
        self.tokens, self.context = list(tokens), list(context)
        self.remaining, self.cut, self.constraint = remaining, cut, constraint
        del self.cached[common_length(self.cached, self.tokens[:-1]) :]

    def budget(self, target: Model) -> int:
        """Target tokens that may be proposed in the next pass; negative at the end of the text.

        A pass emits one token more than it accepts, so with one token remaining nothing may be proposed.
        """
        return min(MAX_PROPOSED, target.max_length - len(self.tokens), self.remaining - 1)

    def probs(self, target: Model, sampling: SamplingConfig, proposed: Sequence[int]) -> TargetProbs:
        """The target's distributions of a pass over the last token and proposed ones.

        It computes no logits for the first tokens that are the only ones that a grammar allows.
        """
        allowed = None if self.constraint is None else self.constraint.rows(proposed, self.remaining)
        count = 0 if self.constraint is None else self.constraint.certain(proposed, self.remaining)
        logits = target.score([self.tokens[-1], *proposed], len(proposed) + 1 - count)
        penalised = sampling.repetition_penalty != 1.0  # without a penalty no row needs the text
        context = [*self.tokens, *proposed] if penalised else ()
        return TargetProbs(logits, sampling, context, self.workspace, allowed, proposed[:count])

    def extend(self, tokens: list[int]) -> tuple[list[int], bool]:
        """Append the tokens of a round; return those that are output, and whether the text ends."""
        complete = False
        if self.constraint is not None:
            tokens, complete = self.constraint.advance(tokens, self.remaining)
        emitted, ended = self.cut(tokens)
        ended = ended or complete
        self.cached += [self.tokens[-1], *emitted[:-1]]
        self.tokens += emitted
        self.remaining -= len(emitted)
        return emitted, ended


def speculate(
    target: Model,
    proposer: Proposer,
    text: DecoderState,
    sampling: SamplingConfig,
    draft_length: DraftLength,
    random: RandomSource,
    observe: Observer = lambda *_: None,
    clock: Clock = lambda: 0.0,
) -> Iterator[Round]:
    """Yield rounds whose emitted tokens follow the target's own distribution; drafting only saves time.

    Args:
        target: the model that writes the text; its KV cache is rewritten where it differs from the text.
        proposer: guesses the next tokens and verifies its guesses.
        text: at least one token; grows by what each round emits.
        sampling: how the target's logits become distributions.
        draft_length: what each round proposes, and how many tokens.
        observe: called with each verified round before anything is learned from it.
    """
    while (budget := text.budget(target)) >= 0:
        laps = _Laps(clock)
        copy = proposer.find(text.tokens) if budget else NO_COPY
        plan = draft_length.next(copy.match) if budget else Plan()
        if plan.fresh:
            del text.context[:-MOST_UNREAD]
        laps.end("draft")
        read = prefill(target, text.tokens, text.cached)
        laps.end("read")
        draft = proposer.propose(plan, copy, text.context, random)
        laps.end("draft")
        proposal = proposer.translate(draft, budget)
        laps.end("translate")
        probs = text.probs(target, sampling, proposal.tokens)
        laps.end("target")
        verdict = proposer.verify(draft, proposal, probs, random)
        emitted, ended = text.extend(verdict.tokens(proposal))
        target.rewind(len(text.tokens) - 1)
        laps.end("verify")
        outcome = Outcome(draft, proposal, verdict, emitted)
        observe(outcome, probs)
        laps.end("observe")
        learned = proposer.learn(outcome, text.context)  # also extends the draft context
        draft_length.record(_counts(outcome, copy))
        laps.end("learn")
        yield Round.of(outcome, learned, laps, read)
        if ended:
            return


def _counts(outcome: Outcome, copy: Copy) -> RoundCounts:
    """What the draft length learns from a round."""
    verdict, emitted = outcome.verdict, outcome.emitted
    agreed = common_length(copy.tokens, emitted)
    return RoundCounts(
        outcome.draft.classes,
        verdict.evaluated,
        verdict.accepted_drafts,
        len(emitted),
        copy.match,
        agreed,
    )
