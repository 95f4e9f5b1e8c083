"""The vocabulary map of one drafter and one target: bytes, direct pairs, spellings, expansions.

Built once at export (`export/build_vocab_map.py`) and stored in the bundle as safetensors, so that a phone
needs no drafter tokenizer after the prompt. Method sections 2 and 4.2.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft.errors import VocabMapError
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.disk.tensor_file import Tensor, TensorFileError, read_header, read_tensors

Ids = npt.NDArray[np.int32]
FORMAT, FORMAT_VERSION = "omnidraft.vocab_map", "1"
MAX_FILE_BYTES, MAX_HEADER_BYTES, MAX_IDS = 1 << 28, 1 << 16, 1 << 24
_COLUMNS = 8  # draft tokens of a spelling that are compared for all leaves at once
_BYTES = ("target_bytes", "draft_allowed")  # the tensors of u8; the others are i32
_NAMES = (
    "target_bytes", "target_byte_offsets", "direct", "spellings", "spelling_offsets", "expansions",
    "expansion_offsets", "leaves", "draft_allowed",
)  # fmt: skip


@dataclass(frozen=True)
class Ragged:
    """Rows of unequal length in one array: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: npt.NDArray[np.generic]
    offsets: Ids  # [rows + 1]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, i: int) -> npt.NDArray[np.generic]:
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    @cached_property
    def lengths(self) -> Ids:
        return np.diff(self.offsets).astype(np.int32)


@dataclass(frozen=True)
class VocabMap:
    """How the tokens of a drafter write the tokens of a target.

    Attributes:
        target_bytes: bytes of every target token, empty for control and unused ids.
        direct: target id of each draft token with equal bytes or a paired role, else -1; shape [draft vocab].
        spellings: the draft tokens that write each target token; empty if none can.
        expansions: for a draft token longer than a target token, the target tokens that write it; else empty.
        leaves: target ids in the trie, sorted by their spelling; aliases and unspellable ids are left out.
        draft_allowed: draft ids that the drafter may propose, shape [draft vocab].
        draft_fingerprint, target_fingerprint: SHA-256 of the two tokenizers.
    """

    target_bytes: Ragged
    direct: Ids
    spellings: Ragged
    expansions: Ragged
    leaves: Ids
    draft_allowed: npt.NDArray[np.bool_]
    draft_fingerprint: str
    target_fingerprint: str

    @property
    def draft_size(self) -> int:
        """Width of the drafter's logits."""
        return len(self.direct)

    @property
    def target_size(self) -> int:
        """Width of the target's logits."""
        return len(self.spellings)

    @cached_property
    def leaf_of(self) -> Ids:
        """Trie position of each target id, -1 outside the trie; shape [target vocab]."""
        positions = np.full(self.target_size, -1, dtype=np.int32)
        positions[self.leaves] = np.arange(len(self.leaves), dtype=np.int32)
        return positions

    @cached_property
    def leaf_starts(self) -> Ids:
        """Where each leaf's spelling begins in `spellings.values`; shape [leaves]."""
        return self.spellings.offsets[self.leaves]

    @cached_property
    def leaf_lengths(self) -> Ids:
        """Draft tokens in each leaf's spelling; shape [leaves]."""
        return self.spellings.lengths[self.leaves]

    @cached_property
    def leaf_firsts(self) -> Ids:
        """First draft token of each leaf's spelling, ascending; shape [leaves]."""
        return self.spellings.values[self.leaf_starts].astype(np.int32)

    @cached_property
    def first_offsets(self) -> Ids:
        """Leaves that begin with draft token d are first_offsets[d]:first_offsets[d + 1]."""
        return np.searchsorted(self.leaf_firsts, np.arange(self.draft_size + 1)).astype(np.int32)

    @cached_property
    def direct_pairs(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Draft ids with a direct partner, ascending, and their target ids.

        intp, because numpy converts any other index type at every use.
        """
        drafts = np.flatnonzero(self.direct >= 0)
        return drafts, self.direct[drafts].astype(np.intp)

    def spell(self, target_id: int) -> list[int]:
        """Draft tokens that write a target token; empty if none can."""
        spelling: list[int] = self.spellings.row(target_id).tolist()
        return spelling

    def bytes_of(self, target_id: int) -> bytes:
        """Bytes of a target token; empty for control tokens."""
        return self.target_bytes.row(target_id).tobytes()

    def check_fits(
        self, draft_fingerprint: str, target_fingerprint: str, draft_size: int, target_size: int
    ) -> None:
        """Refuse other vocabularies than the map was built for.

        Raises:
            VocabMapError: it names the side and both values.
        """
        for who, ours, theirs in (
            ("draft vocabulary size", draft_size, self.draft_size),
            ("target vocabulary size", target_size, self.target_size),
            ("draft tokenizer", draft_fingerprint[:12], self.draft_fingerprint[:12]),
            ("target tokenizer", target_fingerprint[:12], self.target_fingerprint[:12]),
        ):
            if ours != theirs:
                raise VocabMapError(
                    f"{who} {ours} does not match the map's {theirs}",
                    "run `omnidraft export` again",
                    fault="foreign_vocabulary",
                )

    def tensors(self) -> dict[str, npt.NDArray[np.generic]]:
        """The arrays of the file, by name."""
        return {
            "target_bytes": self.target_bytes.values,
            "target_byte_offsets": self.target_bytes.offsets,
            "direct": self.direct,
            "spellings": self.spellings.values,
            "spelling_offsets": self.spellings.offsets,
            "expansions": self.expansions.values,
            "expansion_offsets": self.expansions.offsets,
            "leaves": self.leaves,
            "draft_allowed": self.draft_allowed.astype(np.uint8),
        }

    def metadata(self) -> dict[str, str]:
        """The header of the file."""
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "draft_fingerprint": self.draft_fingerprint,
            "target_fingerprint": self.target_fingerprint,
        }


_FINGERPRINT = re.compile("[0-9a-f]{64}")


def load_vocab_map(path: Path) -> VocabMap:
    """Read a vocabulary map, and check every index before its use.

    Raises:
        VocabMapError: with the name of the first fault, in the order of spec/03-bundle.md.
    """
    try:
        return decode_vocab_map(read_whole(path, MAX_FILE_BYTES))
    except OSError as error:
        sentence, fault = f"{path} is not readable ({error.strerror})", "unreadable"
    except VocabMapError as error:
        sentence, fault = f"{path}: {error}", error.fault
    raise VocabMapError(sentence, "run `omnidraft export` again", fault=fault)


def decode_vocab_map(data: bytes) -> VocabMap:
    """The vocabulary map in the bytes of a file."""
    try:
        header, entries, start = read_header(data, MAX_HEADER_BYTES)
        if header.get("format") != FORMAT:
            raise VocabMapError(f"it is {header.get('format')!r:.80}, not {FORMAT}", fault="not_a_map")
        if header.get("version") != FORMAT_VERSION:
            version = f"{header.get('version')!r:.20}"
            raise VocabMapError(f"it has version {version}, not {FORMAT_VERSION}", fault="version")
        arrays = _arrays(read_tensors(data, entries, start))
    except TensorFileError as error:
        fault = "not_a_map" if error.fault == "header" else error.fault
        raise VocabMapError(str(error), fault=fault) from None
    for name in ("draft_fingerprint", "target_fingerprint"):
        if not _FINGERPRINT.fullmatch(header.get(name, "")):
            raise VocabMapError(f"its {name} is not 64 hexadecimal digits", fault="metadata")
    vocab_map = VocabMap(
        target_bytes=Ragged(arrays["target_bytes"], arrays["target_byte_offsets"]),
        direct=arrays["direct"],
        spellings=Ragged(arrays["spellings"], arrays["spelling_offsets"]),
        expansions=Ragged(arrays["expansions"], arrays["expansion_offsets"]),
        leaves=arrays["leaves"],
        draft_allowed=arrays["draft_allowed"].astype(np.bool_),
        draft_fingerprint=header["draft_fingerprint"],
        target_fingerprint=header["target_fingerprint"],
    )
    for fault, problem in _problems(vocab_map, arrays["draft_allowed"]):
        raise VocabMapError(problem, fault=fault)
    return vocab_map


def _arrays(tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The tables of a file as arrays, after all checks of single tables and between them."""
    for name in _NAMES:
        if name not in tensors:
            raise VocabMapError(f"it has no {name!r}", fault="missing_tensor")
    for name, tensor in tensors.items():
        if name not in _NAMES:
            raise VocabMapError(f"it has a tensor {name!r:.80}", fault="extra_tensor")
        if len(tensor.shape) != 1 or tensor.dtype != ("U8" if name in _BYTES else "I32"):
            raise VocabMapError(
                f"{name} is {tensor.dtype} with {len(tensor.shape)} dimensions", fault="dtype"
            )
    return {name: np.frombuffer(t.data, "u1" if name in _BYTES else "<i4") for name, t in tensors.items()}


def _problems(m: VocabMap, allowed: npt.NDArray[np.uint8]) -> Iterator[tuple[str, str]]:
    """Faults of the tables of a map with a sentence each; only the first is meant to be asked for."""
    for name, ragged in _ragged(m).items():
        offsets, count = ragged.offsets, len(ragged.values)
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != count or (offsets[1:] < offsets[:-1]).any():
            yield "offsets", f"the offsets of {name} do not fit its {count} values"
    sizes = (len(m.target_bytes), len(m.spellings)), (len(m.direct), len(m.expansions), len(allowed))
    if any(len(set(group)) != 1 or not 0 < group[0] <= MAX_IDS for group in sizes):
        yield "sizes", f"table sizes {sizes} disagree, or are not from 1 to {MAX_IDS}"
    for name, ids, size in (
        ("direct", m.direct[m.direct != -1], m.target_size),
        ("spellings", m.spellings.values, m.draft_size),
        ("expansions", m.expansions.values, m.target_size),
        ("leaves", m.leaves, m.target_size),
        ("draft_allowed", allowed, 2),
    ):
        if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= size):
            yield "id_range", f"{name} holds an id outside 0..{size - 1}"
    # The index of a target token that occurs twice is that of its last leaf.
    if (m.leaf_of[m.leaves] != np.arange(len(m.leaves))).any() or (m.leaf_lengths < 1).any():
        yield "leaves", "leaves repeat a target token or name one without a spelling"
    if not _sorted_by_spelling(m):
        yield "leaves", "leaves are not sorted by spelling"
    drafts = np.flatnonzero(m.direct >= 0)
    leaves = m.leaf_of[m.direct[drafts]]
    if (leaves < 0).any() or (m.leaf_lengths[leaves] != 1).any() or (m.leaf_firsts[leaves] != drafts).any():
        yield "direct", "direct pairs and leaves disagree"
    if np.count_nonzero(m.leaf_lengths == 1) != len(drafts):
        yield "direct", "a leaf that is spelled by one draft token is no direct pair"


def _ragged(m: VocabMap) -> dict[str, Ragged]:
    return {"target_bytes": m.target_bytes, "spellings": m.spellings, "expansions": m.expansions}


def _sorted_by_spelling(m: VocabMap) -> bool:
    """Whether each leaf's spelling is greater than the one before it."""
    undecided = np.arange(1, len(m.leaves))  # leaves that agree so far with the one before them
    # Column by column while that decides most of them; what is left is compared whole, however long it is.
    for depth in range(_COLUMNS):
        a, b = _column(m, undecided - 1, depth), _column(m, undecided, depth)
        if (a > b).any():
            return False
        undecided = undecided[a == b]
    return all(_is_less(*(m.spellings.row(m.leaves[leaf]) for leaf in (i - 1, i))) for i in undecided)


def _column(m: VocabMap, leaves: npt.NDArray[np.intp], depth: int) -> npt.NDArray[np.int64]:
    """The draft token at a depth in the spellings of some leaves; -1 where a spelling has ended."""
    column = np.full(len(leaves), -1, dtype=np.int64)
    has = m.leaf_lengths[leaves] > depth
    column[has] = m.spellings.values[m.leaf_starts[leaves[has]] + depth]
    return column


def _is_less(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> bool:
    """Whether a spelling comes before another; a beginning of it does."""
    both = min(len(a), len(b))
    differs = np.flatnonzero(a[:both] != b[:both])
    return bool(a[differs[0]] < b[differs[0]]) if len(differs) else len(a) < len(b)
