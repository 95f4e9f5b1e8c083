"""One answer on its way: rounds in, pieces of text out, and the reason why it ended."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from omnidraft.runtime.decoding.model import Cancelled
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.decoding.stop import StopReason, StopText
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.statistics import Statistics

Step = Callable[["Generation"], AbstractContextManager[None]]  # surrounds every use of the models


@dataclass(frozen=True)
class Piece:
    """Text that one round made certain; half characters and beginnings of stop strings wait for the next.

    `round` is None for what was still held back when the generation was cancelled.
    """

    text: str
    token_ids: tuple[int, ...]
    round: Round | None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Limits:
    """Where an output ends besides its stop strings: end tokens, and positions of the target's context."""

    eos_ids: Sequence[int]
    max_length: int


class Generation:
    """One answer: iterate over it for pieces of text, read its fields during and after.

    Attributes:
        text: the output so far, without stop string and end token.
        token_ids: the tokens that the target emitted, to the one that ended it: an end token, or the one that
            completed the stop string, are the last of them and count.
        logprobs: natural log-probabilities of `token_ids`, if they were asked for.
        statistics: counts so far. request: what was asked. seed: repeats this generation.
        stop_reason: why it ended, None before. stop_string: the one that ended it.
    """

    def __init__(
        self,
        rounds: Iterator[Round],
        request: GenerationConfig,
        prompt_ids: Sequence[int],
        stop_text: StopText,
        limits: Limits,
        step: Step,
    ) -> None:
        assert request.seed is not None
        self.request, self.seed = request, request.seed
        self.prompt_ids = tuple(prompt_ids)
        self.text = ""
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.statistics = Statistics()
        self.stop_reason: StopReason | None = None
        self._rounds, self._stop_text, self._limits, self._step = rounds, stop_text, limits, step
        self._cancelled = False

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the output, if one did."""
        return self._stop_text.matched

    @property
    def stop_start(self) -> int | None:
        """The byte of the output at which that stop string began."""
        return self._stop_text.start

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """End this generation before the next run of a graph; from any thread or signal handler.

        What was said so far stays, and the session goes on from there.
        """
        self._cancelled = True  # one assignment: no lock that a signal handler could wait for

    def __iter__(self) -> Iterator[Piece]:
        while self.stop_reason is None:
            found = self._next_round()
            if found is None:
                self.stop_reason = "cancelled"
                rest = self._stop_text.end()
                self.text += rest
                if rest:
                    yield Piece(rest, (), None)
                return
            self.token_ids += found.emitted
            self.logprobs += found.logprobs
            self.statistics.add(found)
            self.stop_reason = self.end()
            text = self._stop_text.take() + (self._stop_text.end() if self.stop_reason else "")
            self.text += text
            yield Piece(text, found.emitted, found)

    def finish(self) -> "Generation":
        """Run to the end."""
        for _ in self:
            pass
        return self

    def replay(
        self, token_ids: Sequence[int], logprobs: Sequence[float], stop_reason: StopReason | None
    ) -> None:
        """Take over what was said of this same output before; its text is not yielded again."""
        self.token_ids, self.logprobs, self.stop_reason = list(token_ids), list(logprobs), stop_reason
        self.text = self._stop_text.take() + (self._stop_text.end() if stop_reason else "")

    def _next_round(self) -> Round | None:
        """None where the generation was cancelled, or its rounds were broken off by an exception before."""
        with self._step(self):
            try:
                return next(self._rounds, None)
            except Cancelled:
                return None

    def end(self) -> StopReason | None:
        """Why the output so far is at its end; None where it may go on."""
        if self.stop_string is not None:
            return "stop"
        if self.token_ids and self.token_ids[-1] in self._limits.eos_ids:
            return "eos"
        if len(self.token_ids) >= self.request.max_new_tokens:
            return "length"
        # The last token needs no position: it is never scored.
        full = len(self.prompt_ids) + len(self.token_ids) > self._limits.max_length
        return "context" if full else None
