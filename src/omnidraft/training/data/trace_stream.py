"""Aligned responses from traces as a stream, shuffled by a seed through a bounded buffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from omnidraft.errors import SettingError, TraceFileError
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.positions.from_traces import TraceAligner, joined
from omnidraft.runtime.traces.trace import Traced, Vocabularies
from omnidraft.training.data.trace_source import TraceSource

BUFFER = 256  # generations in memory

Item = TypeVar("Item")


class TraceStream:
    """Aligned responses of some segments.

    Attributes:
        left_out: number of segments and records that were left out, by the sentence that gives the reason.
    """

    def __init__(
        self, sources: Sequence[TraceSource], aligner: TraceAligner, *, seed: int = 0, strict: bool = False
    ) -> None:
        """
        Args:
            sources: at least one.
            aligner: of the pair, and of one target.
            seed: of the order.
            strict: refuse segments and records that are broken or of another pair or target; else they are
                left out and counted.
        """
        self.left_out: Counter[str] = Counter()
        self._sources, self._aligner = sources, aligner
        self._vocabularies = Vocabularies.of(aligner.aligner.trie.map)
        self._seed, self._strict = seed, strict

    def count(self) -> int:
        """Number of responses in an epoch; reads all segments once.

        Raises:
            SettingError: there are none, or with `strict` a segment or record is refused.
        """
        count = sum(1 for _ in self._generations(range(len(self._sources))))
        if not count:
            reason = next(iter(self.left_out), "they are empty, or too long for the drafter")
            raise SettingError(
                f"no response can be learned from in {len(self._sources)} trace segments",
                f"the first: {reason}",
            )
        return count

    def epoch(self, number: int, skip: int = 0) -> Iterator[Aligned]:
        """All responses, in the order that seed and epoch determine, without the first `skip`.

        Raises:
            SettingError: with `strict`, a segment or record is refused.
        """
        rng = np.random.default_rng([self._seed, number])
        order = rng.permutation(len(self._sources)).tolist()
        for place, traced in enumerate(shuffled(self._generations(order), BUFFER, rng)):
            if place >= skip and (aligned := self._aligner.align(traced)) is not None:
                yield aligned

    def _generations(self, order: Iterable[int]) -> Iterator[Traced]:
        """The usable generations of some segments; others are left out, or refused with `strict`."""
        seen: Counter[str] = Counter()
        for i in order:
            try:
                segment = self._sources[i].read(self._vocabularies)
            except TraceFileError as error:
                if self._strict:
                    raise SettingError(str(error)) from None
                seen[str(error)] += 1
                self.left_out |= seen  # the larger counts: a later epoch counts nothing twice
                continue
            for traced in joined(segment.generations(), self._aligner.aligner.trie.map):
                try:
                    self._aligner.check(traced)
                except SettingError as error:
                    if self._strict:
                        raise SettingError(f"in {self._sources[i].shown} {error}") from None
                    seen[str(error)] += 1
                    self.left_out |= seen
                    continue
                if self._aligner.takes(traced):
                    yield traced


def shuffled(items: Iterable[Item], size: int, rng: np.random.Generator) -> Iterator[Item]:
    """All items, shuffled with a buffer of `size` items."""
    waiting: list[Item] = []
    for item in items:
        waiting.append(item)
        if len(waiting) >= size:
            at = int(rng.integers(len(waiting)))
            waiting[at], waiting[-1] = waiting[-1], waiting[at]
            yield waiting.pop()
    for i in rng.permutation(len(waiting)).tolist():
        yield waiting[i]
