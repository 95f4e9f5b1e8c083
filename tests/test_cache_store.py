"""Caches on disk: read or started anew, written over what is ours and beside what is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cache_files import INVALID, build
from omnidraft.errors import CacheFileError
from omnidraft.runtime.cache_file import decode, encode
from omnidraft.runtime.cache_store import open_cache, read_table, refused_name, wipe, write_cache, write_table
from omnidraft.runtime.cache_table import check_against
from omnidraft.runtime.ngram_cache import NgramCache
from omnidraft.runtime.vocab_map import Ragged, VocabMap
from tables import TOY, table
from toy import TARGET, toy_map

FLAKE, FO = TARGET.index("FLAKE"), TARGET.index("FO")


def test_a_cache_is_saved_and_opened(tmp_path: Path) -> None:
    cache = NgramCache(TOY)
    cache.learn([FLAKE, FO], 1)
    write_cache(tmp_path / "c", cache)
    found, notice = open_cache(tmp_path / "c", TOY)
    assert notice is None
    assert found.entries() == cache.entries()
    assert found.replica == cache.replica > 2**62 // 2**22  # a time, shifted
    assert encode(found.table()) == (tmp_path / "c").read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_no_file_is_an_empty_cache_and_no_notice(tmp_path: Path) -> None:
    found, notice = open_cache(tmp_path / "c", TOY, capacity=7, policy="lru")
    assert (len(found), notice, found.capacity, found.policy) == (0, None, 7, "lru")


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


@pytest.mark.parametrize("name", INVALID)
def test_a_refused_file_is_one_sentence_and_an_empty_cache(name: str, tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(INVALID[name][1])
    found, notice = open_cache(path, TOY)
    assert len(found) == 0
    assert notice is not None and notice.startswith(f"starting with an empty cache: {path} is refused: it")
    assert "; " in notice and "\n" not in notice
    with pytest.raises(CacheFileError) as caught:
        read_table(path, TOY)
    assert caught.value.fault == INVALID[name][0]


@pytest.mark.parametrize("spoil", [make_directory, make_loop])
def test_what_is_no_file_is_unreadable(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(build())
    spoil(path)
    found, notice = open_cache(path, TOY)
    assert len(found) == 0
    assert notice is not None and ("cannot be read" in notice or "is no file" in notice)
    with pytest.raises(CacheFileError) as caught:
        read_table(path)
    assert caught.value.fault == "unreadable"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c")
    with pytest.raises(CacheFileError, match="is no file"):
        read_table(tmp_path / "c")


@pytest.mark.parametrize("name", ["another kind", "version 2", "another target"])
def test_what_is_not_ours_is_put_aside_before_writing(name: str, tmp_path: Path) -> None:
    path, cache = tmp_path / "c", NgramCache(TOY)
    path.write_bytes(INVALID[name][1])
    write_cache(path, cache)
    assert refused_name(path).read_bytes() == INVALID[name][1]
    assert len(read_table(path, TOY)) == 0


@pytest.mark.parametrize("name", ["a bit of a section", "empty", "the last byte missing"])
def test_a_damaged_file_of_ours_is_replaced(name: str, tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(INVALID[name][1])
    write_table(path, table())
    assert path.read_bytes() == build()
    assert not refused_name(path).exists()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for path in (tmp_path / "no" / "c", tmp_path / "d", Path("\0")):
        with pytest.raises(CacheFileError, match="choose another place") as caught:
            write_table(path, table())
        assert caught.value.fault == "unwritable"
    assert [p.name for p in tmp_path.iterdir()] == ["d"]
    assert not list((tmp_path / "d").iterdir())


def test_wiping_takes_the_leftovers_and_leaves_what_is_no_cache(tmp_path: Path) -> None:
    path, other = tmp_path / "c", tmp_path / "essay.txt"
    write_table(path, table())
    other.write_text("mine")
    (tmp_path / f".c.{'0' * 16}.tmp").write_bytes(b"half")
    (tmp_path / ".c.notes.tmp").write_text("mine too")
    assert wipe(path) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == [".c.notes.tmp", "essay.txt"]
    with pytest.raises(CacheFileError, match="no n-gram cache, so it stays"):
        wipe(other)
    with pytest.raises(CacheFileError, match="cannot be wiped"):
        wipe(path)
    assert other.read_text() == "mine"


def test_a_map_of_wider_logits_takes_the_same_cache() -> None:
    """Models of other sizes pad the same tokenizer to other widths, and share what was learned."""
    base = toy_map()
    spellings = Ragged(base.spellings.values, np.append(base.spellings.offsets, base.spellings.offsets[-1]))
    wider = VocabMap(**{**base.__dict__, "spellings": spellings})
    check_against(decode(build()), wider)
    assert len(NgramCache.of_table(decode(build()), wider)) == 4
