"""Numbers of JSON in a range, as expressions: digits are compared with those of the bounds from the left."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from omnidraft.grammar.automaton import Automaton
from omnidraft.grammar.expression import (
    EMPTY,
    Alternatives,
    Expression,
    OneOf,
    Repetition,
    byte_range,
    choice,
    literal,
    optional,
    sequence,
)

MOST_DIGITS = 15  # of an integer, and of a fraction: what a float64 holds
_BEFORE_EXPONENT = 11  # of a fraction: readers of JSON on phones take numbers of 32 characters
_ZERO = 0x30
DIGIT = OneOf(byte_range(_ZERO, _ZERO + 9))


def integers(least: int | None, most: int | None) -> Expression:
    """The integers of a range, ends included; at most MOST_DIGITS digits."""
    limit = 10**MOST_DIGITS - 1
    least, most = max(-limit, -limit if least is None else least), min(limit, limit if most is None else most)
    parts = []
    if least < 0:
        parts.append(sequence(literal("-"), _natural(max(1, -most), -least)))
    if most >= 0:
        parts.append(_natural(max(0, least), most))
    return choice(parts)


def decimals(
    least: Decimal | None, most: Decimal | None, *, above: bool, below: bool, places: int = MOST_DIGITS
) -> Expression:
    """The numbers of a range without an exponent.

    Args:
        least, most: the bounds; None for none.
        above, below: a bound is no member of the range.
        places: digits of a fraction at most.
    """
    limit = Decimal(10**MOST_DIGITS - 1)
    least, above = (-limit, False) if least is None or least < -limit else (least, above)
    most, below = (limit, False) if most is None or most > limit else (most, below)
    parts = []
    if least < 0:
        negative = _positive(max(-most, Decimal(0)), -least, below and most <= 0, above, places)
        parts.append(sequence(literal("-"), negative))
    if most >= 0:
        parts.append(_positive(max(least, Decimal(0)), most, above and least >= 0, below, places))
    return choice(parts)


def any_number() -> Expression:
    """A number with a fraction and an exponent, as JSON writes it."""
    fraction, short = (
        optional(sequence(literal("."), Repetition(DIGIT, 1, most)))
        for most in (MOST_DIGITS, _BEFORE_EXPONENT)
    )
    exponent = sequence(
        OneOf(1 << ord("e") | 1 << ord("E")),
        optional(OneOf(1 << ord("+") | 1 << ord("-"))),
        Repetition(DIGIT, 1, 2),
    )
    whole = choice(
        [
            literal("0"),
            sequence(OneOf(byte_range(_ZERO + 1, _ZERO + 9)), Repetition(DIGIT, 0, MOST_DIGITS - 1)),
        ]
    )
    return sequence(optional(literal("-")), whole, choice([fraction, sequence(short, exponent)]))


def multiples(of: int, places: int = 0) -> Automaton:
    """The numbers, with a sign or without, that are multiples of `of` units of the last of some digits.

    Args:
        of: at least 1.
        places: digits of a fraction at most.
    """
    blocks = places + 2  # before the point, and behind it with 0, 1, ... digits
    edges: list[dict[int, int]] = [{ord("-"): 1}, {}, *({} for _ in range(of * blocks))]
    accepting = set()
    for digit in range(10):
        for start in (0, 1):
            edges[start][_ZERO + digit] = 2 + digit % of
    for block in range(blocks):
        digits = max(0, block - 1)
        for rest in range(of):
            state = 2 + block * of + rest
            if block != 1 and rest * 10 ** (places - digits) % of == 0:
                accepting.add(state)
            if block == 0 and places:
                edges[state][ord(".")] = state + of
            if block == 0 or block < blocks - 1:
                behind = 2 + (block + 1 if block else 0) * of
                for digit in range(10):
                    edges[state][_ZERO + digit] = behind + (10 * rest + digit) % of
    return Automaton(edges, accepting, [{} for _ in edges])


def writings(value: Decimal) -> Expression:
    """All texts of a number without an exponent."""
    whole, _, digits = f"{abs(value):f}".partition(".")
    digits = digits.rstrip("0")
    zeros = Repetition(literal("0"), 0 if digits else 1, MOST_DIGITS)
    fraction = sequence(literal("." + digits), zeros)
    sign = literal("-") if value < 0 else optional(literal("-")) if value == 0 else EMPTY
    return sequence(sign, literal(whole), fraction if digits else optional(fraction))


def _natural(least: int, most: int) -> Expression:
    """The natural numbers of a range without leading zeros."""
    parts = []
    for digits in range(len(str(least)), len(str(most)) + 1):
        low = max(least, 10 ** (digits - 1) if digits > 1 else 0)
        high = min(most, 10**digits - 1)
        if low <= high:
            parts.append(_between(str(low), str(high)))
    return choice(parts)


def _positive(least: Decimal, most: Decimal, above: bool, below: bool, places: int) -> Expression:
    """Numbers >= 0 of a range."""
    low, high = floor(least), floor(most)
    parts: list[Expression] = []
    first = ceiling(least) + (above and least == low)
    last = high - (below and most == high)
    if first <= last:
        parts.append(_natural(first, last))
    if places == 0:
        return choice(parts)
    point, more = literal("."), Repetition(DIGIT, 1, places)
    inner_first = first if least != low or above else low  # every fraction behind these is in the range
    if inner_first <= high - 1:
        parts.append(sequence(_natural(inner_first, high - 1), point, more))
    for whole in sorted({low, high}):
        starts_inside = whole >= inner_first
        if whole < high and starts_inside:
            continue  # among those above
        least_part = Decimal(0) if whole > least else least - whole
        most_part = Decimal(1) if whole < high else most - whole
        fraction = _fractions(least_part, most_part, above and whole <= least, below, places)
        if fraction is not None:
            parts.append(sequence(literal(str(whole)), point, fraction))
    return choice(parts)


def _fractions(least: Decimal, most: Decimal, above: bool, below: bool, places: int) -> Expression | None:
    """The digits behind the point of numbers from `least` to `most`, both in 0..1; None for none."""
    size = max(1, -min(0, _exponent(least), _exponent(most)))
    parts = []
    for digits in range(1, min(size - 1, places) + 1):  # fewer than the bounds have
        first, last = least.scaleb(digits), most.scaleb(digits)
        low = ceiling(first) + (above and first == ceiling(first))
        high = min(floor(last) - (below and last == floor(last)), 10**digits - 1)
        if low <= high:
            parts.append(_between(f"{low:0{digits}}", f"{high:0{digits}}"))
    if size > places:
        return choice(parts) if parts else None
    scale = Decimal(10) ** size
    low, high = int(least * scale), int(most * scale)
    rest = Repetition(DIGIT, 0, places - size)
    begin = low + 1 if above else low
    if begin <= high - 1:
        parts.append(sequence(_between(f"{begin:0{size}}", f"{high - 1:0{size}}"), rest))
    if above and low < high and places > size:  # the bound itself, and something behind it
        nonzero = sequence(
            Repetition(literal("0"), 0, places - size - 1), OneOf(byte_range(_ZERO + 1, _ZERO + 9))
        )
        parts.append(sequence(literal(f"{low:0{size}}"), nonzero))
    if not below and most < 1 and high >= begin:
        parts.append(literal(f"{high:0{size}}"))
    return choice(parts) if parts else None


def _between(low: str, high: str) -> Expression:
    """Digit strings of one length from `low` to `high`."""
    if not low:
        return EMPTY
    if set(low) == {"0"} and set(high) == {"9"}:
        return Repetition(DIGIT, len(low), len(low))
    first, last, rest = int(low[0]), int(high[0]), len(low) - 1
    if first == last:
        return sequence(literal(low[0]), _between(low[1:], high[1:]))
    parts = [sequence(literal(low[0]), _between(low[1:], "9" * rest))]
    if last - first > 1:
        parts.append(
            sequence(OneOf(byte_range(_ZERO + first + 1, _ZERO + last - 1)), Repetition(DIGIT, rest, rest))
        )
    parts.append(sequence(literal(high[0]), _between("0" * rest, high[1:])))
    return Alternatives(tuple(parts))


def floor(value: Decimal) -> int:
    """The largest integer that is not above a number."""
    return int(value.to_integral_value(ROUND_FLOOR))


def ceiling(value: Decimal) -> int:
    """The smallest integer that is not below a number."""
    return int(value.to_integral_value(ROUND_CEILING))


def _exponent(value: Decimal) -> int:
    exponent = value.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent
