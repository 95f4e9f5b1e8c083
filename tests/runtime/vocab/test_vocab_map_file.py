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


def changed(array: npt.NDArray[Any], at: int, value: int) -> npt.NDArray[Any]:
    copy: npt.NDArray[Any] = array.copy()
    copy[at] = value
    return copy


TOY = toy_map()


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


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(VocabMapError, match=r"nothing\.safetensors is not readable .*; run"):
        load_vocab_map(tmp_path / "nothing.safetensors")


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
