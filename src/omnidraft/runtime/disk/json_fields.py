"""Checked fields of parsed JSON: each function returns a value of its kind, or raises ValueError.

The reader of a file turns the ValueError into a refusal of that file.
"""

import re
import sys
from typing import Any

from omnidraft.runtime.disk.strict_json import number_of

_LARGEST = sys.float_info.max
MOST_ITEMS = 1 << 20


def text(value: object, most: int = 1 << 22) -> str:
    """A string of at most `most` bytes of UTF-8; half of a surrogate pair is refused, as it has no UTF-8."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is not a string")
    size = len(value.encode())  # UnicodeEncodeError is a ValueError
    if size > most:
        raise ValueError(f"a string has {size} bytes, more than {most}")
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


def real(value: object, least: float, most: float) -> float:
    """A float from `least` to `most`, written as the 16 hexadecimal digits of its bits."""
    return number(number_of(hexadecimal(value, 16)), least, most)


def array(value: object, most: int = MOST_ITEMS, least: int = 0) -> list[Any]:
    """A list of `least` to `most` items, which are unchecked."""
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.80} is not an array")
    if not least <= len(value) <= most:
        raise ValueError(f"an array has {len(value)} items, not {least} to {most}")
    return value


def ids(value: object, most: int = MOST_ITEMS) -> tuple[int, ...]:
    """A list of token ids, 0 to 2^31 - 1."""
    return tuple(integer(each, 0) for each in array(value, most))


def mapping(value: object, most: int = MOST_ITEMS) -> dict[str, Any]:
    """An object of at most `most` names, its values unchecked."""
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.80} is not an object")
    if len(value) > most:
        raise ValueError(f"an object has {len(value)} names, more than {most}")
    return value
