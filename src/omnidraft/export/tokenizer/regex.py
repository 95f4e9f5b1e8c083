"""Read a regular expression of a pre-tokenizer: the part of Oniguruma's syntax that tokenizers use.

Whatever is not read here is refused by name, so a program never differs silently from the expression.
"""

import re
from dataclasses import dataclass

from omnidraft.errors import TokenizerError

MOST_REPEATS = 64
# Sequences of letters that a single code point can stand for where case is ignored, such as U+FB01 for "fi".
_FOLDED = re.compile("ff|fi|fl|st|ss")
_CONTROL_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "v": "\v", "f": "\f", "a": "\a", "e": "\x1b"}
_CLASS_ESCAPES = "sSdDwWhH"
_INTERVAL = re.compile(r"\{(\d*)(,?)(\d*)\}")
_PROPERTY = re.compile(r"\\[pP]\{\^?[A-Za-z0-9_ =-]+\}")
_NUMBER = re.compile(r"\\(?:x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4}))")


@dataclass(frozen=True)
class CodePoint:
    """One code point of a class. `pattern` is the class as Oniguruma reads it, `single` the one it holds."""

    pattern: str
    single: str = ""


@dataclass(frozen=True)
class Sequence:
    """Parts one after the other."""

    parts: tuple["Node", ...]


@dataclass(frozen=True)
class Choice:
    """The first alternative with which the rest matches, too."""

    parts: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    """A part `least` to `most` times (None: any number); `style` is greedy, lazy or possessive."""

    part: "Node"
    least: int
    most: int | None
    style: str = "greedy"


@dataclass(frozen=True)
class Look:
    """Whether a code point of a class is `ahead` of a position or before it, or (negated) is not."""

    part: CodePoint
    ahead: bool
    negated: bool


Node = CodePoint | Sequence | Choice | Repeat | Look


def literal(text: str) -> Node:
    """A text that matches itself."""
    return Sequence(tuple(CodePoint(re.escape(each), each) for each in text))


def parse_regex(pattern: str) -> Node:
    """The tree of an expression."""
    reader = _Reader(pattern)
    node = reader.choice(ignore_case=False)
    if reader.at < len(pattern):
        raise reader.refusal("a bracket without its partner")
    if least_length(node) == 0:
        raise reader.refusal("a match of no characters")
    return node


def least_length(node: Node) -> int:
    """The number of code points of a node's shortest match."""
    if isinstance(node, CodePoint):
        return 1
    if isinstance(node, Sequence):
        return sum(map(least_length, node.parts))
    if isinstance(node, Choice):
        return min(map(least_length, node.parts))
    return node.least * least_length(node.part) if isinstance(node, Repeat) else 0


class _Reader:
    """A pattern, and the position of the next character to read."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0

    def refusal(self, what: str) -> TokenizerError:
        return TokenizerError(f"{what} in the regular expression {self.pattern!r:.200} is not supported")

    def takes(self, text: str) -> bool:
        """Whether the pattern goes on with a text, which is then read."""
        found = self.pattern.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def choice(self, *, ignore_case: bool) -> Node:
        """Alternatives up to a closing bracket or the end. `(?i)` holds up to there, also in alternatives."""
        alternatives: list[Node] = []
        parts: list[Node] = []
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            if self.takes("|"):
                alternatives.append(self._joined(parts, ignore_case))
                parts = []
            elif self.takes("(?i)"):
                if alternatives or parts:
                    raise self.refusal("(?i) that is not at the beginning")
                ignore_case = True
            else:
                parts.append(self._repeated(ignore_case))
        alternatives.append(self._joined(parts, ignore_case))
        return alternatives[0] if len(alternatives) == 1 else Choice(tuple(alternatives))

    def _joined(self, parts: list[Node], ignore_case: bool) -> Node:
        letters = "".join(p.single.lower() if isinstance(p, CodePoint) else " " for p in parts)
        if ignore_case and _FOLDED.search(letters):
            raise self.refusal("a sequence of letters that one letter can stand for where case is ignored")
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, ignore_case: bool) -> Node:
        part = self._atom(ignore_case)
        bounds = self._bounds()
        if bounds is None:
            return part
        style = "greedy"
        if bounds[2]:  # only *, + and ? have forms with a second sign
            style = "possessive" if self.takes("+") else "lazy" if self.takes("?") else "greedy"
        if self.at < len(self.pattern) and (self.pattern[self.at] in "*+?" or self._interval()):
            raise self.refusal("a quantifier of a quantifier")
        if least_length(part) == 0:
            raise self.refusal("a repetition of what can be empty")
        if style == "possessive" and not isinstance(part, CodePoint):
            raise self.refusal("a possessive repetition of more than one character")
        return Repeat(part, bounds[0], bounds[1], style)

    def _interval(self) -> "re.Match[str] | None":
        found = _INTERVAL.match(self.pattern, self.at)
        return found if found and (found[1] or found[3]) else None

    def _bounds(self) -> tuple[int, int | None, bool] | None:
        """Least and most repetitions, and whether a second sign may follow; None without a quantifier."""
        for sign, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self.takes(sign):
                return least, most, True
        found = self._interval()
        if found is None:
            return None
        self.at = found.end()
        least = int(found[1] or 0)
        upper = int(found[3]) if found[3] else None if found[2] else least
        if least > MOST_REPEATS or (upper is not None and not least <= upper <= MOST_REPEATS):
            raise self.refusal(f"the repetition {found[0]}")
        return least, upper, False

    def _atom(self, ignore_case: bool) -> Node:
        character = self.pattern[self.at]
        if character == "(":
            return self._group(ignore_case)
        if character == "[":
            return self._bracket(ignore_case)
        if character == "\\":
            return self._escape(ignore_case)
        self.at += 1
        if character == ".":
            return CodePoint(".")
        if character in "^$":  # they match at the beginning and the end of each line
            return Look(CodePoint("[^\\n]"), ahead=character == "$", negated=True)
        if character in "*+?":
            raise self.refusal(f"a {character} that repeats nothing")
        return self._single(character, ignore_case)

    def _single(self, character: str, ignore_case: bool) -> CodePoint:
        if not ignore_case:
            return CodePoint(re.escape(character), character)
        if not character.isascii():
            raise self.refusal(f"{character!r} where case is ignored")
        return CodePoint(f"(?i:{re.escape(character)})", character)

    def _group(self, ignore_case: bool) -> Node:
        for opening, ahead, negated in (
            ("(?=", True, False), ("(?!", True, True), ("(?<=", False, False), ("(?<!", False, True)
        ):  # fmt: skip
            if self.takes(opening):
                inside = self._inside(ignore_case)
                if not isinstance(inside, CodePoint):
                    raise self.refusal(f"{opening}...) around more than one character")
                return Look(inside, ahead, negated)
        if self.takes("(?i:"):
            return self._inside(ignore_case=True)
        if self.takes("(?-i:"):
            return self._inside(ignore_case=False)
        if not self.takes("(?:"):
            self.at += 1
            if self.pattern.startswith("?", self.at):
                raise self.refusal(f"{self.pattern[self.at - 1 : self.at + 3]!r}")
        return self._inside(ignore_case)

    def _inside(self, ignore_case: bool) -> Node:
        node = self.choice(ignore_case=ignore_case)
        if not self.takes(")"):
            raise self.refusal("a bracket without its partner")
        return node

    def _bracket(self, ignore_case: bool) -> CodePoint:
        start, depth = self.at, 0
        while self.at < len(self.pattern):
            character = self.pattern[self.at]
            depth += (character == "[") - (character == "]")
            self.at += 2 if character == "\\" else 1
            if depth == 0:
                text = self.pattern[start : self.at]
                if not ignore_case:
                    return CodePoint(text)
                if not re.fullmatch(r"\[[A-Za-z0-9'-]+\]", text):
                    raise self.refusal(f"the class {text} where case is ignored")
                return CodePoint(f"(?i:{text})")
        raise self.refusal("a [ without its partner")

    def _escape(self, ignore_case: bool) -> Node:
        rest = self.pattern[self.at + 1 : self.at + 2]
        if rest in ("A", "z"):
            self.at += 2
            return Look(CodePoint(r"[\s\S]"), ahead=rest == "z", negated=True)
        for form in (_PROPERTY, _NUMBER):
            if found := form.match(self.pattern, self.at):
                self.at = found.end()
                if form is _NUMBER:
                    return self._single(chr(int(next(filter(None, found.groups())), 16)), ignore_case)
                if ignore_case:
                    raise self.refusal(f"{found[0]} where case is ignored")
                return CodePoint(found[0])
        self.at += 2
        if rest and rest in _CLASS_ESCAPES:
            return CodePoint("\\" + rest)
        if rest in _CONTROL_ESCAPES:
            return self._single(_CONTROL_ESCAPES[rest], ignore_case)
        if not rest or rest.isalnum():
            raise self.refusal(f"\\{rest}")
        return self._single(rest, ignore_case)
