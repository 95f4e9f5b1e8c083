"""Run the steps of a compiled tokenizer on a text: the normaliser, then the pre-tokenizer, which cuts it."""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from omnidraft.runtime.vocab.code_point_program import find_matches
from omnidraft.runtime.vocab.tokenizer_format import SplitBehaviour, StepOp
from omnidraft.runtime.vocab.tokenizer_tables import NORMALISERS, TextStep

_MOST_CACHED = 1 << 15  # code points
# The most bytes of a text for each byte of its NFC: 3.5 in Unicode 14, for U+1FBE U+0308 U+0301.
NFC_SHRINKS = 4
_FIRST_MARK = 0x300  # the first code point that NFC changes or that changes the one before it


class ClassMasks(dict[str, int]):
    """The classes of a character, a bit each, looked up in the ranges of the file and kept for a while."""

    def __init__(self, ranges: Sequence[int], masks: Sequence[int]) -> None:
        super().__init__()
        self._ranges, self._masks = ranges, masks

    def __missing__(self, character: str) -> int:
        mask = self._masks[bisect_right(self._ranges, ord(character)) - 1]
        if len(self) >= _MOST_CACHED:
            self.clear()
        self[character] = mask
        return mask

    def of(self, text: str) -> list[int]:
        """The masks of a text, one for each code point."""
        return list(map(self.__getitem__, text))


def byte_letters() -> list[str]:
    """The GPT-2 byte alphabet: a printable letter for each of the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = iter(range(0x100, 0x200))
    return [chr(b) if b in printable else chr(next(unprintable)) for b in range(256)]


LETTERS = byte_letters()


def may_lose(step: TextStep) -> bool:
    """Whether a step may leave out bytes of a text, other than by NFC."""
    if step.op in (StepOp.REPLACE, StepOp.SUBSTITUTE):
        return len(step.strings[0].encode()) > len(step.strings[1].encode())
    removes = step.op is StepOp.SPLIT and step.behaviour is SplitBehaviour.REMOVED
    return removes or step.op is StepOp.REPLACE_MATCHES


def normalise(steps: Sequence[TextStep], masks: ClassMasks, text: str) -> str:
    """Run the steps of the normaliser on a text."""
    for step in steps:
        if step.op is StepOp.NFC:
            text = _nfc(text, masks, 1 << step.code_class)
        elif step.op is StepOp.PREPEND:
            text = step.strings[0] + text if text else text
        elif step.op is StepOp.REPLACE:
            text = text.replace(step.strings[0], step.strings[1])
        elif step.op is StepOp.REPLACE_MATCHES:
            parts = _matches(step, masks, text)
            text = "".join(step.strings[0] if matched else part for part, matched in parts)
    return text


def words_of(steps: Sequence[TextStep], masks: ClassMasks, text: str, *, at_start: bool) -> list[str]:
    """Run the steps of the pre-tokenizer on a normalised text."""
    words = [text] if text else []
    for step in steps:
        if step.op in NORMALISERS:
            continue
        if step.op is StepOp.SPLIT:
            words = [part for word in words for part in _split(step, masks, word) if part]
        elif step.op is StepOp.SUBSTITUTE:
            words = [word.replace(step.strings[0], step.strings[1]) for word in words]
        elif step.op is StepOp.BYTES:
            words = ["".join([LETTERS[byte] for byte in word.encode()]) for word in words]
        else:
            only_first, prefix = step.op is StepOp.PREFIX_FIRST, step.strings[0]
            words = [
                prefix + word
                if not word.startswith(prefix) and (not only_first or (at_start and index == 0))
                else word
                for index, word in enumerate(words)
            ]
    return words


def _nfc(text: str, masks: ClassMasks, bit: int) -> str:
    """NFC of each run of code points of a class; all others stay as they are.

    Outside the class are the code points that the writer's Unicode version did not know. A newer version
    of the platform would reorder or compose some of them.
    """
    if all(ord(character) < _FIRST_MARK for character in text):
        return text
    done, start = [], 0
    for at, mask in enumerate([*masks.of(text), 0]):
        if not mask & bit:
            done += [unicodedata.normalize("NFC", text[start:at]), text[at : at + 1]]
            start = at + 1
    return "".join(done)


def _matches(step: TextStep, masks: ClassMasks, text: str) -> list[tuple[str, bool]]:
    """A text in parts: matches of the step's program (True), and the text between them."""
    assert step.program is not None
    parts, last = [], 0
    for start, end in find_matches(step.program, masks.of(text)):
        if last < start:
            parts.append((text[last:start], False))
        parts.append((text[start:end], True))
        last = end
    if last < len(text):
        parts.append((text[last:], False))
    return parts


def _split(step: TextStep, masks: ClassMasks, word: str) -> Iterable[str]:
    parts = _matches(step, masks, word)
    if step.invert:
        parts = [(part, not matched) for part, matched in parts]
    if step.behaviour is SplitBehaviour.ISOLATED:
        return [part for part, _ in parts]
    if step.behaviour is SplitBehaviour.REMOVED:
        return [part for part, matched in parts if not matched]
    return _joined(step.behaviour, parts)


def _joined(behaviour: SplitBehaviour, parts: list[tuple[str, bool]]) -> list[str]:
    """Parts after those joins: equal neighbours, or a match with the other text before or after it."""
    backwards = behaviour is SplitBehaviour.MERGED_WITH_NEXT
    words: list[list[str]] = []  # the parts of each, joined at the end: joining one by one would be quadratic
    before = False  # whether the part before this one is a match
    for part, matched in reversed(parts) if backwards else parts:
        joins = matched == before if behaviour is SplitBehaviour.CONTIGUOUS else matched and not before
        if joins and words:
            words[-1].append(part)
        else:
            words.append([part])
        before = matched
    return (
        ["".join(reversed(word)) for word in reversed(words)]
        if backwards
        else ["".join(word) for word in words]
    )
