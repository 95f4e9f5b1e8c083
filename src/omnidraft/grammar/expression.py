"""Languages of bytes as expressions, which `automaton.py` compiles.

A set of bytes is an int whose bit b stands for byte b.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from omnidraft.grammar.automaton import Automaton

ALL_POINTS = ((0, 0xD7FF), (0xE000, 0x10FFFF))  # the code points that UTF-8 writes
Points = tuple[tuple[int, int], ...]  # code points as sorted intervals that do not touch, ends included


@dataclass(frozen=True)
class OneOf:
    """One byte of a set."""

    bytes: int


@dataclass(frozen=True)
class Concatenation:
    """One expression after another; the empty text where there are none."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True)
class Alternatives:
    """One of some expressions; no text at all where there are none."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True)
class Repetition:
    """An expression from `least` to `most` times; without end where `most` is None."""

    part: "Expression"
    least: int
    most: int | None


@dataclass(frozen=True)
class Listing:
    """Items in their order with a separator between two of them; each with whether it must be there.

    Attributes:
        rest: what may follow the items, any number of times.
        least, most: how many there are; all that follows the items counts as one towards `least`.
    """

    items: tuple[tuple["Expression", bool], ...]
    separator: "Expression"
    rest: "Expression | None" = None
    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Call:
    """The text of a rule, by its name; its first byte must tell it from all that could stand there."""

    rule: str


@dataclass(frozen=True)
class Embedded:
    """The language of an automaton without rules."""

    automaton: "Automaton"


Expression: TypeAlias = OneOf | Concatenation | Alternatives | Repetition | Listing | Call | Embedded
EMPTY = Concatenation(())


def sequence(*parts: Expression) -> Expression:
    """One expression after another."""
    return parts[0] if len(parts) == 1 else Concatenation(parts)


def choice(parts: Iterable[Expression]) -> Expression:
    """One of some expressions."""
    parts = tuple(parts)
    return parts[0] if len(parts) == 1 else Alternatives(parts)


def optional(part: Expression) -> Expression:
    """An expression or nothing."""
    return Repetition(part, 0, 1)


def literal(data: bytes | str) -> Expression:
    """Exactly these bytes, or this text in UTF-8."""
    data = data.encode() if isinstance(data, str) else data
    return Concatenation(tuple(OneOf(1 << byte) for byte in data))


def points(intervals: Iterable[tuple[int, int]]) -> Points:
    """Intervals of code points, sorted and merged, without surrogates."""
    merged: list[tuple[int, int]] = []
    cut = [
        (max(low, least), min(high, most))
        for low, high in intervals
        for least, most in ALL_POINTS
        if low <= most and high >= least
    ]
    for low, high in sorted(cut):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(intervals: Points) -> Points:
    """All other code points."""
    rest, at = [], 0
    for low, high in intervals:
        rest.append((at, low - 1))
        at = high + 1
    return points((low, high) for low, high in [*rest, (at, 0x10FFFF)] if low <= high)


def utf8(intervals: Sequence[tuple[int, int]]) -> Expression:
    """One code point of the intervals, in UTF-8."""
    return choice(part for low, high in points(intervals) for part in _utf8_range(low, high))


def _utf8_range(low: int, high: int) -> list[Expression]:
    """Sequences of byte ranges that write the code points of an interval."""
    for most in (0x7F, 0x7FF, 0xFFFF):
        if low <= most < high:
            return [*_utf8_range(low, most), *_utf8_range(most + 1, high)]
    first, last = chr(low).encode("utf-8", "surrogatepass"), chr(high).encode("utf-8", "surrogatepass")
    size = len(first)
    for tail in range(1, size):  # the last `tail` bytes must take all values, or the earlier ones be equal
        step = 1 << (6 * tail)
        if low // step != high // step:
            if low % step:
                middle = low | (step - 1)
                return [*_utf8_range(low, middle), *_utf8_range(middle + 1, high)]
            if high % step != step - 1:
                middle = (high & ~(step - 1)) - 1
                return [*_utf8_range(low, middle), *_utf8_range(middle + 1, high)]
    return [Concatenation(tuple(OneOf(byte_range(a, b)) for a, b in zip(first, last, strict=True)))]


def byte_range(low: int, high: int) -> int:
    """The set of the bytes from `low` to `high`."""
    return (1 << (high + 1)) - (1 << low)
