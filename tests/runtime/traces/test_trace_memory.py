"""Traces in memory: what is taken is gone, and a generation that goes on does so in another record."""

from __future__ import annotations

from omnidraft.runtime.traces.trace import Start, Vocabularies, window
from omnidraft.runtime.traces.trace_memory import TraceMemory
from omnidraft.runtime.traces.trace_store import SegmentPlace
from support.crash_writer import numbered_round

PAIR = Vocabularies("d" * 64, "e" * 64, 4000, 60_000)


def record(
    memory: TraceMemory, first: int, count: int, at: SegmentPlace | None = None
) -> SegmentPlace | None:
    for number in range(first, first + count):
        begun = Start(None, None, "trie", False, *window([7] * 2 * number))
        at = memory.append(numbered_round(number), lambda begun=begun: begun, at)  # type: ignore[misc]
    return at


def taken(memory: TraceMemory) -> list[tuple[bool, int, list[int]]]:
    """Of each record whether it goes on, where it begins, and the numbers of its rounds."""
    return [
        (
            each.start.continues,
            len(each.start.context) // 2,
            [item.tokens[0].token_id for item in each.rounds],
        )
        for each in memory.take()
    ]


def test_what_is_taken_in_the_midst_of_a_generation_goes_on_in_another_record() -> None:
    memory = TraceMemory(PAIR)
    one, other = record(memory, 1, 2), record(memory, 10, 1)
    one = record(memory, 3, 1, one)
    assert taken(memory) == [(False, 1, [1, 2, 3]), (False, 10, [10])]
    one = record(memory, 4, 2, one)
    record(memory, 20, 1)
    record(memory, 11, 1, other)
    record(memory, 6, 1, one)
    assert taken(memory) == [(True, 4, [4, 5, 6]), (False, 20, [20]), (True, 11, [11])]
    assert taken(memory) == []


def test_nothing_is_kept_in_a_pause() -> None:
    memory = TraceMemory(PAIR)
    memory.pause()
    assert not memory.is_recording and record(memory, 1, 3) is None
    memory.resume()
    record(memory, 4, 1)
    assert taken(memory) == [(False, 4, [4])]
