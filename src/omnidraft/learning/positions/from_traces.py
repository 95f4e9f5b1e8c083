"""Recorded generations as training positions of the drafter, without a pass of either model; numpy only.

A trace has the target's distribution at temperature 1 before each emitted token, cut to its most likely ids,
and the masses below each first draft token, computed from the whole distribution. Records of the target with
another adapter are refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from omnidraft import defaults
from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligned, Aligner
from omnidraft.learning.positions.draft_targets import DraftDistribution, full_trie
from omnidraft.learning.positions.target_rows import TargetRows
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.traces.trace import WINDOW, Traced, TracedRound, TracedToken
from omnidraft.runtime.vocab.vocab_map import VocabMap

OPEN = defaults.LEARNER_OPEN_GENERATIONS  # incomplete generations: sessions that share a store take turns
_NOTHING = 1e-9  # mass at the root below which no draft token can be written


@dataclass(frozen=True)
class TraceAligner:
    """Options of aligning recorded generations.

    Attributes:
        start: ids at the start of every context of the drafter (bos).
        target_adapter: digest of the target's adapter in every record; None for no adapter.
    """

    aligner: Aligner
    start: tuple[int, ...] = ()
    target_adapter: str | None = None

    def check(self, traced: Traced) -> None:
        """Refuse a record of another target.

        Raises:
            SettingError: the target had another adapter.
        """
        if traced.start.target_adapter != self.target_adapter:
            raise SettingError(
                f"a record is of the target with {_named(traced.start.target_adapter)} "
                f"and not with {_named(self.target_adapter)}",
                "learn from each target alone",
            )

    def takes(self, traced: Traced) -> bool:
        """Whether `align` gives a response: text comes before the first token, and both fit `max_length`."""
        prompt = self._prompt(traced)
        first = self.aligner.trie.map.spell(traced.rounds[0].tokens[0].token_id)
        return bool(prompt) and len(prompt) + len(first) <= self.aligner.max_length

    def align(self, traced: Traced) -> Aligned | None:
        """The positions of one generation; None where no token fits `aligner.max_length` or no text comes
        before it.

        Every token has the spelling of the vocabulary map, so that each has draft positions. The text before
        the first token is cut from the left if necessary, to no less than half of `max_length`. Tokens beyond
        `max_length` are left out.

        Raises:
            SettingError: the record is of the target with another adapter, or of another pair.
        """
        self.check(traced)
        if not self.takes(traced):
            return None
        tokens = traced.tokens
        roots = [_root(token) for token in tokens] if self.aligner.trie.active.all() else None
        ids = [token.token_id for token in tokens]
        return self.aligner.align(self._prompt(traced), ids, rows_of(tokens), roots=roots)

    def _prompt(self, traced: Traced) -> list[int]:
        spell, most = self.aligner.trie.map.spell, self.aligner.max_length - len(self.start)
        room = most - sum(len(spell(token.token_id)) for token in traced.tokens)
        room = max(room, self.aligner.max_length // 2 - len(self.start), 0)
        context = traced.start.context
        return [*self.start, *context[len(context) - min(room, len(context)) :]]


def aligner_of(
    bundle: Bundle, vocab_map: VocabMap, max_length: int | None = None, target_adapter: str | None = None
) -> TraceAligner:
    """The aligner of a bundle's pair; `max_length` is what the drafter's context holds when None."""
    aligner = Aligner(full_trie(vocab_map), max_length or bundle.drafter.kv.max_length)
    bos = bundle.drafter.bos_id
    return TraceAligner(aligner, () if bos is None else (bos,), target_adapter)


def from_traces(traces: Iterable[Traced], aligner: TraceAligner) -> Iterator[Aligned]:
    """The positions of recorded generations; the records of one generation are joined to one response."""
    for traced in joined(traces, aligner.aligner.trie.map):
        response = aligner.align(traced)
        if response is not None:
            yield response


def joined(traces: Iterable[Traced], vocab_map: VocabMap) -> Iterator[Traced]:
    """Join the records that continue one another to whole generations.

    A record ends where a segment is full or the drafter's adapter changes. A record after a pause continues a
    text that was not recorded, so it stays alone. At most `OPEN` generations are in memory.
    """
    waiting: list[_Growing] = []
    for traced in traces:
        earlier = next((each for each in waiting if each.is_continued_by(traced)), None)
        if earlier is None:
            waiting.append(earlier := _Growing(traced, vocab_map))
        else:
            earlier.append(traced)
        if len(waiting) > OPEN:
            yield waiting.pop(0).whole()
    yield from (each.whole() for each in waiting)


def rows_of(tokens: Sequence[TracedToken]) -> TargetRows:
    """The recorded distributions. Each lists the emitted token with its exact probability."""
    widest = max((len(token.distribution.ids) for token in tokens), default=0) + 1
    ids = np.full((len(tokens), widest), -1, dtype=np.int32)
    probabilities, rest = np.zeros((len(tokens), widest)), np.zeros(len(tokens))
    for i, token in enumerate(tokens):
        others = token.distribution.ids != token.token_id
        n = int(others.sum())
        emitted, p = (
            float(np.exp(-token.surprisal)),
            token.distribution.probabilities[others].astype(np.float64),
        )
        # If the row does not list the emitted token, its probability is part of the rest.
        left = max(0.0, token.distribution.rest - emitted) if n == len(others) else token.distribution.rest
        total = float(p.sum()) + left
        share = (1.0 - emitted) / total if total > _NOTHING else 0.0  # float16 sums to 1 within 1/2000
        ids[i, : n + 1] = [*token.distribution.ids[others], token.token_id]
        probabilities[i, : n + 1] = [*(p * share), emitted]
        rest[i] = left * share if total > _NOTHING else 1.0 - emitted
    return TargetRows(ids, probabilities, rest)


def _root(token: TracedToken) -> DraftDistribution | None:
    p = token.roots.probabilities.astype(np.float64)
    total = float(p.sum()) + token.roots.rest
    if total <= _NOTHING:
        return None
    ids = token.roots.ids.astype(np.int32)
    return DraftDistribution(ids, p / total, token.roots.rest / total, max(0.0, 1.0 - token.unspelled))


class _Growing:
    """A generation whose records are joined; each record is spelled once, since files can hold any number."""

    def __init__(self, first: Traced, vocab_map: VocabMap) -> None:
        self._start, self._map = first.start, vocab_map
        self._length = first.start.skipped + len(first.start.context)  # of the text, in draft ids
        self._latest = deque(first.start.context, WINDOW)  # its last draft ids
        self._rounds: list[TracedRound] = []
        self.append(first)

    def append(self, traced: Traced) -> None:
        self._rounds += traced.rounds
        pieces = [d for token in traced.tokens for d in self._map.spell(token.token_id)]
        self._length += len(pieces)
        self._latest.extend(pieces)

    def is_continued_by(self, later: Traced) -> bool:
        start = later.start
        if not start.continues or start.target_adapter != self._start.target_adapter:
            return False
        if self._length != start.skipped + len(start.context):
            return False
        latest, context = tuple(self._latest), start.context
        shared = min(len(latest), len(context))
        return latest[len(latest) - shared :] == context[len(context) - shared :]

    def whole(self) -> Traced:
        return Traced(self._start, tuple(self._rounds))


def _named(adapter: str | None) -> str:
    return "no adapter" if adapter is None else f"adapter {adapter[:12]}"
