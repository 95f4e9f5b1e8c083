"""One thread that writes answers, one after another; requests wait for it in a queue with a limit."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from threading import Condition, Thread
from typing import Any

from omnidraft.serve.api_error import ApiError

RETRY_SECONDS = 2


class AnswerJob:
    """Work of one request: `work` runs in the thread, what it yields arrives in the loop of the request.

    Attributes:
        interrupt: ends work that is going on; the work sets it.
        is_cancelled: whether nobody waits for the work any more.
    """

    def __init__(self, work: "Work", worker: "Worker") -> None:
        self.work, self._worker = work, worker
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self.interrupt: Callable[[], None] = _nothing
        self.is_cancelled = False

    def emit(self, event: object) -> None:
        """Give the request an event; from the thread."""
        self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def next(self) -> Any:
        """The next thing that the work yielded; None at its end.

        Raises:
            Exception: what ended the work.
        """
        event = await self._events.get()
        if isinstance(event, Exception):
            raise event
        return event

    def cancel(self) -> None:
        """End the work, or take it out of the queue; the place is free at once."""
        self.is_cancelled = True
        self._worker.forget(self)
        self.interrupt()


Work = Callable[[AnswerJob], Iterator[object]]


class Worker:
    """The thread, and the requests that wait for it.

    Attributes:
        limit: of the requests that wait, without the one that runs.
        running: the request that is being answered.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running: AnswerJob | None = None
        self._waiting: deque[AnswerJob] = deque()
        self._changed = Condition()
        self._closed = False
        self._thread = Thread(target=self._run, name="answers", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of requests in the queue."""
        return len(self._waiting)

    def submit(self, work: Work) -> AnswerJob:
        """Put work into the queue.

        Raises:
            ApiError: the queue is full, or the server stops.
        """
        with self._changed:
            if self._closed:
                raise ApiError(503, "the server stops")
            if len(self._waiting) + (self.running is not None) > self.limit:
                raise ApiError(
                    429,
                    f"{len(self._waiting)} requests wait already; send it again later, or start the server "
                    "with a larger queue",
                    code="queue_full",
                    retry_after=RETRY_SECONDS,
                )
            job = AnswerJob(work, self)
            self._waiting.append(job)
            self._changed.notify()
            return job

    def forget(self, job: AnswerJob) -> None:
        """Take a request out of the queue, if it waits there."""
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
                job.emit(None)

    def close(self, seconds: float) -> None:
        """Cancel everything, and wait at most some seconds until the thread has ended."""
        with self._changed:
            self._closed = True
            jobs = [*self._waiting, *([self.running] if self.running else [])]
            self._changed.notify()
        for job in jobs:
            job.cancel()
        self._thread.join(seconds)

    def _next(self) -> AnswerJob | None:
        with self._changed:
            self.running = None
            while not self._waiting and not self._closed:
                self._changed.wait()
            self.running = None if self._closed else self._waiting.popleft()
            return self.running

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                for event in job.work(job):
                    job.emit(event)
            except Exception as error:  # the request tells it; the thread goes on with the next one
                job.emit(error)
            job.interrupt = (
                _nothing  # the models may belong to the next request by the time of a cancellation
            )
            job.emit(None)


def _nothing() -> None:
    """Nothing is going on."""
