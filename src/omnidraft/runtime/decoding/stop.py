"""Where an output ends: at an end token, at a stop string, at the limit; the first in order of the bytes.

Pure. Stop strings are compared as UTF-8 bytes, which finds what comparing text would find (a character's
first byte never occurs inside another) and needs no language's idea of equal strings. What a stop string
catches depends on the bytes alone, never on where tokens or rounds begin.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.utf8_stream import Utf8Stream

StopReason = Literal["eos", "stop", "length", "context", "cancelled"]
Cut = Callable[
    [list[int]], tuple[list[int], bool]
]  # the tokens of a round -> those that are output, the end?


class StopText:
    """The text of an output as it grows, up to the first stop string.

    That is the one whose last byte comes first; of several that end with the same byte, the longest.

    Attributes:
        matched: the stop string that was found.
        start: byte of the output at which it begins; None before.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        """
        Args:
            stops: strings that end the output.

        Raises:
            SettingError: an empty one, or one that is no text.
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
            found = max((s for s in self._stops if self._pending.endswith(s)), key=len, default=None)
            if found is not None:
                del self._pending[-len(found) :]
                self.matched, self.start = found.decode(), self._pushed - len(found)
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
    """The tokens of a round up to and with the first that ends the output, and whether one does.

    Their bytes go into `text`; an end token writes nothing, whatever its bytes are.
    """
    for i, token in enumerate(tokens):
        if token in eos_ids or text.push(bytes_of(token)):
            return tokens[: i + 1], True
    return tokens, False


def whole_tokens(lengths: Sequence[int], start: int) -> tuple[int, int]:
    """How many tokens lie wholly before byte `start`, and how many bytes of the next one do.

    Args:
        lengths: bytes of each token.
        start: where a stop string begins.
    """
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
