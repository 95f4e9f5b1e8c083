"""The format of a compiled tokenizer, version 1 (spec/02-tokenizer.md): its numbers, sections and values."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from omnidraft.runtime.vocab.code_point_program import Program

MAGIC = b"ODTOKENS"
VERSION = 1
KINDS = ("byte_level", "sentencepiece")
# Magic, version, sections, fingerprint, ids, kind, flags, unknown id, bos id, class of words, classes, 0.
HEADER = struct.Struct("<8sII32sIIIiiiII")
# The sections in their order, and the bytes of an entry of each.
SECTIONS = {
    "offsets": 4, "text": 1, "roles": 1, "sorted": 4, "merge_keys": 8, "merge_values": 8, "byte_ids": 4,
    "model_bytes": 4, "string_offsets": 4, "strings": 1, "added": 12, "ranges": 4, "masks": 8, "code": 12,
    "programs": 8, "steps": 16,
}  # fmt: skip
TABLE = struct.Struct(f"<{2 * len(SECTIONS)}I")  # start and bytes of each section
START = HEADER.size + TABLE.size  # a multiple of 8, as every start is
MOST_BYTES, MOST_IDS, MOST_MERGES, MOST_BYTE_TOKENS = 1 << 30, 1 << 22, 1 << 23, 1 << 10
MOST_STRINGS, MOST_STRING = 1 << 16, 1 << 12  # number of strings, and bytes of one
MOST_STEPS, MOST_PROGRAMS, MOST_CODE, MOST_PROGRAM, MOST_CLASSES = 64, 64, 1 << 13, 512, 64
MOST_GROWTH = 64  # times that steps may lengthen a text, in bytes
MOST_WORK = 2048  # units of work for each byte of a text
NONE = -1  # in place of an id


class ModelFlag(IntFlag):
    """Properties of the model."""

    IGNORE_MERGES = 1  # a word that is a piece is that piece, whatever the merges give
    BYTE_FALLBACK = 2  # a code point without a piece is written byte by byte
    FUSE_UNKNOWN = 4  # neighbouring code points without a piece are one unknown token


class Role(IntEnum):
    """What an id is, and so which bytes it writes."""

    UNUSED = 0  # none
    PIECE = 1  # its text; in a SentencePiece vocabulary U+2581 is a space
    BYTE = 2  # the byte NN of its text <0xNN>
    CONTROL = 3  # none
    ADDED = 4  # its text


class AddedFlag(IntFlag):
    """Properties of an added token."""

    CONTROL = 1
    LSTRIP = 2
    RSTRIP = 4
    NORMALIZED = 8
    SINGLE_WORD = 16


class StepOp(IntEnum):
    """A step of the normaliser (1 to 4) or of the pre-tokenizer (5 to 9); its arguments are a, b and c."""

    NFC = 1  # of the runs of code points of class a
    PREPEND = 2  # string a, where the text is not empty
    REPLACE = 3  # string a by string b
    REPLACE_MATCHES = 4  # the matches of program a by string b
    SPLIT = 5  # each word by program a, with behaviour b; with c = 1 matches and other text change places
    SUBSTITUTE = 6  # string a by string b in each word
    PREFIX = 7  # string a in front of each word that does not begin with it
    PREFIX_FIRST = 8  # the same, where the word is the beginning of the text
    BYTES = 9  # each byte of a word becomes its letter of the GPT-2 alphabet


NORMALISERS = (StepOp.NFC, StepOp.PREPEND, StepOp.REPLACE, StepOp.REPLACE_MATCHES)


class Behaviour(IntEnum):
    """What a split does with its matches."""

    REMOVED = 0
    ISOLATED = 1
    MERGED_WITH_PREVIOUS = 2
    MERGED_WITH_NEXT = 3
    CONTIGUOUS = 4


@dataclass(frozen=True)
class AddedToken:
    """An added token.

    Attributes:
        content: what a text is compared with; normalized already where the flag NORMALIZED is set.
    """

    id: int
    content: str
    flags: int = 0


@dataclass(frozen=True)
class TextStep:
    """A step with its arguments looked up; those that its `op` does not have keep their defaults."""

    op: StepOp
    strings: tuple[str, ...] = ()
    program: Program | None = None
    code_class: int = 0
    behaviour: Behaviour = Behaviour.REMOVED
    invert: bool = False


@dataclass(frozen=True)
class TokenizerTables:
    """The checked contents of a file. The large tables are views of the mapped file.

    Attributes:
        fingerprint: of the vocabulary, as its writer computed it.
        kind: byte_level or sentencepiece.
        unknown_id, bos_id: NONE where there is none.
        word_class: the class of the letters of words; NONE where no added token needs it.
        offsets, text: id i has the text `text[offsets[i]:offsets[i + 1]]`.
        sorted_ids: ids of the model's pieces by ascending text.
        byte_ids: the id that writes each byte alone.
        model_bytes: byte-level: the id of the piece of each byte; SentencePiece: the id of its byte token.
        added: control tokens and other added tokens.
        ranges, masks: code points from ranges[i] to before ranges[i + 1] are in the classes of masks[i].
        steps: of the normaliser, then of the pre-tokenizer.
    """

    fingerprint: str
    kind: str
    flags: int
    unknown_id: int
    bos_id: int
    word_class: int
    offsets: Sequence[int]
    text: memoryview
    roles: Sequence[int]
    sorted_ids: Sequence[int]
    merge_keys: Sequence[int]
    merge_values: Sequence[int]
    byte_ids: Sequence[int]
    model_bytes: Sequence[int]
    added: tuple[AddedToken, ...]
    ranges: Sequence[int]
    masks: Sequence[int]
    steps: tuple[TextStep, ...]

    def text_of(self, token: int, most: int = MOST_BYTES) -> bytes:
        """The text of an id: its piece, or its content; its first `most` bytes."""
        start = self.offsets[token]
        return bytes(self.text[start : min(start + most, self.offsets[token + 1])])
