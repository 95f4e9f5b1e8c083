"""Classes of code points, as the package `tokenizers` has them: its Unicode version counts, not Python's."""

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
from tokenizers import Regex, normalizers, pre_tokenizers

from omnidraft.errors import TokenizerError

SIZE = 0x110000
Members = npt.NDArray[np.bool_]  # of each code point
_ALL = "".join(chr(c) for c in (*range(0xD800), *range(0xE000, SIZE)))  # surrogates are not in any text


@cache
def matched(pattern: str) -> Members:
    """The code points that an expression of one character matches."""
    if pattern in _COMPLEMENTS:
        return _complement(matched(_COMPLEMENTS[pattern]))
    try:
        rest = normalizers.Replace(Regex(f"(?:{pattern})+"), "").normalize_str(_ALL)
    except Exception as error:  # the library raises Exception itself
        raise TokenizerError(f"the regular expression {pattern!r:.200} is not supported ({error})") from None
    return _complement(_members(rest))


_COMPLEMENTS = {r"\S": r"\s", r"\D": r"\d", r"\W": r"\w"}


@cache
def only(character: str) -> Members:
    """One code point."""
    return _members(character)


@cache
def numeric() -> Members:
    """What the node Digits takes for a digit."""
    return _of_runs(pre_tokenizers.Digits(individual_digits=False))


@cache
def punctuation() -> Members:
    """What the node Punctuation takes for punctuation."""
    return _of_runs(pre_tokenizers.Punctuation("contiguous"))


@cache
def word_letters() -> Members:
    """The `\\w` of the node Whitespace, and of added tokens that are single words."""
    return _of_runs(pre_tokenizers.Whitespace(), joins=True)


@cache
def white_space() -> Members:
    """What the nodes Whitespace and WhitespaceSplit take for white space."""
    words = pre_tokenizers.WhitespaceSplit().pre_tokenize_str(_ALL)
    return _complement(_members("".join(word for word, _ in words)))


@cache
def normalised() -> Members:
    """The code points that take part in NFC: they compose, decompose or have a combining class.

    All others, also those that the library's Unicode version does not know, stay as they are and never move.
    """
    own = [each for each in _ALL if each != "\n"]
    decomposed = normalizers.NFD().normalize_str("\n".join(own)).split("\n")
    changed = [one + other for one, other in zip(own, decomposed, strict=True) if one != other]
    # U+0345 has the largest combining class, so every other mark moves in front of it.
    moved = normalizers.NFD().normalize_str("\n".join("\u0345" + each for each in own)).split("\n")
    marks = [each[0] for each in moved if each[0] != "\u0345"]
    return _members("".join([*changed, *marks, "\u0345"]))


def _of_runs(node: object, *, joins: bool = False) -> Members:
    """The code points of a node that cuts text into runs of members and runs of other code points.

    The first code point of a run is tried beside the letter a: a member is cut off, or (`joins`) is not.
    """
    split: Callable[[str], list[tuple[str, tuple[int, int]]]] = node.pre_tokenize_str  # type: ignore[attr-defined]
    runs = [run for run, _ in split(_ALL)]
    return _members("".join(run for run in runs if (len(split("a" + run[0])) == 1) == joins))


def _members(text: str) -> Members:
    members = np.zeros(SIZE, dtype=np.bool_)
    members[np.frombuffer(text.encode("utf-32-le"), dtype="<u4")] = True
    return members


def _complement(members: Members) -> Members:
    others = ~members
    others[0xD800:0xE000] = False
    return others
