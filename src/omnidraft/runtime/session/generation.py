"""One answer while it is generated: rounds in, pieces of text out, and the reason why it ended."""

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
    """Text that one round made certain; half characters and beginnings of stop strings are held back.

    Attributes:
        text: may be empty.
        token_ids: target ids that the round emitted.
        round: None for text that was held back when the generation was cancelled.
    """

    text: str
    token_ids: tuple[int, ...]
    round: Round | None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Limits:
    """Where an output ends besides its stop strings.

    Attributes:
        eos_ids: end tokens.
        max_length: positions of the target's context.
    """

    eos_ids: Sequence[int]
    max_length: int


@dataclass(frozen=True)
class Emitted:
    """The output of a generation that an earlier process began; empty for a new generation.

    Attributes:
        token_ids: target ids of the output.
        logprobs: of `token_ids`, if they were asked for.
        stop_reason: why the output ended; None where it can continue.
    """

    token_ids: Sequence[int] = ()
    logprobs: Sequence[float] = ()
    stop_reason: StopReason | None = None


class Generation:
    """One answer: iterate over it for pieces of text, read its fields during and after.

    Attributes:
        config: the settings.
        seed: repeats this generation.
        prompt_ids: target ids of the prompt.
        text: the output so far, without stop string and end token.
        token_ids: target ids of the output so far. An end token, or the token that completed the stop string,
            is the last of them and counts.
        logprobs: natural log-probabilities of `token_ids`, if they were asked for.
        statistics: counts so far.
        stop_reason: why it ended; None before.
    """

    def __init__(
        self,
        rounds: Iterator[Round],
        config: GenerationConfig,
        prompt_ids: Sequence[int],
        stop_text: StopText,
        limits: Limits,
        step: Step,
    ) -> None:
        assert config.seed is not None
        self.config, self.seed = config, config.seed
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
        """The byte of the output at which the stop string began; None where no stop string ended it."""
        return self._stop_text.start

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """End this generation before the next run of a graph; from any thread or signal handler.

        The output so far stays, and the session continues from there.
        """
        self._cancelled = True  # one assignment: a signal handler must not wait for a lock

    def __iter__(self) -> Iterator[Piece]:
        while self.stop_reason is None:
            finished = self._next_round()
            if finished is None:
                self.stop_reason = "cancelled"
                rest = self._stop_text.end()
                self.text += rest
                if rest:
                    yield Piece(rest, (), None)
                return
            self.token_ids += finished.emitted
            self.logprobs += finished.logprobs
            self.statistics.add(finished)
            self.stop_reason = self.end()
            text = self._stop_text.take() + (self._stop_text.end() if self.stop_reason else "")
            self.text += text
            yield Piece(text, finished.emitted, finished)

    def finish(self) -> "Generation":
        """Run to the end."""
        for _ in self:
            pass
        return self

    def replay(self, emitted: Emitted) -> None:
        """Take over earlier output of this generation; its text is not yielded again."""
        self.token_ids, self.logprobs = list(emitted.token_ids), list(emitted.logprobs)
        self.stop_reason = emitted.stop_reason
        self.text = self._stop_text.take() + (self._stop_text.end() if emitted.stop_reason else "")

    def _next_round(self) -> Round | None:
        """The next round; None where the generation was cancelled or an exception ended its rounds before."""
        with self._step(self):
            try:
                return next(self._rounds, None)
            except Cancelled:
                return None

    def end(self) -> StopReason | None:
        """Why the output ends with the last token so far; None where it may continue."""
        if self.stop_string is not None:
            return "stop"
        if self.token_ids and self.token_ids[-1] in self._limits.eos_ids:
            return "eos"
        if len(self.token_ids) >= self.config.max_new_tokens:
            return "length"
        # The last token is never scored, so it needs no position.
        full = len(self.prompt_ids) + len(self.token_ids) > self._limits.max_length
        return "context" if full else None
