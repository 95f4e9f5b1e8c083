"""One answer while it is generated: rounds in, pieces of text out, and the reason why it ended."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

from omnidraft.errors import SessionError
from omnidraft.grammar.partial_json import partial_json
from omnidraft.grammar.response_format import ResponseFormat
from omnidraft.runtime.chat.prompt_template import ThinkTags
from omnidraft.runtime.chat.thinking import ThoughtStream, split_thought
from omnidraft.runtime.decoding.model import Cancelled
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.decoding.stop import StopReason, StopText
from omnidraft.runtime.grammar.constraint import Constraint
from omnidraft.runtime.grammar.tool_calls import CallStream, ToolCall
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.statistics import Statistics

Kind = Literal["text", "thought", "call"]
Step = Callable[["Generation"], AbstractContextManager[None]]  # surrounds every use of the models


@dataclass(frozen=True)
class Piece:
    """Text that one round made certain; half characters and beginnings of stop strings are held back.

    Attributes:
        text: may be empty.
        token_ids: target ids that the round emitted.
        round: None for text that was held back when the generation was cancelled, and for the other pieces
            of a round whose text is of several kinds.
        kind: "thought" for what the model thinks before its answer, "call" for calls of tools, each with the
            tags around it; "text" for the rest.
    """

    text: str
    token_ids: tuple[int, ...]
    round: Round | None
    kind: Kind = "text"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Limits:
    """Where an output ends besides its stop strings; a constraint knows where nothing may follow."""

    eos_ids: Sequence[int]
    max_length: int
    constraint: Constraint | None = None


@dataclass(frozen=True)
class Thoughts:
    """What tells the thought of an output from the answer.

    Attributes:
        inside: the output begins inside a thought.
    """

    tags: ThinkTags | None = None
    inside: bool = False


@dataclass(frozen=True)
class Emitted:
    """The output of a generation that an earlier process began; empty for a new generation.

    Attributes:
        stop_reason: why the output ended; None where it can continue.
    """

    token_ids: Sequence[int] = ()
    logprobs: Sequence[float] = ()
    stop_reason: StopReason | None = None


class Generation:
    """One answer: iterate over it for pieces of text, read its fields during and after.

    Attributes:
        config: the settings.
        seed: of its random numbers; see `GenerationConfig` for what it repeats.
        prompt_ids: target ids of the prompt.
        text: the output so far, without stop string and end token. A think tag that is a control token of
            the target is written, too.
        token_ids: target ids of the output so far. An end token, or the token that completed the stop string,
            is the last of them and counts.
        logprobs: natural log-probabilities of `token_ids`, if they were asked for.
        statistics: counts so far.
        stop_reason: why it ended; None before.
        dropped_turns: oldest turns of the conversation that were left out for this answer.
        interrupt: ends the run of a graph that is going on.
    """

    def __init__(
        self,
        rounds: Iterator[Round],
        config: GenerationConfig,
        prompt_ids: Sequence[int],
        stop_text: StopText,
        limits: Limits,
        step: Step,
        thoughts: Thoughts = Thoughts(),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        assert config.seed is not None
        self.config, self.seed = config, config.seed
        self.prompt_ids = tuple(prompt_ids)
        self.text = ""
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self.statistics = Statistics()
        self.stop_reason: StopReason | None = None
        self.dropped_turns = 0
        self._rounds, self._stop_text, self._limits, self._step = rounds, stop_text, limits, step
        self._thoughts, self._clock = thoughts, clock
        self._stream = None if thoughts.tags is None else ThoughtStream(thoughts.tags, inside=thoughts.inside)
        self._pieces: list[Piece] = []  # of the last round, that were not yielded yet
        self._cancelled = False
        self._calls: CallStream | None = None
        self._format: ResponseFormat | None = None
        self.interrupt: Callable[[], None] = lambda: None

    @property
    def begins_inside(self) -> bool:
        """Whether the output begins inside a thought, because the prompt ends with the open tag."""
        return self._thoughts.inside

    @property
    def thought(self) -> str:
        """What the model thought before its answer, without the tags; empty for most models."""
        return split_thought(self._uncalled, self._thoughts.tags, inside=self._thoughts.inside)[0]

    @property
    def answer(self) -> str:
        """The text behind the thought and before calls of tools; empty while the model is thinking."""
        return split_thought(self._uncalled, self._thoughts.tags, inside=self._thoughts.inside)[1]

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of tools that are whole, in their order."""
        form = None if self._format is None else self._format.calls
        return () if form is None else form.read(self.text)

    @property
    def _uncalled(self) -> str:
        form = None if self._format is None else self._format.calls
        return self.text if form is None else self.text[: form.start(self.text)]

    @property
    def has_grammar(self) -> bool:
        """Whether the output belongs to a grammar."""
        return self._limits.constraint is not None

    @property
    def parsed(self) -> Any:
        """The value of a whole output: of a JSON Schema parsed, of a pydantic model validated, else the text.

        Raises:
            SessionError: the output is not whole, because it was cancelled or stopped before.
        """
        constraint = self._limits.constraint
        cut = self.stop_reason in (None, "stop", "cancelled")
        if cut or (constraint is not None and not constraint.may_end):
            stopped = self.stop_reason == "stop"
            raise SessionError(
                "the output is not whole",
                "leave out `stop`, which ended it" if stopped else "run the generation to its end",
            )
        parse = None if self._format is None else self._format.parse
        return self.text if parse is None else parse(self.text)

    @property
    def partial(self) -> Any:
        """What is certain of the value so far, as `partial_json` reads it; without a schema the text.

        It is not validated, also where the schema is a pydantic model.
        """
        if self._format is None or self._format.parse is None:
            return self.text
        return partial_json(self.text + (" " if self.stop_reason in ("complete", "eos") else ""))

    def read_as(self, format_: ResponseFormat) -> None:
        """Read the output as text of a format; before the first round."""
        self._format = format_
        self._calls = None if format_.calls is None else CallStream(format_.calls)

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
        """End this generation within one operator of a graph; from any thread or signal handler.

        The output so far stays, and the session continues from there.
        """
        self._cancelled = True  # one assignment: a signal handler must not wait for a lock
        self.interrupt()

    def __iter__(self) -> Iterator[Piece]:
        while self._pieces or self.stop_reason is None:
            if not self._pieces:
                self._pieces = self._round_pieces()
            if self._pieces:
                yield self._pieces.pop(0)

    def _round_pieces(self) -> list[Piece]:
        """Run a round; its text as pieces. The first piece has the ids."""
        started = self._clock()
        finished = self._next_round()
        if finished is None:
            self.stop_reason = "cancelled"
            rest = self._stop_text.end()
            self.text += rest
            return [Piece(text, (), None, kind) for text, kind in self._parts(rest)]
        if self.statistics.rounds == 0:
            self.statistics.first_token_seconds = self._clock() - started
        self.token_ids += finished.emitted
        self.logprobs += finished.logprobs
        self.statistics.add(finished)
        self.stop_reason = self.end()
        text = self._stop_text.take() + (self._stop_text.end() if self.stop_reason else "")
        self.text += text
        thinking: Kind = "thought" if self._stream is not None and self._stream.is_thinking else "text"
        first, *others = self._parts(text) or [("", thinking)]
        pieces = [Piece(first[0], finished.emitted, finished, first[1])]
        return pieces + [Piece(text, (), None, kind) for text, kind in others]

    def _parts(self, text: str) -> list[tuple[str, Kind]]:
        """Text that became certain, in parts of one kind; at the end all that was held back."""
        called = ""
        if self._calls is not None:
            text, called = self._calls.push(text)
            text += self._calls.end() if self.stop_reason else ""
        parts: list[tuple[str, Kind]] = []
        if self._stream is None:
            parts = [(text, "text")] if text else []
        else:
            ends = self.stop_reason is not None or called != ""
            spoken = self._stream.push(text) + (self._stream.end() if ends else [])
            parts = [(part, "thought" if is_thought else "text") for part, is_thought in spoken]
        return [*parts, (called, "call")] if called else parts

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
        self._parts(self.text)

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
        if self._limits.constraint is not None and self._limits.constraint.is_complete:
            return "complete"
        return self.limit()

    def limit(self) -> StopReason | None:
        """Which limit ends the output; None where none does."""
        if len(self.token_ids) >= self.config.max_new_tokens:
            return "length"
        # The last token is never scored, so it needs no position.
        full = len(self.prompt_ids) + len(self.token_ids) > self._limits.max_length
        return "context" if full else None
