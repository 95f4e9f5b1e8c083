"""The loop: draft, translate, score, verify, learn, and again.

One function that reads downward; modes differ in a `Rule`, not in branches of the loop.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from omnidraft.errors import SettingError
from omnidraft.runtime.draft_length import DraftLength
from omnidraft.runtime.drafter import Draft, Drafter, common_length
from omnidraft.runtime.model import Logits, Model
from omnidraft.runtime.ngram_cache import NgramCache
from omnidraft.runtime.reading import read
from omnidraft.runtime.rng import Chooser
from omnidraft.runtime.sampler import Law, law_of
from omnidraft.runtime.stop import Cut
from omnidraft.runtime.translator import Proposal, translate, translate_longest
from omnidraft.runtime.trie import ActiveTrie
from omnidraft.runtime.verifier import Verdict, Verifier, verify_match, verify_paper, verify_trie

Mode = Literal["trie", "match", "direct", "paper", "plain"]
MODES: tuple[Mode, ...] = get_args(Mode)
MAX_PROPOSED = 64  # target tokens in one pass, at most


@dataclass(frozen=True)
class Rule:
    """How a mode translates and judges."""

    translate: Callable[..., Proposal]
    verify: Verifier
    uses_cache: bool = True
    expands: bool = True


def rule_for(mode: Mode, temperature: float) -> Rule:
    """The rule of a mode.

    At temperature 0 every mode accepts while the proposal is the argmax, so all share one judge.
    """
    if mode not in MODES:
        raise SettingError(f'mode "{mode}" is unknown; use one of {", ".join(MODES)}')
    plain = mode in ("direct", "plain")
    if temperature == 0.0 or mode == "match":
        return Rule(translate_longest, verify_match, uses_cache=not plain, expands=not plain)
    if mode == "paper":
        return Rule(translate_longest, verify_paper, expands=False)
    return Rule(translate, verify_trie, uses_cache=not plain, expands=not plain)


@dataclass(frozen=True)
class Seconds:
    """Where a round's time went."""

    draft: float = 0.0
    translate: float = 0.0
    target: float = 0.0
    verify: float = 0.0
    learn: float = 0.0


@dataclass(frozen=True)
class Round:
    """One target pass: what was drafted, proposed, accepted and emitted.

    Attributes:
        draft: draft ids. proposed: target ids.
        emitted: target ids that are output, cut at the end of the text.
        accepted: proposed ids among the emitted.
        tested, passed: draft tokens judged, and accepted.
        learned: n-grams new in the cache.
    """

    draft: tuple[int, ...]
    proposed: tuple[int, ...]
    accepted: int
    emitted: tuple[int, ...]
    tested: int
    passed: int
    learned: int
    seconds: Seconds


@dataclass(frozen=True)
class Settings:
    """What a generation is asked to do."""

    rule: Rule
    temperature: float
    max_new_tokens: int
    eos_ids: Collection[int]


class _Rows:
    """The target's laws of one pass, each computed once and only when it is asked for."""

    def __init__(self, logits: Logits, temperature: float) -> None:
        self._logits, self._temperature = logits, temperature
        self._laws: dict[int, Law] = {}

    def __call__(self, row: int) -> Law:
        if row not in self._laws:
            self._laws[row] = law_of(self._logits[row], self._temperature)
        return self._laws[row]


@dataclass
class Pair:
    """A target, a drafter, what was learned about the two, and the text between them.

    Attributes:
        tokens: the text so far in target ids, context: in draft ids; `speculate` lets both grow.
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
    choose: Chooser,
    cut: Cut | None = None,
) -> Iterator[Round]:
    """Yield rounds whose emitted tokens follow the target's own law; drafting only saves time.

    Args:
        pair: the models, whose contexts are rewritten from where they differ from the prompt.
        prompt: target ids, at least one.
        draft_prompt: the same text in draft ids.
        settings: rule, temperature and where to stop.
        draft_length: how many tokens to draft in each round.
        choose: answers the random questions.
        cut: says which of a round's tokens are output; up to the first end token when None.
    """
    target, drafter, cache, clock = pair.target, pair.drafter, pair.cache, pair.clock
    rule = settings.rule
    trie = cache.trie if rule.uses_cache else ActiveTrie(cache.map)
    banned = np.flatnonzero(~cache.map.draft_allowed if rule.uses_cache else cache.map.direct < 0)
    pair.tokens, pair.context = tokens, context = list(prompt), list(draft_prompt)
    _prefill(pair, tokens)
    room = settings.max_new_tokens
    while room > 0 and len(tokens) <= target.max_length:
        started = clock()
        most = min(MAX_PROPOSED, target.max_length - len(tokens), room - 1)
        count = draft_length.next() if most > 0 else 0
        draft = drafter.propose(context, count, settings.temperature, banned, choose) if count else Draft()
        drafted = clock()
        proposal = rule.translate(draft.tokens, trie, max_tokens=most, expand=rule.expands)
        translated = clock()
        logits = target.score([tokens[-1], *proposal.tokens])  # [n + 1, vocab]
        scored = clock()
        verdict = rule.verify(proposal, draft.laws, _Rows(logits, settings.temperature), trie, choose)
        said = [*proposal.tokens[: verdict.accepted], verdict.token]
        emitted, ended = cut(said) if cut else _cut(said, settings.eos_ids)
        accepted = min(verdict.accepted, len(emitted))
        tokens += emitted
        context += _draft_context(draft, proposal, verdict, cache)
        target.rewind(len(tokens) - 1)
        _remember(pair, tokens, len(emitted), not proposal.tokens)
        room -= len(emitted)
        judged = clock()
        learned = cache.learn(emitted, accepted) if rule.uses_cache else 0
        draft_length.record(count, verdict.tested, verdict.passed, len(emitted))
        seconds = Seconds(
            drafted - started, translated - drafted, scored - translated, judged - scored, clock() - judged
        )
        yield Round(
            tuple(draft.tokens), tuple(proposal.tokens), accepted, tuple(emitted),
            verdict.tested, verdict.passed, learned, seconds,
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


def _draft_context(draft: Draft, proposal: Proposal, verdict: Verdict, cache: NgramCache) -> list[int]:
    """The round's output in draft tokens: the draft as far as it stands, then the spelling of the rest."""
    whole = verdict.accepted
    # A long draft token that stands in part only is spelled anew.
    while 0 < whole < len(proposal.ends) and proposal.ends[whole] == proposal.ends[whole - 1]:
        whole -= 1
    kept = draft.tokens[: proposal.ends[whole - 1]] if whole else []
    rest = [*proposal.tokens[whole : verdict.accepted], verdict.token]
    return kept + [d for token in rest for d in cache.map.spell(token)]
