"""Calls and reads that end in time, whatever the other side does: they run in a thread that is given up."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

Result = TypeVar("Result")
LEAST_SPEED = 1 << 10  # bytes a second that a transfer must bring
_QUEUED = 8  # pieces that are read ahead
_DONE = b""


def within(seconds: float, call: Callable[[], Result]) -> Result:
    """The result of a call, or its exception.

    Args:
        seconds: that the call may take.
        call: goes on in the background where it takes longer; what it returns is dropped.

    Raises:
        TimeoutError: it took longer.
    """
    answers: queue.Queue[tuple[bool, Result | BaseException]] = queue.Queue(1)

    def run() -> None:
        try:
            answers.put((True, call()))
        except BaseException as error:  # raised again in the thread that waits
            answers.put((False, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        succeeded, answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer in {seconds:g} s") from None
    if not succeeded:
        assert isinstance(answer, BaseException)
        raise answer
    return answer  # type: ignore[return-value] # the other kind was raised


def pieces(seconds: float, source: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    """The pieces of a source, as long as they come fast enough.

    Args:
        seconds: that the first piece may take, and in which later ones must reach `LEAST_SPEED`.
        source: yields pieces, none of them empty; closed in the background where it is given up.

    Raises:
        TimeoutError: it is slower.
    """
    arrived: queue.Queue[bytes | BaseException] = queue.Queue(_QUEUED)
    stopped = threading.Event()

    def offer(item: bytes | BaseException) -> None:
        while not stopped.is_set():
            try:
                return arrived.put(item, timeout=1.0)
            except queue.Full:
                continue

    def run() -> None:
        try:
            for piece in source():
                offer(piece)
                if stopped.is_set():
                    return
            offer(_DONE)
        except BaseException as error:  # raised again in the thread that waits
            offer(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        yield from _timely(seconds, arrived)
    finally:
        stopped.set()


def _timely(seconds: float, arrived: "queue.Queue[bytes | BaseException]") -> Iterator[bytes]:
    began, count = time.monotonic(), 0
    while True:
        try:
            item = arrived.get(timeout=max(0.0, began + seconds - time.monotonic()))
        except queue.Empty:
            raise TimeoutError(f"less than {LEAST_SPEED} bytes a second in {seconds:g} s") from None
        if isinstance(item, BaseException):
            raise item
        if item == _DONE:
            return
        count += len(item)
        yield item
        if count >= LEAST_SPEED * seconds:  # the next seconds begin
            began, count = time.monotonic(), 0
