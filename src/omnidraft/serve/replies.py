"""Answers as OpenAI's clients read them: one object, or chunks of a stream; with what was drafted."""

import json
import time
import uuid
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

from omnidraft.runtime.session.api import Generation, Piece, TextSession
from omnidraft.runtime.session.generation import Kind
from omnidraft.serve.requests import ModelRequest

Source = Literal["target", "draft", "copy"]


class TextSources:
    """Tells which part of a text was written by the target itself, drafted, or copied.

    Text is held back and cut (half characters, stop strings), so a piece is compared with the bytes of the
    tokens so far: a character belongs to the token with its last byte.
    """

    def __init__(self) -> None:
        self._tokens: deque[tuple[Source, int]] = deque()  # with the bytes of each that have no text yet

    def add(self, piece: Piece, sizes: list[int]) -> None:
        """Take in the tokens of a piece, whose bytes have these sizes."""
        if piece.round is None:
            return
        proposed: Source = "copy" if piece.round.copied else "draft"
        for i, size in enumerate(sizes):
            self._tokens.append((proposed if i < piece.round.accepted else "target", size))

    def take(self, text: str) -> list[tuple[str, Source]]:
        """The next text in parts of one source."""
        parts = groupby(
            ((letter, self._source(len(letter.encode()))) for letter in text), lambda each: each[1]
        )
        return [("".join(letter for letter, _ in letters), source) for source, letters in parts]

    def _source(self, count: int) -> Source:
        source: Source = "target"
        while count > 0 and self._tokens:
            source, size = self._tokens.popleft()
            if size > count:
                self._tokens.appendleft((source, size - count))
            count -= size
        return source


class Reply:
    """The JSON of one answer."""

    def __init__(self, asked: ModelRequest, generation: Generation, session: TextSession, model: str) -> None:
        self._asked, self._generation = asked, generation
        self._bytes_of = session.loaded.output_text.bytes_of
        self._eos_ids = session.bundle.target.eos_ids
        self._sources = TextSources()
        self._tokens, self._seconds = 0, 0.0
        self._text: dict[Kind, str] = {"text": "", "thought": "", "call": ""}
        self._logprobs: list[dict[str, Any]] = []
        kind = "chat.completion" if asked.is_chat else "text_completion"
        self._head = {
            "id": f"{'chatcmpl' if asked.is_chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": f"{kind}.chunk" if asked.is_chat and asked.stream else kind,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": f"fp_{str(session.bundle.manifest['seal'])[:16]}",
        }

    def chunks(self, piece: Piece) -> Iterator[dict[str, Any]]:
        """Chunks of a stream for a piece; also gathers what `whole` gives."""
        logprobs = self._add(piece)
        sources = self._sources.take(piece.text)
        if not piece.text and not logprobs:
            return
        delta: dict[str, Any] = {"text": piece.text}
        if self._asked.is_chat:
            field = {"text": "content", "thought": "reasoning_content", "call": None}[piece.kind]
            delta = {"delta": {field: piece.text} if field else {}}  # calls are sent whole, by `last`
        drafting = {"parts": sources, "tokens": self._tokens, "seconds": round(self._seconds, 6)}
        yield self._chunk([self._choice(delta, self._shown(logprobs), None)], omnidraft=drafting)

    def first(self) -> Iterator[dict[str, Any]]:
        """The chunk before the first piece."""
        if self._asked.is_chat:
            role = {"delta": {"role": "assistant", "content": ""}}
            yield self._chunk([self._choice(role, None, None)])

    def last(self) -> Iterator[dict[str, Any]]:
        """The chunks behind the last piece."""
        for i, call in enumerate(self._calls):
            yield self._chunk([self._choice({"delta": {"tool_calls": [{"index": i, **call}]}}, None, None)])
        end: dict[str, Any] = {"delta": {}} if self._asked.is_chat else {"text": ""}
        yield self._chunk([self._choice(end, None, self._finish_reason)], omnidraft=self._counts)
        if self._asked.with_usage:
            yield {**self._chunk([]), "usage": self._usage}

    def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        answer: dict[str, Any] = {"text": self._text["text"]}
        if self._asked.is_chat:
            calls, content = self._calls, self._text["text"]
            message: dict[str, Any] = {
                "role": "assistant",
                "content": content or (None if calls else ""),
                "refusal": None,
            }
            message |= {"tool_calls": calls} if calls else {}
            message |= {"reasoning_content": self._text["thought"]} if self._text["thought"] else {}
            answer = {"message": message}
        choice = self._choice(answer, self._shown(self._logprobs), self._finish_reason)
        return {**self._head, "choices": [choice], "usage": self._usage, "omnidraft": self._counts}

    def _add(self, piece: Piece) -> list[dict[str, Any]]:
        """Count a piece; its log-probabilities."""
        tokens = [self._bytes_of(token) for token in piece.token_ids]
        self._sources.add(piece, [len(data) for data in tokens])
        self._text[piece.kind] += piece.text
        self._tokens += len(tokens)
        if piece.round is None:
            return []
        self._seconds += sum(vars(piece.round.seconds).values())
        new = [
            {"token": data.decode("utf-8", "replace"), "logprob": value, "bytes": [*data], "top_logprobs": []}
            for token, data, value in zip(piece.token_ids, tokens, piece.round.logprobs, strict=False)
            if token not in self._eos_ids
        ]
        self._logprobs += new
        return new

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        usage = {"usage": None} if self._asked.with_usage else {}
        return {**self._head, "choices": choices, **usage, **more}

    def _choice(self, answer: dict[str, Any], logprobs: Any, finish_reason: str | None) -> dict[str, Any]:
        return {"index": 0, **answer, "logprobs": logprobs, "finish_reason": finish_reason}

    def _shown(self, logprobs: list[dict[str, Any]]) -> dict[str, Any] | None:
        if not self._asked.config.logprobs:
            return None
        if self._asked.is_chat:
            return {"content": logprobs, "refusal": None}
        return {
            "tokens": [each["token"] for each in logprobs],
            "token_logprobs": [each["logprob"] for each in logprobs],
            "top_logprobs": None,
            "text_offset": None,
        }

    @property
    def _finish_reason(self) -> str:
        if self._generation.stop_reason in ("length", "context"):
            return "length"
        return "tool_calls" if self._generation.calls else "stop"

    @cached_property
    def _calls(self) -> list[dict[str, Any]]:
        """The calls of tools in an answer that has ended."""
        return [
            {
                "id": f"call_{uuid.uuid4().hex}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for call in self._generation.calls
        ]

    @property
    def _usage(self) -> dict[str, Any]:
        counts, prompt = self._generation.statistics, len(self._generation.prompt_ids)
        tokens = len(self._generation.token_ids)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
            "prompt_tokens_details": {"cached_tokens": max(0, prompt - 1 - counts.read)},
            "completion_tokens_details": {
                "accepted_prediction_tokens": counts.accepted,
                "rejected_prediction_tokens": counts.proposed - counts.accepted,
            },
        }

    @property
    def _counts(self) -> dict[str, Any]:
        """What drafting did."""
        counts = self._generation.statistics
        return {
            "seed": self._generation.seed,
            "stop_reason": self._generation.stop_reason,
            "tokens": counts.emitted,
            "seconds": round(counts.total_seconds, 6),
            "target_passes": counts.rounds,
            "drafted": counts.drafted,
            "accepted_drafts": counts.accepted - counts.accepted_copies,
            "copied": counts.copied,
            "accepted_copies": counts.accepted_copies,
        }
