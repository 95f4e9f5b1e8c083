"""A trace in memory: recorded generations for a learner in the same process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from omnidraft.runtime.traces.trace import Start, Traced, TracedRound, Vocabularies
from omnidraft.runtime.traces.trace_file import Frame, Segment, TraceHeader, encode
from omnidraft.runtime.traces.trace_store import SegmentPlace


class TraceMemory:
    """Records generations as a `TraceStore` does, and keeps them until they are taken."""

    def __init__(self, vocabularies: Vocabularies) -> None:
        self.path, self.vocabularies = "this process's memory", vocabularies
        self.problem: str | None = None
        self._paused = False
        self._lock = threading.Lock()
        self._starts: list[Start] = []
        self._rounds: list[list[TracedRound]] = []
        self._taken = 0  # number of the first record that was not taken

    @property
    def is_recording(self) -> bool:
        """Whether rounds are recorded now."""
        return not self._paused

    def pause(self) -> None:
        """Record nothing more until `resume`; from any thread."""
        self._paused = True

    def resume(self) -> None:
        """Record again."""
        self._paused = False

    def append(
        self, traced: TracedRound, start: Callable[[], Start], at: SegmentPlace | None
    ) -> SegmentPlace | None:
        """Record a round; see `TraceStore.append`."""
        with self._lock:
            if not self.is_recording:
                return None
            if at is None or at.record < self._taken:
                begun = start() if at is None else replace(start(), continues=True)
                self._starts.append(begun)
                self._rounds.append([])
                at = SegmentPlace(0, self._taken + len(self._starts) - 1)
            self._rounds[at.record - self._taken].append(traced)
            return at

    def take(self) -> list[Traced]:
        """The generations recorded since the last call, in the order in which they began."""
        with self._lock:
            generations = [Traced(s, tuple(r)) for s, r in zip(self._starts, self._rounds, strict=True)]
            self._taken += len(generations)
            self._starts, self._rounds = [], []
            return generations

    def sync(self) -> None:
        """Do nothing: there is no disk."""

    def close(self) -> None:
        """Do nothing: no directory is claimed."""


def segment_of(traces: list[Traced], vocabularies: Vocabularies, number: int) -> bytes:
    """Some generations as the bytes of one segment of a trace (spec/12-trace.md)."""
    frames: list[Frame] = []
    for record, traced in enumerate(traces):
        frames += [Frame(record, traced.start), *(Frame(record, each) for each in traced.rounds)]
    return encode(Segment(TraceHeader(vocabularies, number), tuple(frames)))
