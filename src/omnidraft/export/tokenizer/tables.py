"""Write the file of a compiled tokenizer: spec/02-tokenizer.md. The same contents give the same bytes."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from omnidraft.errors import TokenizerError
from omnidraft.export.tokenizer.chain import Chain
from omnidraft.export.tokenizer.code_points import SIZE
from omnidraft.runtime.vocab.tokenizer_format import (
    MOST_CODE,
    MOST_STRINGS,
    SECTIONS,
    SECTIONS_START,
    TOKENIZER_VERSION,
    TokenRole,
)
from omnidraft.runtime.vocab.tokenizer_tables import HEADER, KINDS, MAGIC, TABLE


@dataclass(frozen=True)
class TokenizerContents:
    """What a file holds.

    Attributes:
        fingerprint: 64 hexadecimal digits.
        kind: of KINDS.
        flags: of `ModelFlag`.
        unknown_id, bos_id, word_class: NONE for none.
        added: (id, flags, string) of each added token.
        chain: steps, strings, programs and classes.
        pieces: role and text of each id.
        searched: ids of the model's pieces by ascending text.
        merges: rank and merged id of each pair of ids.
        byte_ids, model_bytes: of each byte.
    """

    fingerprint: str
    kind: str
    flags: int
    unknown_id: int
    bos_id: int
    word_class: int
    added: Sequence[tuple[int, int, int]]
    chain: Chain
    pieces: Sequence[tuple[TokenRole, bytes]]
    searched: Sequence[int]
    merges: Mapping[tuple[int, int], tuple[int, int]]
    byte_ids: Sequence[int]
    model_bytes: Sequence[int]


def file_bytes(contents: TokenizerContents) -> bytes:
    """The bytes of the file.

    Raises:
        TokenizerError: more than the format holds.
    """
    sections = _sections(contents)
    assert list(sections) == list(SECTIONS)
    table, start, body = [], SECTIONS_START, []
    for data in sections.values():
        table += [start, len(data)]
        body.append(data + bytes(-len(data) % 8))
        start += len(body[-1])
    header = HEADER.pack(
        MAGIC, TOKENIZER_VERSION, len(SECTIONS), bytes.fromhex(contents.fingerprint), len(contents.pieces),
        KINDS.index(contents.kind), contents.flags, contents.unknown_id, contents.bos_id, contents.word_class,
        len(contents.chain.classes), 0,
    )  # fmt: skip
    return header + TABLE.pack(*table) + b"".join(body)


def _sections(contents: TokenizerContents) -> dict[str, bytes]:
    chain = contents.chain
    texts, strings = [text for _, text in contents.pieces], [each.encode() for each in chain.strings]
    code = [each for program in chain.programs for each in program]
    if len(code) > MOST_CODE or len(strings) > MOST_STRINGS:
        raise TokenizerError("more instructions or strings than the format holds are not supported")
    starts = accumulate((len(program) for program in chain.programs), initial=0)
    places = [(start, len(program)) for start, program in zip(starts, chain.programs, strict=False)]
    merges = sorted(contents.merges.items())
    ranges, masks = _ranges(chain)
    return {
        "offsets": _offsets(texts),
        "text": b"".join(texts),
        "roles": bytes(role for role, _ in contents.pieces),
        "sorted": np.array(contents.searched, dtype="<u4").tobytes(),
        "merge_keys": np.array([left << 32 | right for (left, right), _ in merges], dtype="<u8").tobytes(),
        "merge_values": np.array([value for _, value in merges], dtype="<u4").tobytes(),
        "byte_ids": np.array(contents.byte_ids, dtype="<i4").tobytes(),
        "model_bytes": np.array(contents.model_bytes, dtype="<i4").tobytes(),
        "string_offsets": _offsets(strings),
        "strings": b"".join(strings),
        "added": b"".join(struct.pack("<3I", *each) for each in contents.added),
        "ranges": ranges,
        "masks": masks,
        "code": b"".join(struct.pack("<3I", *each) for each in code),
        "programs": b"".join(struct.pack("<2I", *each) for each in places),
        "steps": b"".join(struct.pack("<4I", *each) for each in chain.steps),
    }


def _offsets(texts: Sequence[bytes]) -> bytes:
    return np.array([0, *accumulate(map(len, texts))], dtype="<u4").tobytes()


def _ranges(chain: Chain) -> tuple[bytes, bytes]:
    """First code points of ranges that have the same classes, and the mask of classes of each."""
    masks = np.zeros(SIZE, dtype="<u8")
    for number, members in enumerate(chain.classes):
        masks[members] |= np.uint64(1 << number)
    starts = np.flatnonzero(np.concatenate([[True], masks[1:] != masks[:-1]])).astype("<u4")
    return starts.tobytes(), masks[starts].tobytes()
