"""JSON from outside, read strictly, and JSON that has one way to be written.

Reading bounds the depth and the numbers, and refuses what readers of JSON disagree on: a name that occurs
twice, text after the value, NaN, half a surrogate pair. Writing gives the same bytes in every language: names
in the order of the caller, no spaces, no number with a fraction. spec/03-bundle.md, "JSON".
"""

import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

MAX_DEPTH = 32  # arrays and objects inside each other; the outermost is 1
MAX_CONTAINERS = 1 << 18  # arrays and objects together
MAX_NUMBER = 32  # characters of a number
# A whole string, also one without its end (so that each byte is looked at once), or one bracket.
_TOKEN = re.compile(r'"[^"\\]*(?:\\(?:.|\Z)[^"\\]*)*(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


def parse(data: bytes) -> Any:
    """The value of a JSON text.

    Args:
        data: UTF-8 without a byte order mark; the caller bounds its length.

    Raises:
        ValueError: it is not JSON, is too deep, has a number that is too long or too large for a float, a
            name twice in an object, or half a surrogate pair.
    """
    text = data.decode("utf-8")
    _check_depth(text)
    value = json.loads(
        text,
        object_pairs_hook=_object,
        parse_int=_integer,
        parse_float=_float,
        parse_constant=_no_constant,
    )
    _check_text(value)
    return value


def dump(value: object) -> bytes:
    """The one JSON text of null, booleans, integers, strings, sequences and mappings in their own order.

    Raises:
        TypeError: any other value, such as a float.
        ValueError: half a surrogate pair.
    """
    return _dumped(value).encode("utf-8")


def bits_of(number: float) -> str:
    """A float as text: the 16 hexadecimal digits of its IEEE-754 binary64 bits, the highest first."""
    return struct.pack(">d", number).hex()


def number_of(bits: str) -> float:
    """The float of 16 hexadecimal digits."""
    return float(struct.unpack(">d", bytes.fromhex(bits))[0])


def _dumped(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f'"{_ESCAPED.sub(_escape, value)}"'
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_dumped(str(k))}:{_dumped(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(map(_dumped, value)) + "]"
    raise TypeError(f"{type(value).__name__} has no form in JSON here")


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return f"\\{character}" if character in '"\\' else f"\\u{ord(character):04x}"


def _check_depth(text: str) -> None:
    depth = opened = 0
    for match in _TOKEN.finditer(text):
        first = match.group()[0]
        depth += (first in "[{") - (first in "]}")
        opened += first in "[{"
        if depth > MAX_DEPTH:
            raise ValueError(f"its arrays and objects are nested more than {MAX_DEPTH} deep")
        if opened > MAX_CONTAINERS:
            raise ValueError(f"it has more than {MAX_CONTAINERS} arrays and objects")


def _check_text(value: object) -> None:
    """Refuse half a surrogate pair, which has no UTF-8; the depth is bounded."""
    if isinstance(value, str):
        value.encode("utf-8")  # UnicodeEncodeError is a ValueError
    elif isinstance(value, dict):
        for name, each in value.items():
            _check_text(name)
            _check_text(each)
    elif isinstance(value, list):
        for each in value:
            _check_text(each)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError(f"an object has {len(pairs)} names, some of them twice")
    return value


def _integer(digits: str) -> int:
    return int(_bounded(digits))


def _float(digits: str) -> float:
    number = float(_bounded(digits))
    if not math.isfinite(number):
        raise ValueError(f"the number {digits} is too large")
    return number


def _bounded(digits: str) -> str:
    if len(digits) > MAX_NUMBER:
        raise ValueError(f"a number has {len(digits)} characters, more than {MAX_NUMBER}")
    return digits


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
