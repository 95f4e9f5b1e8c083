"""Where an output ends: at an end token or at a stop string, whichever byte comes first.

The limits of tokens and of the context are in `DecoderState.budget`; `Generation.end` names the reason.

Pure. Stop strings are compared as UTF-8 bytes. This finds what a comparison of text would find (the first
byte of a character never occurs inside another) and does not depend on a language's idea of equal strings.
The place of a match depends on the bytes alone, never on where tokens or rounds begin.
"""

import codecs
from collections.abc import Callable, Collection, Sequence
from typing import Literal

from omnidraft.errors import SettingError

StopReason = Literal["eos", "stop", "complete", "length", "context", "cancelled"]
# Tokens of a round -> those that are output, and whether the output ends there.
Cut = Callable[[list[int]], tuple[list[int], bool]]


class Utf8Stream:
    """Decodes UTF-8 that arrives in pieces: incomplete characters wait; invalid bytes become U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, data: bytes) -> str:
        """The text that is certain so far; an incomplete character is held back."""
        text = self._decoder.decode(data)
        # Python waits for the rest of a surrogate, which is invalid in UTF-8.
        held = self._decoder.getstate()[0]
        if len(held) == 2 and held[0] == 0xED and held[1] >= 0xA0:
            text += self._decoder.decode(b"", final=True)
        return text

    def flush(self) -> str:
        """The text that was held back, at the end of the output."""
        return self._decoder.decode(b"", final=True)


class StopText:
    """The text of an output as it grows, up to the first stop string.

    The first stop string is the one whose last byte comes first; of several that end with the same byte, the
    longest.

    Attributes:
        matched: the stop string that was found.
        start: byte of the output at which it begins; None before.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        """
        Raises:
            SettingError: a stop string that is empty or cannot be encoded.
        """
        self._stops = [_stop_bytes(stop) for stop in stops]
        self._pending = bytearray()  # bytes that may be the beginning of a stop string
        self._pushed = 0
        self._stream = Utf8Stream()
        self._ready = ""
        self.matched: str | None = None
        self.start: int | None = None

    def push(self, data: bytes) -> bool:
        """Take in the bytes of one token; True when they complete a stop string, which ends the output."""
        assert self.start is None, "the output ended before"
        if not self._stops:
            self._release(data)
            return False
        for byte in data:
            self._pending.append(byte)
            self._pushed += 1
            match = max((s for s in self._stops if self._pending.endswith(s)), key=len, default=None)
            if match is not None:
                del self._pending[-len(match) :]
                self.matched, self.start = match.decode(), self._pushed - len(match)
                return True
        held = max(_overlap(self._pending, stop) for stop in self._stops)
        self._release(bytes(self._pending[: len(self._pending) - held]))
        del self._pending[: len(self._pending) - held]
        return False

    def take(self) -> str:
        """The text that became certain since the last call."""
        text, self._ready = self._ready, ""
        return text

    def end(self) -> str:
        """The text that was held back; a half character at the end becomes U+FFFD, as in any decoding."""
        self._release(bytes(self._pending))
        self._pending.clear()
        return self.take() + self._stream.flush()

    def _release(self, data: bytes) -> None:
        self._ready += self._stream.push(data)


def cut_at_stop(
    tokens: list[int], eos_ids: Collection[int], text: StopText, bytes_of: Callable[[int], bytes]
) -> tuple[list[int], bool]:
    """The tokens of a round up to the first that ends the output, which is included, and whether one does.

    The bytes of the tokens go into `text`; an end token writes nothing.
    """
    for i, token in enumerate(tokens):
        if token in eos_ids or text.push(bytes_of(token)):
            return tokens[: i + 1], True
    return tokens, False


def cut_at_eos(eos_ids: Collection[int]) -> Cut:
    """A cut at the first end-of-sequence token; what was accepted after it is not output."""

    def cut(tokens: list[int]) -> tuple[list[int], bool]:
        for i, token in enumerate(tokens):
            if token in eos_ids:
                return tokens[: i + 1], True
        return tokens, False

    return cut


def whole_tokens(lengths: Sequence[int], start: int) -> tuple[int, int]:
    """How many tokens lie entirely before byte `start`, and how many bytes of the next token do."""
    for i, length in enumerate(lengths):
        if length > start:
            return i, start
        start -= length
    return len(lengths), 0


def _stop_bytes(stop: str) -> bytes:
    try:
        data = stop.encode()
    except UnicodeEncodeError:
        raise SettingError(
            f"the stop string {stop!r} holds half of a surrogate pair", "give whole text"
        ) from None
    if not data:
        raise SettingError("a stop string is empty, which would end every output", "give some text")
    return data


def _overlap(data: bytearray, stop: bytes) -> int:
    """Length of the longest end of `data` that `stop` begins with and goes on from."""
    for n in range(min(len(data), len(stop) - 1), 0, -1):
        if data.endswith(stop[:n]):
            return n
    return 0
