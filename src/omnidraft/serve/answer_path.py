"""A path that answers: reads the request, waits for the worker, sends one object or a stream of events."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from omnidraft.errors import OmnidraftError
from omnidraft.runtime.session.api import Generation, GenerationConfig
from omnidraft.serve.answerer import Answerer
from omnidraft.serve.api_error import ApiError, of_refusal
from omnidraft.serve.guard import read_json
from omnidraft.serve.metrics import Metrics
from omnidraft.serve.replies import Reply
from omnidraft.serve.requests import ModelRequest
from omnidraft.serve.worker import AnswerJob, Worker

Reader = Callable[[object, str, GenerationConfig], ModelRequest]
_STREAM = [(b"content-type", b"text/event-stream; charset=utf-8")]
_STOPPED = "the answer was stopped, because its client went away or the server stops"


class AnswerPath:
    """One path, such as /v1/chat/completions.

    Args:
        read: reads the bodies of this path.
        model: the name that clients use.
        usual: the settings of what requests leave open.
    """

    def __init__(
        self,
        read: Reader,
        model: str,
        usual: GenerationConfig,
        answerer: Answerer,
        worker: Worker,
        metrics: Metrics,
    ) -> None:
        self._read, self._model, self._usual = read, model, usual
        self._answerer, self._worker, self._metrics = answerer, worker, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        with suppress(ClientDisconnect):  # while the body was read: nobody waits for a sentence
            asked = self._read(await read_json(request), self._model, self._usual)
            async with self._job(request, asked) as job:
                with _refusals(asked):
                    generation = await job.next()
                if not isinstance(generation, Generation):
                    raise ApiError(503, _STOPPED)
                reply = Reply(asked, generation, self._answerer.session, self._model)
                if asked.stream:
                    await self._stream(asked, reply, generation, job, send)
                    return
                async for _ in self._chunks(asked, reply, generation, job):
                    pass  # `whole` has what they have
                await JSONResponse(reply.whole())(scope, receive, send)

    @asynccontextmanager
    async def _job(self, request: Request, asked: ModelRequest) -> AsyncIterator[AnswerJob]:
        """The job of a request; it ends where the client goes away."""
        job = self._worker.submit(lambda job: self._answerer.answer(asked, job))
        watch = asyncio.create_task(_cancelled_when_gone(request, job))
        try:
            yield job
        finally:
            watch.cancel()
            job.cancel()  # changes nothing where it has ended

    async def _stream(
        self, asked: ModelRequest, reply: Reply, generation: Generation, job: AnswerJob, send: Send
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM})
        try:
            async for chunk in self._chunks(asked, reply, generation, job):
                await _send_event(send, chunk)
            for chunk in reply.last():
                await _send_event(send, chunk)
        except ApiError as error:  # the status is sent already
            await _send_event(send, error.body)
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def _chunks(
        self, asked: ModelRequest, reply: Reply, generation: Generation, job: AnswerJob
    ) -> AsyncIterator[dict[str, object]]:
        """The chunks of an answer until it ends, counted then.

        Raises:
            ApiError: it was refused or stopped.
        """
        for chunk in reply.first():
            yield chunk
        try:
            with _refusals(asked):
                while (piece := await job.next()) is not None:
                    for chunk in reply.chunks(piece):
                        yield chunk
        finally:
            self._metrics.add(generation, cancelled=job.is_cancelled)
        if generation.stop_reason == "cancelled":
            raise ApiError(503, _STOPPED)


@contextmanager
def _refusals(asked: ModelRequest) -> Iterator[None]:
    """Inside, a refusal of the session becomes one of the API."""
    try:
        yield
    except OmnidraftError as error:
        raise of_refusal(error, asked.length_field) from None


async def _cancelled_when_gone(request: Request, job: AnswerJob) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.cancel()


async def _send_event(send: Send, value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    data = b"data: " + text.encode() + b"\n\n"
    await send({"type": "http.response.body", "body": data, "more_body": True})
