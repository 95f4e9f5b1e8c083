"""The thought of an answer, from the text of 01-tokens.md: with regular expressions over the whole output."""

import re
from typing import Any


def answer_start(output: bytes, tags: dict[str, Any], inside: bool) -> int:
    """The byte at which the answer begins."""
    opened, closed = (re.escape(tags[name].encode()) for name in ("open", "close"))
    before = b"" if inside else rb"[ \t\n\r]*" + opened
    if re.match(before, output, re.DOTALL) is None:
        return 0
    whole = re.match(before + b".*?" + closed, output, re.DOTALL)
    if inside and whole is None:
        whole = re.match(b".*?" + closed, output, re.DOTALL)
    return len(output) if whole is None else whole.end()


def kept_start(output: bytes, tags: dict[str, Any], inside: bool) -> int:
    """The byte at which the part begins that a conversation keeps."""
    if tags["earlier"] == "keep":
        return 0
    start = answer_start(output, tags, inside)
    if start == 0 or tags["earlier"] == "cut":
        return start
    return len(output) - len(output[start:].lstrip(b"\n"))


def parts(texts: list[str], tags: dict[str, Any], inside: bool) -> list[list[list[Any]]]:
    """What is certain after each text, and at the end: [text, is thought] each.

    Of a whole output, what is thought is known; a character is certain once no later text can change it.
    """
    done, said, out = "", 0, list[list[list[Any]]]()
    for text in texts:
        done += text
        certain = _certain(done, tags, inside)
        out.append(_slice(done, said, certain, tags, inside))
        said = max(said, certain)
    return [*out, _slice(done, said, len(done), tags, inside)]


def _certain(text: str, tags: dict[str, Any], inside: bool) -> int:
    """How many characters cannot be the beginning of a tag any more."""
    begun = text.lstrip(" \t\n\r")
    if not inside and not begun.startswith(tags["open"]):
        return 0 if tags["open"].startswith(begun) else len(text)
    if tags["close"] in text:
        return len(text)
    ends = (n for n in range(1, len(tags["close"])) if text.endswith(tags["close"][:n]))
    return len(text) - max(ends, default=0)


def _slice(text: str, start: int, end: int, tags: dict[str, Any], inside: bool) -> list[list[Any]]:
    border = len(text.encode()[: answer_start(text.encode(), tags, inside)].decode())
    cuts = [(text[start : min(end, border)], True), (text[max(start, border) : end], False)]
    return [[part, thought] for part, thought in cuts if part]
