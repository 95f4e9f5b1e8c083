"""JSON texts as expressions: each value has one writing, but for numbers and, if asked for, white space."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from omnidraft.grammar.automaton import compact
from omnidraft.grammar.budget import Budget
from omnidraft.grammar.expression import (
    EMPTY,
    Expression,
    OneOf,
    Points,
    Repetition,
    choice,
    literal,
    points,
    sequence,
    utf8,
)
from omnidraft.grammar.regex import ANY

_SHORT = {0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0C: "\\f", 0x0D: "\\r", 0x22: '\\"', 0x5C: "\\\\"}
_ESCAPED = points([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])
MOST_SPACE = 16  # white space in one place, in the style "any"


@dataclass(frozen=True)
class Style:
    """White space around the marks of a JSON text.

    Attributes:
        colon, comma: with the space around them.
        inner: between a bracket and what is inside.
    """

    colon: Expression
    comma: Expression
    inner: Expression
    separators: tuple[str, str] | None  # of `json.dumps` for constants


def style_of(name: str) -> Style:
    """The style of a name: "space" as json.dumps writes, "none", or "any"."""
    if name == "any":
        space = Repetition(OneOf(1 << 32 | 1 << 9 | 1 << 10 | 1 << 13), 0, MOST_SPACE)
        return Style(sequence(space, literal(":"), space), sequence(space, literal(","), space), space, None)
    gap = " " if name == "space" else ""
    return Style(literal(":" + gap), literal("," + gap), EMPTY, ("," + gap, ":" + gap))


def character(allowed: Points) -> Expression:
    """One character of a JSON string out of a set of code points: escaped only where it must be."""
    plain = points(
        (max(low, a), min(high, b))
        for low, high in allowed
        for a, b in ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF))
        if low <= b and high >= a
    )
    parts = [utf8(plain)] if plain else []
    for low, high in allowed:
        for first, last in _ESCAPED:
            for point in range(max(low, first), min(high, last) + 1):
                parts.append(literal(_SHORT.get(point, f"\\u{point:04x}")))
    return choice(parts)


def string(body: Expression) -> Expression:
    """A string with this between its quotation marks."""
    return sequence(literal('"'), body, literal('"'))


def characters(least: int = 0, most: int | None = None) -> Expression:
    """Any characters of a string."""
    return Repetition(_any_character(), least, most)


@cache
def _any_character() -> Expression:
    """Any character as an automaton that is compiled once, because most schemas have many free strings."""
    return compact(character(ANY), Budget())


def content(text: str) -> Expression:
    """A text as it is written between the quotation marks of a string."""
    return sequence(*(character(points([(ord(each), ord(each))])) for each in text))


def constant(value: Any, style: Style) -> Expression:
    """A value that is given; the white space of `any` is that of `space` in it."""
    text = json.dumps(value, ensure_ascii=False, separators=style.separators or (", ", ": "), allow_nan=False)
    return literal(text)
