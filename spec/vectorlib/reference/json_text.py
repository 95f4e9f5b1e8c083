"""JSON that has one way to be written: spec/09-session.md. Numbers with a fraction are text, `bits`."""

import struct
from typing import Any


def dump(value: Any) -> bytes:
    """The bytes of null, booleans, integers, strings, lists and dicts; names in the order of the dict."""
    return _text(value).encode()


def bits(number: float) -> str:
    """The IEEE-754 binary64 bits of a number, the highest first, in 16 hexadecimal digits."""
    return struct.pack(">d", number).hex()


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + "".join(map(_character, value)) + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    assert isinstance(value, dict), f"{value!r} has no form"
    return "{" + ",".join(f"{_text(name)}:{_text(each)}" for name, each in value.items()) + "}"


def _character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return f"\\u{ord(character):04x}" if character < " " else character
