"""Records one generation: an observer of the loop that writes each round to a trace."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from omnidraft.errors import TraceFileError
from omnidraft.runtime.decoding.proposer import Outcome
from omnidraft.runtime.decoding.sampling import TargetProbs
from omnidraft.runtime.traces.trace import Start, Vocabularies, window
from omnidraft.runtime.traces.trace_memory import TraceMemory
from omnidraft.runtime.traces.trace_store import SegmentPlace, TraceStore
from omnidraft.runtime.traces.tracer import Tracer
from omnidraft.runtime.vocab.vocab_map import VocabMap

Store = TraceStore | TraceMemory


def open_trace(trace: Store | str | Path, vocab_map: VocabMap) -> Store:
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


class Recorder:
    """Writes the rounds of one generation to a store, each before anything is learned from it."""

    def __init__(
        self,
        store: Store,
        vocab_map: VocabMap,
        start: Start,
        context: Callable[[], Sequence[int]],
        adapters: Callable[[], tuple[str | None, str | None]],
    ) -> None:
        """
        Args:
            start: mode, and whether the generation began in another record.
            context: gives the text before the first round in draft ids; called after the first round.
            adapters: gives the digests of the drafter's and the target's adapter in the last round.
        """
        self._store, self._map, self._start = store, vocab_map, start
        self._context_of, self._adapters_of = context, adapters
        self._tracer = Tracer(vocab_map)
        self._context: list[int] | None = None  # the text so far in draft ids
        self._place: SegmentPlace | None = None  # of the record that is being extended

    def __call__(self, outcome: Outcome, probs: TargetProbs) -> None:
        """Record a round."""
        drafter, target = self._adapters_of()
        if self._context is None:
            self._context = list(self._context_of())
        traced = self._tracer(outcome, probs) if self._store.is_recording else None
        if traced is None or (drafter, target) != (self._start.drafter_adapter, self._start.target_adapter):
            self._place = None  # the next round is of other models, or comes after a gap
        self._start = replace(self._start, drafter_adapter=drafter, target_adapter=target)
        context = self._context
        if traced is not None:
            self._place = self._store.append(traced, lambda: self._began(context), self._place)
        context += [d for token in outcome.emitted for d in self._map.spell(token)]
        self._start = replace(self._start, continues=True)

    def _began(self, context: Sequence[int]) -> Start:
        skipped, kept = window(context)
        return replace(self._start, skipped=skipped, context=kept)
