"""Bytes into text as they arrive, and where the text ends: spec/session.md."""

from collections.abc import Sequence
from dataclasses import dataclass

# First byte -> how many follow, and the range of the second byte (RFC 3629, section 4).
_LEADS = [
    (0xC2, 0xDF, 1, 0x80, 0xBF),
    (0xE0, 0xE0, 2, 0xA0, 0xBF),
    (0xE1, 0xEC, 2, 0x80, 0xBF),
    (0xED, 0xED, 2, 0x80, 0x9F),
    (0xEE, 0xEF, 2, 0x80, 0xBF),
    (0xF0, 0xF0, 3, 0x90, 0xBF),
    (0xF1, 0xF3, 3, 0x80, 0xBF),
    (0xF4, 0xF4, 3, 0x80, 0x8F),
]


def decode(data: bytes) -> tuple[str, bytes]:
    """The text that is certain, and the incomplete character at the end.

    What can never become a character is replaced by U+FFFD: one for each longest run of bytes that begins
    a character (Unicode, "U+FFFD Substitution of Maximal Subparts"), else one for each byte.
    """
    text, at = "", 0
    while at < len(data):
        size, complete = _character(data[at:])
        if not complete and at + size == len(data) and data[at] >= 0xC2 and size <= _following(data[at]):
            return text, data[at:]
        text += data[at : at + size].decode() if complete else "\ufffd"
        at += size
    return text, b""


def _following(lead: int) -> int:
    return next((count for low, high, count, _, _ in _LEADS if low <= lead <= high), 0)


def _character(data: bytes) -> tuple[int, bool]:
    """Bytes of the character that data begins with, or of its valid beginning (at least 1)."""
    if data[0] < 0x80:
        return 1, True
    for low, high, count, least, most in _LEADS:
        if low <= data[0] <= high:
            size = 1
            while size <= count and size < len(data):
                least, most = (least, most) if size == 1 else (0x80, 0xBF)
                if not least <= data[size] <= most:
                    return size, False
                size += 1
            return size, size == count + 1
    return 1, False


def stream(chunks: Sequence[bytes]) -> tuple[list[str], str]:
    """The text that each chunk makes certain, and what is left at the end."""
    pieces, held = [], b""
    for chunk in chunks:
        text, held = decode(held + chunk)
        pieces.append(text)
    return pieces, decode(held)[0] + ("\ufffd" if held else "")


@dataclass
class Ending:
    """Where an output ended.

    Attributes:
        emitted: the tokens of each round that are output. pieces: the text that each round made certain.
        stop_start: byte of the output at which the stop string begins.
    """

    emitted: list[list[int]]
    pieces: list[str]
    reason: str | None = None
    stop_string: str | None = None
    stop_start: int | None = None


@dataclass(frozen=True)
class Limits:
    """What ends an output."""

    stops: list[str]
    eos_ids: list[int]
    max_new_tokens: int
    room: int  # tokens until the context is full


def end_of(rounds: Sequence[Sequence[int]], token_bytes: Sequence[bytes], limits: Limits) -> Ending:
    """Follow rounds of tokens up to the first that ends the output."""
    found, data, shown, count = Ending([], []), b"", "", 0
    for tokens in rounds:
        found.emitted.append([])
        for token in tokens:
            found.emitted[-1].append(token)
            count += 1
            data += b"" if token in limits.eos_ids else token_bytes[token]
            found.stop_start = _match(data, limits.stops, found)
            if token in limits.eos_ids:
                found.reason = "eos"
            if found.stop_start is not None:
                found.reason, data = "stop", data[: found.stop_start]
            if found.reason:
                break
        if count >= limits.max_new_tokens:
            found.reason = found.reason or "length"
        elif count >= limits.room:
            found.reason = found.reason or "context"
        text, half = decode(data if found.reason else data[: len(data) - _held(data, limits.stops)])
        text += "\ufffd" if found.reason and half else ""
        found.pieces.append(text[len(shown) :])
        shown = text
        if found.reason:
            break
    return found


def _match(data: bytes, stops: Sequence[str], found: Ending) -> int | None:
    """Where the stop string begins whose last byte comes first; of several, the longest."""
    for end in range(len(data) + 1):
        ending = [s for s in stops if data[:end].endswith(s.encode())]
        if ending:
            found.stop_string = max(ending, key=lambda s: len(s.encode()))
            return end - len(found.stop_string.encode())
    return None


def _held(data: bytes, stops: Sequence[str]) -> int:
    """Bytes at the end of data that may be the beginning of a stop string."""
    starts = [s.encode()[:n] for s in stops for n in range(1, len(s.encode()))]
    return max((len(start) for start in starts if data.endswith(start)), default=0)
