"""Checked fields of parsed JSON: each function returns a value of its kind, or raises ValueError.

The reader of a file turns the ValueError into a refusal of that file.
"""

import re
import sys
from typing import Any

_LARGEST = sys.float_info.max


def text(value: object) -> str:
    """A string; half of a surrogate pair is refused, because it has no UTF-8."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is not a string")
    value.encode()  # UnicodeEncodeError is a ValueError
    return value


def hexadecimal(value: object, digits: int) -> str:
    """A string of exactly this many lower-case hexadecimal digits."""
    if not re.fullmatch(f"[0-9a-f]{{{digits}}}", text(value)):
        raise ValueError(f"{value!r:.80} is not {digits} hexadecimal digits")
    return str(value)


def boolean(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r:.80} is neither true nor false")
    return value


def integer(value: object, least: int, most: int = (1 << 31) - 1) -> int:
    """An integer from `least` to `most`; 1.0 and true are not integers."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r:.80} is not an integer")
    if not least <= value <= most:
        raise ValueError(f"{value!r:.80} is not from {least} to {most}")
    return value


def number(value: object, least: float = -_LARGEST, most: float = _LARGEST) -> float:
    """A number from `least` to `most`; NaN, infinities and integers that no float holds are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r:.80} is not a number")
    if not least <= value <= most:
        raise ValueError(f"{value!r:.80} is not from {least:g} to {most:g}")
    return float(value)


def array(value: object) -> list[Any]:
    """A list, its items unchecked."""
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.80} is not an array")
    return value


def ids(value: object) -> tuple[int, ...]:
    """A list of token ids, 0 to 2^31 - 1."""
    return tuple(integer(each, 0) for each in array(value))


def mapping(value: object) -> dict[str, Any]:
    """An object, its values unchecked."""
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.80} is not an object")
    return value


def check_like(value: Any, own: float | list[float]) -> None:
    """Check a value of a saved state against our own of that name: a count, an amount, or as many amounts.

    Args:
        value: what the file holds.
        own: an int for counts, a float for amounts, a list of floats for a list of the same length.

    Raises:
        ValueError: another kind, another length, negative, or 1e9 and more.
    """
    if isinstance(own, list):
        if len(array(value)) != len(own):
            raise ValueError(f"{len(value)} numbers instead of {len(own)}")
        for each in value:
            check_like(each, 0.0)
    elif isinstance(own, int):
        integer(value, 0, 10**9 - 1)
    elif number(value, 0.0, 1e9) == 1e9:
        raise ValueError(f"{value!r:.20} is not below 1e9")
