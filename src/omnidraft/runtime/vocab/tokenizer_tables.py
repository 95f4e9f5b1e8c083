"""The checked contents of a compiled tokenizer (spec/02-tokenizer.md), as values, and the checks."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from omnidraft.errors import TokenizerError
from omnidraft.runtime.vocab.code_point_program import Program
from omnidraft.runtime.vocab.tokenizer_format import (
    MOST_TOKENIZER_BYTES,
    SECTIONS,
    TOKENIZER_MAGIC,
    SplitBehaviour,
    StepOp,
)

Table = npt.NDArray[Any]
Sections = dict[str, memoryview]
MAGIC = TOKENIZER_MAGIC.encode()
KINDS = ("byte_level", "sentencepiece")
# Magic, version, sections, fingerprint, ids, kind, flags, unknown id, bos id, class of words, classes, 0.
HEADER = struct.Struct("<8sII32sIIIiiiII")
TABLE = struct.Struct(f"<{2 * len(SECTIONS)}I")  # start and bytes of each section
NONE = -1  # in place of an id
NORMALISERS = (StepOp.NFC, StepOp.PREPEND, StepOp.REPLACE, StepOp.REPLACE_MATCHES)


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
    behaviour: SplitBehaviour = SplitBehaviour.REMOVED
    invert: bool = False


@dataclass(frozen=True)
class TokenizerTables:
    """The checked contents of a file. The large tables are views of the mapped file.

    Attributes:
        fingerprint: of the vocabulary, as its writer computed it.
        unknown_id, bos_id: NONE where there is none.
        word_class: the class of the letters of words; NONE where no added token needs it.
        offsets, text: id i has the text `text[offsets[i]:offsets[i + 1]]`.
        sorted_ids: ids of the model's pieces by ascending text.
        merge_keys, merge_values: of `MergeTable`.
        byte_ids: the id that writes each byte alone.
        model_bytes: byte-level: the id of the piece of each byte; SentencePiece: the id of its byte token.
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

    def text_of(self, token: int, most: int = MOST_TOKENIZER_BYTES) -> bytes:
        """The text of an id: its piece, or its content; its first `most` bytes."""
        start = self.offsets[token]
        return bytes(self.text[start : min(start + most, self.offsets[token + 1])])


def refuse(fault: str, sentence: str) -> NoReturn:
    """Refuse the file."""
    raise TokenizerError(sentence, fault=fault)


def require(holds: bool, fault: str, sentence: str) -> None:
    """Refuse the file unless it holds."""
    if not holds:
        refuse(fault, sentence)


def table(section: memoryview, kind: str) -> Table:
    """The numbers of a section."""
    return np.frombuffer(section, kind)


def below(values: Table, bound: int) -> bool:
    """Whether all values are below a bound."""
    return not len(values) or int(values.max()) < bound


def offsets_fit(offsets: Table, size: int) -> bool:
    """Whether offsets go from 0 to `size` and never descend."""
    return bool(
        len(offsets) and offsets[0] == 0 and offsets[-1] == size and (offsets[1:] >= offsets[:-1]).all()
    )
