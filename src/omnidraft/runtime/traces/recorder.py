"""Takes one generation's rounds to a trace while they pass by."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft.errors import TraceFileError
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.traces.trace import Start, Vocabularies, window
from omnidraft.runtime.traces.trace_memory import TraceMemory
from omnidraft.runtime.traces.trace_store import SegmentPlace, TraceStore
from omnidraft.runtime.vocab.vocab_map import VocabMap


def open_trace(trace: TraceStore | TraceMemory | str | Path, vocab_map: VocabMap) -> TraceStore | TraceMemory:
    """Where generations of a pair are to be recorded: a store that is given, or one for a directory.

    Raises:
        TraceFileError: nothing can be recorded there, or it is of another pair.
    """
    wanted = Vocabularies.of(vocab_map)
    store = trace if isinstance(trace, TraceStore | TraceMemory) else TraceStore(trace, wanted)
    try:
        wanted.check(store.vocabularies)
    except TraceFileError as error:
        raise TraceFileError(
            f"the store of {store.path} is refused: {error}", "open one for these models", fault=error.fault
        ) from None
    return store


@dataclass(frozen=True)
class RecordingSource:
    """What is recorded.

    Attributes:
        vocab_map: spells what is said in pauses.
        context: the text before the first round in draft ids, asked when that begins.
        adapters: digests of the drafter's and the target's adapter that the last round ran with.
        temperature, mode: of the request. continues: whether the generation began earlier.
    """

    vocab_map: VocabMap
    context: Callable[[], Sequence[int]]
    adapters: Callable[[], tuple[str | None, str | None]]
    temperature: float
    mode: str
    continues: bool


def recorded(
    rounds: Iterator[Round], store: TraceStore | TraceMemory, source: RecordingSource
) -> Iterator[Round]:
    """Yield a generation's rounds unchanged, each after it is recorded."""
    text, at = list(source.context()), None
    adapters, continues = source.adapters(), source.continues
    try:
        for found in rounds:
            now = source.adapters()
            if now != adapters or found.traced is None:
                at = None  # what comes next is of other models, or comes after a gap
            adapters = now
            at = _take(found, store, source, text, at, continues)
            text += _pieces(found, source.vocab_map)
            continues = True
            yield found
    finally:
        store.sync()


def _take(
    found: Round,
    store: TraceStore | TraceMemory,
    source: RecordingSource,
    text: list[int],
    at: SegmentPlace | None,
    continues: bool,
) -> SegmentPlace | None:
    if found.traced is None:
        return None

    def start() -> Start:
        return Start(*source.adapters(), source.temperature, source.mode, continues, *window(text))

    return store.append(replace(found.traced, position=len(text)), start, at)


def _pieces(found: Round, vocab_map: VocabMap) -> list[int]:
    if found.traced is not None:
        return found.traced.pieces
    return [d for token in found.emitted for d in vocab_map.spell(token)]
