"""Bytes to text as they arrive, and where the text ends: spec/05-stopping.md."""

from collections.abc import Sequence
from dataclasses import dataclass

# Range of the first byte, number of bytes that follow, range of the second byte (RFC 3629, section 4).
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

    Bytes that can never become a character are replaced by U+FFFD: one for each longest run of bytes that
    begins a character (Unicode, "U+FFFD Substitution of Maximal Subparts"), else one for each byte.
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
    """Size of the first character, or of its valid prefix (at least 1); and whether it is complete."""
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
    """The text that each chunk makes certain, and the text that is left at the end."""
    pieces, held = [], b""
    for chunk in chunks:
        text, held = decode(held + chunk)
        pieces.append(text)
    return pieces, decode(held)[0] + ("\ufffd" if held else "")


@dataclass
class Ending:
    """Where an output ended.

    Attributes:
        emitted: for each round, the tokens that belong to the output.
        pieces: the text that each round made certain.
        reason: the stop reason; None if the output has not ended.
        stop_string: the stop string that ended the output.
        stop_start: byte of the output at which the stop string begins.
    """

    emitted: list[list[int]]
    pieces: list[str]
    reason: str | None = None
    stop_string: str | None = None
    stop_start: int | None = None


@dataclass(frozen=True)
class Limits:
    """What ends an output; `room` is the number of tokens until the context is full."""

    stops: list[str]
    eos_ids: list[int]
    max_new_tokens: int
    room: int


def end_of(rounds: Sequence[Sequence[int]], token_bytes: Sequence[bytes], limits: Limits) -> Ending:
    """Follow rounds of tokens until one ends the output."""
    ending, data, shown, count = Ending([], []), b"", "", 0
    for tokens in rounds:
        ending.emitted.append([])
        for token in tokens:
            ending.emitted[-1].append(token)
            count += 1
            data += b"" if token in limits.eos_ids else token_bytes[token]
            ending.stop_start = _match(data, limits.stops, ending)
            if token in limits.eos_ids:
                ending.reason = "eos"
            if ending.stop_start is not None:
                ending.reason, data = "stop", data[: ending.stop_start]
            if ending.reason:
                break
        if count >= limits.max_new_tokens:
            ending.reason = ending.reason or "length"
        elif count >= limits.room:
            ending.reason = ending.reason or "context"
        text, half = decode(data if ending.reason else data[: len(data) - _held(data, limits.stops)])
        text += "\ufffd" if ending.reason and half else ""
        ending.pieces.append(text[len(shown) :])
        shown = text
        if ending.reason:
            break
    return ending


def _match(data: bytes, stops: Sequence[str], ending: Ending) -> int | None:
    """Where the stop string begins whose last byte comes first; the longest of several."""
    for end in range(len(data) + 1):
        complete = [s for s in stops if data[:end].endswith(s.encode())]
        if complete:
            ending.stop_string = max(complete, key=lambda s: len(s.encode()))
            return end - len(ending.stop_string.encode())
    return None


def _held(data: bytes, stops: Sequence[str]) -> int:
    """Number of bytes at the end of data that may be the beginning of a stop string."""
    starts = [s.encode()[:n] for s in stops for n in range(1, len(s.encode()))]
    return max((len(start) for start in starts if data.endswith(start)), default=0)
