"""Regular expressions as expressions of bytes: what ECMA-262 and Python's `re` write alike.

Literals, `.`, classes, `\\d \\w \\s` (ASCII), groups, `|`, `* + ? {m,n}` and, at the ends, `^ $`. The rest
(look-around, back references, word boundaries, flags) is refused by name. `\\S` leaves out every space of
Unicode that one of both takes for one.
"""

from collections.abc import Callable

from omnidraft.errors import GrammarError
from omnidraft.grammar.expression import (
    Expression,
    Points,
    Repetition,
    choice,
    complement,
    points,
    sequence,
)

MOST_PATTERN, MOST_REPEAT, MOST_DEPTH = 4096, 1000, 50
_DIGITS = points([(0x30, 0x39)])
_WORD = points([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_SPACE = points([(9, 13), (32, 32)])
_ANY_SPACE = points([
    (9, 13), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029),
    (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
])  # fmt: skip
_CLASSES = {"d": _DIGITS, "D": complement(_DIGITS), "w": _WORD, "W": complement(_WORD)}
_CONTROLS = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "0": 0}
_LINE_ENDS = points([(10, 10), (13, 13), (0x2028, 0x2029)])
ANY = points([(0, 0x10FFFF)])

Encode = Callable[[Points], Expression]  # writes one code point of a set


def parse_regex(pattern: str, encode: Encode, *, anchored: bool, outer: bool = False) -> Expression:
    """The texts that a pattern matches.

    Args:
        pattern: the regular expression.
        encode: how a code point is written: in UTF-8, or as in a JSON string.
        anchored: the whole text must match; else a part of it, as in JSON Schema.
        outer: rather too many texts than too few, where ECMA-262 and Python differ: for texts to leave out.

    Raises:
        GrammarError: naming what is not supported.
    """
    if len(pattern) > MOST_PATTERN:
        raise GrammarError(
            f"the pattern has {len(pattern)} characters, at most {MOST_PATTERN} are read", "shorten it"
        )
    return _Parser(pattern, encode, anchored, outer).parse()


class _Parser:
    def __init__(self, pattern: str, encode: Encode, anchored: bool, outer: bool) -> None:
        self._pattern, self._encode, self._anchored = pattern, encode, anchored
        self._at, self._outer = 0, outer

    def parse(self) -> Expression:
        whole = self._choice(0)
        if self._at < len(self._pattern):
            raise self._refused("a ) without its (")
        return whole

    def _choice(self, depth: int) -> Expression:
        """Alternatives; at the top each is anchored at its own ends."""
        if depth > MOST_DEPTH:
            raise self._refused(f"groups deeper than {MOST_DEPTH}")
        parts = [self._sequence(depth)]
        while self._next("|"):
            parts.append(self._sequence(depth))
        return choice(parts)

    def _sequence(self, depth: int) -> Expression:
        anywhere = Repetition(self._encode(ANY), 0, None)
        begins, ends = self._anchored or depth > 0, self._anchored or depth > 0
        parts: list[Expression] = []
        if self._next("^"):
            if depth:
                raise self._refused("^ inside a group")
            begins = True
        while self._at < len(self._pattern) and self._peek() not in "|)":
            if self._peek() == "$":
                self._at += 1
                if depth or (self._at < len(self._pattern) and self._peek() not in "|"):
                    raise self._refused("$ before the end")
                ends = True
                break
            parts.append(self._repeated(depth))
        return sequence(*([] if begins else [anywhere]), *parts, *([] if ends else [anywhere]))

    def _repeated(self, depth: int) -> Expression:
        part = self._atom(depth)
        while self._at < len(self._pattern) and self._peek() in "*+?{":
            mark = self._peek()
            self._at += 1
            if mark == "{":
                least, most = self._counts()
            else:
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[mark]
            if self._at < len(self._pattern) and self._peek() in "?+":
                if self._peek() == "+":
                    raise self._refused("a possessive quantifier")
                self._at += 1  # a lazy quantifier matches the same texts
            part = Repetition(part, least, most)
        return part

    def _counts(self) -> tuple[int, int | None]:
        end = self._pattern.find("}", self._at)
        first, comma, last = self._pattern[self._at : max(end, self._at)].partition(",")
        if end < 0 or not first.isdecimal() or (last and not last.isdecimal()):
            raise self._refused("a { that is no quantifier (write \\{)")
        self._at = end + 1
        least, most = int(first), int(last) if last else None if comma else int(first)
        if max(least, most or 0) > MOST_REPEAT or (most is not None and most < least):
            raise self._refused(f"a quantifier outside 0..{MOST_REPEAT}")
        return least, most

    def _atom(self, depth: int) -> Expression:
        mark = self._peek()
        self._at += 1
        if mark == "(":
            return self._group(depth)
        if mark == "[":
            return self._encode(self._class())
        if mark == ".":
            return self._encode(complement(_LINE_ENDS))
        if mark == "\\":
            return self._encode(self._escape(in_class=False, outer=self._outer))
        if mark in "*+?{":
            raise self._refused(f"{mark} with nothing before it")
        if mark == "^":
            raise self._refused("^ behind the beginning")
        return self._encode(points([(ord(mark), ord(mark))]))

    def _group(self, depth: int) -> Expression:
        if self._next("?") and not self._next(":"):
            named = self._pattern.startswith(("P<", "<"), self._at)
            name_end = self._pattern.find(">", self._at)
            if not named or self._pattern[self._at : self._at + 2] in ("<=", "<!") or name_end < 0:
                raise self._refused("look-around or a flag")
            self._at = name_end + 1
        inside = self._choice(depth + 1)
        if not self._next(")"):
            raise self._refused("a ( without its )")
        return inside

    def _class(self) -> Points:
        negated = self._next("^")
        found: list[tuple[int, int]] = []
        while True:
            if self._at >= len(self._pattern):
                raise self._refused("a [ without its ]")
            if self._next("]"):
                break
            low = self._member(self._outer != negated)
            if self._pattern.startswith("-", self._at) and not self._pattern.startswith("-]", self._at):
                self._at += 1
                high = self._member(self._outer) if self._at < len(self._pattern) else ()
                if not (_is_single(low) and _is_single(high)) or low[0][0] > high[0][0]:
                    raise self._refused("a range in a class that is none")
                found.append((low[0][0], high[0][0]))
            else:
                found += low
        kept = points(found)
        return complement(kept) if negated else kept

    def _member(self, outer: bool) -> Points:
        mark = self._peek()
        self._at += 1
        if mark == "\\":
            return self._escape(in_class=True, outer=outer)
        return points([(ord(mark), ord(mark))])

    def _escape(self, *, in_class: bool, outer: bool) -> Points:
        if self._at >= len(self._pattern):
            raise self._refused("a \\ at the end")
        mark = self._peek()
        self._at += 1
        if mark in _CLASSES:
            return _CLASSES[mark]
        if mark in "sS":
            spaces = _ANY_SPACE if outer == (mark == "s") else _SPACE
            return spaces if mark == "s" else complement(spaces)
        if mark == "b" and in_class:
            return points([(8, 8)])
        if mark in "xu":
            digits = self._pattern[self._at : self._at + (2 if mark == "x" else 4)]
            if len(digits) < (2 if mark == "x" else 4) or not all(
                c in "0123456789abcdefABCDEF" for c in digits
            ):
                raise self._refused(f"\\{mark} without its hexadecimal digits")
            self._at += len(digits)
            return points([(int(digits, 16), int(digits, 16))])
        if mark in _CONTROLS:
            return points([(_CONTROLS[mark], _CONTROLS[mark])])
        if mark.isalnum():
            raise self._refused(f"\\{mark}")
        return points([(ord(mark), ord(mark))])

    def _peek(self) -> str:
        return self._pattern[self._at]

    def _next(self, text: str) -> bool:
        if self._pattern.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _refused(self, what: str) -> GrammarError:
        remedy = "write it without, or escape the character with a backslash if it is meant itself"
        if what.startswith("\\"):
            remedy = "write the characters as a class, such as [A-Za-z]"
        return GrammarError(
            f"the pattern {self._pattern!r:.80} has {what} at character {self._at}, which is not supported",
            remedy,
        )


def _is_single(members: Points) -> bool:
    return len(members) == 1 and members[0][0] == members[0][1]
