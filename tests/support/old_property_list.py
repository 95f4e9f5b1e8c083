"""A reader of the property lists of Xcode's project files: braces, brackets, words and quoted strings."""

from __future__ import annotations

import re
from typing import TypeAlias

Value: TypeAlias = "str | list[Value] | dict[str, Value]"

_TOKEN = re.compile(
    r'\s+|//[^\n]*|/\*.*?\*/|(?P<mark>[{}()=;,])|"(?P<text>(?:[^"\\]|\\.)*)"|(?P<word>[\w./$:]+)', re.DOTALL
)
_ESCAPES = {"n": "\n", "t": "\t"}


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError(f"{text[at : at + 20]!r} at character {at} is not part of a property list")
            if found.lastgroup is not None:
                self.tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        self.at = 0

    def take(self, mark: str = "") -> tuple[str, str]:
        """The next token; a mark that must be there is asked for."""
        if self.at == len(self.tokens):
            raise ValueError("the property list ends too early")
        kind, text = self.tokens[self.at]
        if mark and (kind, text) != ("mark", mark):
            raise ValueError(f"token {self.at} is {text!r} and not {mark!r}")
        self.at += 1
        return kind, text

    def string(self) -> str:
        kind, text = self.take()
        if kind == "mark":
            raise ValueError(f"token {self.at} is {text!r} and not a string")
        if kind == "word":
            return text
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)

    def ends(self, mark: str) -> bool:
        """Whether the next token is the mark, which is taken then."""
        ends = self.at < len(self.tokens) and self.tokens[self.at] == ("mark", mark)
        self.at += ends
        return ends

    def value(self) -> Value:
        if self.ends("{"):
            return self.mapping()
        if not self.ends("("):
            return self.string()
        items: list[Value] = []
        while not self.ends(")"):
            items.append(self.value())
            if not self.ends(","):
                self.take(")")
                break
        return items

    def mapping(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        while not self.ends("}"):
            name = self.string()
            if name in found:
                raise ValueError(f"the name {name} is there twice")
            self.take("=")
            found[name] = self.value()
            self.take(";")
        return found


def parse(text: str) -> Value:
    """The value that a property list has.

    Raises:
        ValueError: it is not a property list, or a name is there twice.
    """
    reader = _Reader(text)
    value = reader.value()
    if reader.at != len(reader.tokens):
        raise ValueError(f"{reader.tokens[reader.at][1]!r} follows the end of the property list")
    return value
