"""Records one generation: an observer of the loop that writes each round to a trace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft.errors import TraceFileError
from omnidraft.runtime.decoding.proposer import Outcome, Proposer
from omnidraft.runtime.decoding.sampling import TargetProbs
from omnidraft.runtime.traces.trace import Start, TracedRound, Vocabularies, window
from omnidraft.runtime.traces.trace_memory import TraceMemory
from omnidraft.runtime.traces.trace_store import SegmentPlace, TraceStore
from omnidraft.runtime.traces.tracer import Tracer
from omnidraft.runtime.vocab.vocab_map import VocabMap

Digests = tuple[str | None, str | None]  # of the drafter's and the target's adapter


def open_trace(trace: TraceStore | TraceMemory | str | Path, vocab_map: VocabMap) -> TraceStore | TraceMemory:
    """Where generations of a pair are recorded: the given store, or a new store for a directory.

    Raises:
        TraceFileError: nothing can be recorded there, or it is of another pair.
    """
    expected = Vocabularies.of(vocab_map)
    store = trace if isinstance(trace, TraceStore | TraceMemory) else TraceStore(trace, expected)
    try:
        expected.check(store.vocabularies)
    except TraceFileError as error:
        raise TraceFileError(
            f"the store of {store.path} is refused: {error}", "open one for these models", fault=error.fault
        ) from None
    return store


@dataclass(frozen=True)
class RecordingSource:
    """The generation that a record is about.

    Attributes:
        vocab_map: spells the tokens that are emitted in pauses.
        context: gives the text before the first round in draft ids; called after the first round.
        adapters: gives the digests of the adapters that the last round ran with.
        temperature, mode: of the generation.
        continues: whether the generation began in another record.
    """

    vocab_map: VocabMap
    context: Callable[[], Sequence[int]]
    adapters: Callable[[], Digests]
    temperature: float
    mode: str
    continues: bool


class Recorder:
    """Writes the rounds of one generation to a store; see `speculate.Observer`."""

    def __init__(
        self, store: TraceStore | TraceMemory, tracer: Tracer, proposer: Proposer, source: RecordingSource
    ) -> None:
        """
        Args:
            tracer: makes a round of a record from a round of the loop.
        """
        self._store, self._tracer, self._proposer, self._source = store, tracer, proposer, source
        self._context: list[int] | None = None  # the text so far in draft ids
        self._adapters: Digests = (None, None)
        self._continues = source.continues
        self._place: SegmentPlace | None = None  # of the record that is being extended

    def __call__(self, outcome: Outcome, probs: TargetProbs) -> None:
        """Record a round, before anything is learned from it."""
        adapters = self._source.adapters()
        if self._context is None:
            self._context = list(self._source.context())
        traced = self._tracer(self._proposer, outcome, probs)
        if adapters != self._adapters or traced is None:
            self._place = None  # the next round is of other models, or comes after a gap
        self._adapters = adapters
        if traced is not None:
            self._append(traced, self._context)
        self._context += self._pieces(traced, outcome)
        self._continues = True

    def close(self) -> None:
        """Make the record reach the disk."""
        self._store.sync()

    def _append(self, traced: TracedRound, context: list[int]) -> None:
        source = self._source

        def start() -> Start:
            return Start(*self._adapters, source.temperature, source.mode, self._continues, *window(context))

        self._place = self._store.append(replace(traced, position=len(context)), start, self._place)

    def _pieces(self, traced: TracedRound | None, outcome: Outcome) -> list[int]:
        if traced is not None:
            return traced.pieces
        return [d for token in outcome.emitted for d in self._source.vocab_map.spell(token)]
