"""The vocabulary map's file: read back as it was, checked before it is used, refused for another pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save, save_file
from test_vocab_map import DRAFTER, TARGET

from omnidraft.errors import VocabMapError
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.runtime.vocab.vocab_map import VocabMap, _sorted_by_spelling, decode_vocab_map, load_vocab_map
from support.real_tokenizers import TokenizerOf
from support.toy import ragged, toy_map


def write(vocab_map: VocabMap, path: Path, **changes: npt.NDArray[Any]) -> Path:
    tensors = {**vocab_map.tensors(), **changes}
    save_file(tensors, path, metadata=vocab_map.metadata())
    return path


def equal(a: VocabMap, b: VocabMap) -> bool:
    theirs = b.tensors()
    return a.metadata() == b.metadata() and all(np.array_equal(v, theirs[k]) for k, v in a.tensors().items())


def test_round_trip(tmp_path: Path) -> None:
    for vocab_map in (build_vocab_map(DRAFTER, TARGET), toy_map()):
        assert equal(load_vocab_map(write(vocab_map, tmp_path / "map.safetensors")), vocab_map)


def test_round_trip_of_a_real_map(tokenizer_of: TokenizerOf, tmp_path: Path) -> None:
    vocab_map = build_vocab_map(tokenizer_of("llama2"), tokenizer_of("gpt2"))
    assert equal(load_vocab_map(write(vocab_map, tmp_path / "map.safetensors")), vocab_map)


def changed(array: npt.NDArray[Any], at: int, value: int) -> npt.NDArray[Any]:
    copy: npt.NDArray[Any] = array.copy()
    copy[at] = value
    return copy


TOY = toy_map()
SPOILED: dict[str, tuple[dict[str, npt.NDArray[Any]], str]] = {
    "direct beyond": ({"direct": changed(TOY.direct, 0, 10)}, r"direct holds an id outside 0\.\.9"),
    "direct below": ({"direct": changed(TOY.direct, 0, -2)}, r"direct holds an id outside 0\.\.9"),
    "spelling beyond": (
        {"spellings": changed(TOY.spellings.values, 0, 8)},
        r"spellings holds an id outside 0\.\.7",
    ),
    "spelling below": (
        {"spellings": changed(TOY.spellings.values, 0, -1)},
        r"spellings holds an id outside 0\.\.7",
    ),
    "expansion beyond": (
        {"expansions": changed(TOY.expansions.values, 0, 10)},
        r"expansions holds an id outside 0\.\.9",
    ),
    "leaf beyond": ({"leaves": changed(TOY.leaves, 0, 10)}, r"leaves holds an id outside 0\.\.9"),
    "leaf twice": ({"leaves": changed(TOY.leaves, 0, int(TOY.leaves[1]))}, "leaves repeat a target token"),
    "leaf unspelled": ({"leaves": changed(TOY.leaves, 0, 8)}, "or name one without a spelling"),
    "leaves unsorted": ({"leaves": TOY.leaves[::-1].copy()}, "leaves are not sorted by spelling"),
    "offsets fall": (
        {"spelling_offsets": changed(TOY.spellings.offsets, 1, 9)},
        "the offsets of spellings do not fit its 15 values",
    ),
    "offsets short": (
        {"expansion_offsets": TOY.expansions.offsets[:-3]},
        "the offsets of expansions do not fit|table sizes",
    ),
    "offsets past the end": (
        {"target_byte_offsets": changed(TOY.target_bytes.offsets, -1, 999)},
        "the offsets of target_bytes do not fit",
    ),
    "offsets from one": (
        {"spelling_offsets": changed(TOY.spellings.offsets, 0, 1)},
        "the offsets of spellings do not fit",
    ),
    "no offsets": (
        {"spelling_offsets": np.empty(0, dtype=np.int32)},
        "the offsets of spellings do not fit",
    ),
    "sizes disagree": ({"draft_allowed": np.ones(3, dtype=np.uint8)}, r"table sizes .* disagree"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_a_table_that_does_not_fit_is_refused(tmp_path: Path, case: str) -> None:
    changes, expected = SPOILED[case]
    path = write(TOY, tmp_path / "map.safetensors", **changes)
    with pytest.raises(VocabMapError, match=rf"{path.name}: .*({expected}).*; run `omnidraft export` again"):
        load_vocab_map(path)


def swapped(leaves: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Exchange two leaves whose spellings begin with the same draft token."""
    lengths = TOY.spellings.lengths[leaves]
    at = next(i for i in range(len(leaves) - 1) if lengths[i] > 1 and lengths[i + 1] > 1)
    exchanged: npt.NDArray[np.int32] = leaves.copy()
    exchanged[at], exchanged[at + 1] = leaves[at + 1], leaves[at]
    return exchanged


def test_leaves_in_disorder_below_the_first_token_are_refused(tmp_path: Path) -> None:
    """The trie's binary search would miss children: a wrong distribution, without an error."""
    path = write(TOY, tmp_path / "map.safetensors", leaves=swapped(TOY.leaves))
    with pytest.raises(VocabMapError, match="not sorted"):
        load_vocab_map(path)


@pytest.mark.parametrize(("last", "sorted_right"), [(1, True), (0, False), (-1, False)])
def test_spellings_of_any_length_are_compared(last: int, sorted_right: bool) -> None:
    """Two of a million draft tokens that differ in the last one, not at all, or in the wrong order."""
    long = np.zeros((2, 1_000_000), np.int32)
    long[0, -1], long[1, -1] = max(0, -last), max(0, last)
    rows = [[], *(row.tolist() for row in long)]
    whole = VocabMap(
        ragged([b""] * 3, np.uint8), np.array([-1, -1], np.int32), ragged(rows), ragged([[], []]),
        np.array([1, 2], np.int32), np.array([True, True]), "d" * 64, "e" * 64,
    )  # fmt: skip
    assert _sorted_by_spelling(whole) is sorted_right


@pytest.mark.parametrize("draft", [5, int(TOY.leaf_firsts[-1])])
def test_a_direct_pair_that_is_no_leaf_is_refused(tmp_path: Path, draft: int) -> None:
    """The trie would begin at a draft token that no leaf begins with; or that the last leaf begins with."""
    assert TOY.leaf_lengths[-1] == 1 and TOY.leaf_of[8] == -1
    path = write(TOY, tmp_path / "map.safetensors", direct=changed(TOY.direct, draft, 8))
    with pytest.raises(VocabMapError, match="direct"):
        load_vocab_map(path)


@pytest.mark.parametrize("name", list(TOY.tensors()))
def test_a_table_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    tensors = {k: v for k, v in TOY.tensors().items() if k != name}
    save_file(tensors, tmp_path / "map.safetensors", metadata=TOY.metadata())
    with pytest.raises(VocabMapError, match=f"has no '{name}'; run `omnidraft export` again"):
        load_vocab_map(tmp_path / "map.safetensors")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({"format": "something.else"}, "it is 'something.else', not omnidraft.vocab_map"),
        ({"version": "2"}, "it has version '2', not 1"),
    ],
)
def test_another_format_is_refused(tmp_path: Path, header: dict[str, str], expected: str) -> None:
    path = tmp_path / "map.safetensors"
    save_file(TOY.tensors(), path, metadata={**TOY.metadata(), **header})
    with pytest.raises(VocabMapError, match=f"{expected}; run `omnidraft export` again"):
        load_vocab_map(path)


def test_a_file_without_a_header_is_refused(tmp_path: Path) -> None:
    save_file(TOY.tensors(), tmp_path / "map.safetensors")
    with pytest.raises(VocabMapError, match="it is None, not omnidraft"):
        load_vocab_map(tmp_path / "map.safetensors")


def test_a_header_without_a_fingerprint_is_refused(tmp_path: Path) -> None:
    metadata = {k: v for k, v in TOY.metadata().items() if k != "draft_fingerprint"}
    save_file(TOY.tensors(), tmp_path / "map.safetensors", metadata=metadata)
    with pytest.raises(VocabMapError, match="its draft_fingerprint is not 64 hexadecimal digits"):
        load_vocab_map(tmp_path / "map.safetensors")


@pytest.mark.parametrize("fingerprint", ["t" * 64, "d" * 63, "D" * 64, ""])
def test_a_fingerprint_that_is_none_is_refused(tmp_path: Path, fingerprint: str) -> None:
    path = tmp_path / "map.safetensors"
    save_file(TOY.tensors(), path, metadata={**TOY.metadata(), "target_fingerprint": fingerprint})
    with pytest.raises(VocabMapError, match="fingerprint is not 64 hexadecimal digits"):
        load_vocab_map(path)


def test_no_length_of_a_cut_file_is_taken(tmp_path: Path) -> None:
    whole = write(TOY, tmp_path / "whole.safetensors").read_bytes()
    path = tmp_path / "cut.safetensors"
    for count in [0, 1, 7, 8, 9, *range(10, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:count])
        with pytest.raises(VocabMapError, match=r"it has \d+ bytes"):
            load_vocab_map(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(VocabMapError, match=r"nothing\.safetensors is not readable .*; run"):
        load_vocab_map(tmp_path / "nothing.safetensors")


def test_a_map_fits_the_pair_it_was_built_for() -> None:
    vocab_map = build_vocab_map(DRAFTER, TARGET)
    vocab_map.check_fits(DRAFTER.fingerprint, TARGET.fingerprint, len(DRAFTER), len(TARGET))


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (("d" * 64, "e" * 64, 9, 10), "draft vocabulary size 9 does not match the map's 8"),
        (("d" * 64, "e" * 64, 8, 11), "target vocabulary size 11 does not match the map's 10"),
        (("e" * 64, "e" * 64, 8, 10), "draft tokenizer eeeeeeeeeeee does not match the map's dddddddddddd"),
        (("d" * 64, "f" * 64, 8, 10), "target tokenizer ffffffffffff does not match the map's eeeeeeeeeeee"),
    ],
)
def test_another_pair_is_refused(ours: tuple[str, str, int, int], expected: str) -> None:
    with pytest.raises(VocabMapError, match=f"{expected}; run `omnidraft export` again"):
        toy_map().check_fits(*ours)


WHOLE = save(TOY.tensors(), metadata=TOY.metadata())


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=1, max_size=8), st.integers(0, len(WHOLE)))
def test_the_reader_is_total(noise: bytes, at: int) -> None:
    """A file with any bytes changed is refused, or is a map whose indices all stay inside their tables."""
    try:
        read = decode_vocab_map(WHOLE[:at] + noise + WHOLE[at + len(noise) :])
    except VocabMapError:
        return
    for target in range(read.target_size):
        assert all(0 <= draft < read.draft_size for draft in read.spell(target))
        assert isinstance(read.bytes_of(target), bytes)
    assert len(read.leaf_firsts) == len(read.leaves) and read.draft_size == len(read.draft_allowed)
