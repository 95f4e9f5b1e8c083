"""Aligned responses from traces as a stream, shuffled by a seed and read by one or several processes.

The segments are divided among `READERS` readers, each with a bounded buffer to shuffle in, which take turns.
Each process reads for some of the readers and sends to all, so the stream does not depend on their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TypeVar

import numpy as np

from omnidraft.errors import SettingError, TraceFileError
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.positions.from_traces import TraceAligner, joined
from omnidraft.runtime.traces.trace import Traced, Vocabularies
from omnidraft.training.data.processes import Processes
from omnidraft.training.data.trace_source import TraceSource

READERS = 8  # for any number of processes
BUFFER = 256  # generations in the buffers of all readers together

Item = TypeVar("Item")


@dataclass
class Offer:
    """The message of a process to all others, once a turn.

    Attributes:
        readers: those of its readers that have another generation.
        left_out: a sentence for each segment or record that was left out since the last turn.
        refusal: the error that ends all processes, if there is one.
    """

    readers: list[int] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    refusal: str | None = None


class TraceStream:
    """Aligned responses of some segments.

    Attributes:
        left_out: number of segments and records that were left out, by the sentence that gives the reason.
    """

    def __init__(
        self,
        sources: Sequence[TraceSource],
        aligner: TraceAligner,
        *,
        seed: int = 0,
        strict: bool = False,
        processes: Processes | None = None,
    ) -> None:
        """
        Args:
            sources: at least one; the same in all processes.
            aligner: of the pair, and of one target.
            seed: of the order.
            strict: refuse segments and records that are broken or of another pair or target; else they are
                left out and counted.
            processes: all processes of this training; this process alone when None.
        """
        self.left_out: Counter[str] = Counter()
        self._sources, self._aligner = sources, aligner
        self._vocabularies = Vocabularies.of(aligner.aligner.trie.map)
        self._seed, self._strict = seed, strict
        self._processes = processes or Processes()
        self._counted: set[str] = set()  # reasons of earlier epochs; later epochs do not count them again

    def count(self) -> int:
        """Number of responses in an epoch; reads all segments once.

        Raises:
            SettingError: there are none, or with `strict` a segment or record is refused.
        """
        count = sum(len(turn) for turn, _ in self._turns(0))
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
        first = 0
        for turn, mine in self._turns(number):
            if first + len(turn) > skip:
                responses = self._exchanged({n: self._aligner.align(traced) for n, traced in mine.items()})
                yield from [responses[n] for n in turn][max(0, skip - first) :]
            first += len(turn)

    def _turns(self, epoch: int) -> Iterator[tuple[list[int], dict[int, Traced]]]:
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._sources))
        offer = Offer()
        readers = {
            n: self._read(order[n::READERS].tolist(), np.random.default_rng([self._seed, epoch, n]), offer)
            for n in range(self._processes.rank, READERS, self._processes.count)
        }
        while True:
            mine = self._next_of(readers, offer)
            offers = self._processes.gathered(offer)
            for each in offers:
                self.left_out.update(sentence for sentence in each.left_out if sentence not in self._counted)
            refusal = next((each.refusal for each in offers if each.refusal), None)
            if refusal is not None:
                raise SettingError(refusal)
            turn = sorted(n for each in offers for n in each.readers)
            if not turn:
                self._counted |= self.left_out.keys()
                return
            yield turn, mine
            offer.readers.clear()
            offer.left_out.clear()

    def _next_of(self, readers: dict[int, Iterator[Traced]], offer: Offer) -> dict[int, Traced]:
        """The next generation of each reader that has one; an error goes into the offer, to all."""
        mine = {}
        try:
            for n, reader in readers.items():
                traced = next(reader, None)
                if traced is not None:
                    mine[n] = traced
        except (SettingError, TraceFileError) as error:
            offer.refusal = str(error)
        offer.readers.extend(mine)
        return mine

    def _read(self, order: list[int], rng: np.random.Generator, offer: Offer) -> Iterator[Traced]:
        return shuffled(self._generations(order, offer), BUFFER // READERS, rng)

    def _generations(self, order: list[int], offer: Offer) -> Iterator[Traced]:
        """The usable generations of some segments; others are left out, or refused with `strict`."""
        for i in order:
            try:
                segment = self._sources[i].read(self._vocabularies)
            except TraceFileError as error:
                if self._strict:
                    raise
                offer.left_out.append(str(error))
                continue
            for traced in joined(segment.generations()):
                try:
                    self._aligner.check(traced)
                except SettingError as error:
                    if self._strict:
                        raise SettingError(f"in {self._sources[i].shown} {error}") from None
                    offer.left_out.append(str(error))
                    continue
                if self._aligner.takes(traced):
                    yield traced

    def _exchanged(self, mine: dict[int, Aligned | None]) -> dict[int, Aligned]:
        """The turn's responses of all processes; the vocabulary map is not sent, because all have it."""
        if self._processes.count == 1:
            return {n: aligned for n, aligned in mine.items() if aligned is not None}
        names = [f.name for f in fields(Aligned) if f.name != "vocab_map"]
        packed = {n: {name: getattr(a, name) for name in names} for n, a in mine.items() if a is not None}
        vocab_map = self._aligner.aligner.trie.map
        return {
            n: Aligned(**values, vocab_map=vocab_map)
            for each in self._processes.gathered(packed)
            for n, values in each.items()
        }


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
