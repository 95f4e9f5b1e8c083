"""Caches on disk: read or started empty; a file of ours is replaced, any other file is kept."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.cache_file import decode, encode
from omnidraft.runtime.vocab.cache_store import (
    check_cache_place,
    check_place,
    is_of_another_pair,
    open_cache,
    read_table,
    wipe,
    write_cache,
    write_table,
)
from omnidraft.runtime.vocab.cache_table import check_against
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import Ragged, VocabMap
from support.cache_files import INVALID, build
from support.closed_directory import closed
from support.tables import TOY, table
from support.toy import TARGET, toy_map

FLAKE, FO = TARGET.index("FLAKE"), TARGET.index("FO")


def test_a_cache_is_saved_and_opened(tmp_path: Path) -> None:
    cache = NgramCache(TOY)
    cache.learn([FLAKE, FO], 1)
    write_cache(tmp_path / "c", cache)
    opened, notice = open_cache(tmp_path / "c", TOY)
    assert notice is None
    assert opened.entries() == cache.entries()
    assert encode(opened.table()) == (tmp_path / "c").read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_no_file_is_an_empty_cache_and_no_notice(tmp_path: Path) -> None:
    cache, notice = open_cache(tmp_path / "c", TOY, capacity=7)
    assert (len(cache), notice, cache.capacity) == (0, None, 7)


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
    cache, notice = open_cache(path, TOY)
    assert len(cache) == 0
    assert notice is not None and notice.startswith(f"starting with an empty cache: {path} is refused: it")
    keeps = "saving replaces it" if name == "empty" else "saving keeps it under another name"
    if INVALID[name][0] in ("not_a_cache", "foreign_vocabulary") and name != "empty":
        keeps = "it is left alone, and nothing is saved there"
    assert notice.endswith(f"; {keeps}") and "\n" not in notice
    with pytest.raises(CacheFileError) as caught:
        read_table(path, TOY)
    assert caught.value.fault == INVALID[name][0]


@pytest.mark.parametrize("spoil", [make_directory, make_loop])
def test_what_is_no_file_is_unreadable(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(build())
    spoil(path)
    cache, notice = open_cache(path, TOY)
    assert len(cache) == 0
    assert notice is not None and ("cannot be read" in notice or "is not a regular file" in notice)
    with pytest.raises(CacheFileError) as caught:
        read_table(path)
    assert caught.value.fault == "unreadable"


def test_a_directory_without_permission_is_one_sentence_and_an_empty_cache(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    with closed(tmp_path / "closed"):
        cache, notice = open_cache(tmp_path / "closed/c", TOY)
    assert len(cache) == 0
    assert notice is not None and notice.endswith("(Permission denied); check the path and its permissions")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c")
    with pytest.raises(CacheFileError, match="is not a regular file"):
        read_table(tmp_path / "c")


DAMAGED = ["version 1", "a bit of a section", "the last byte missing"]
NOT_OURS = {"another kind": "not_a_cache", "another target": "foreign_vocabulary"}


@pytest.mark.parametrize("name", NOT_OURS)
def test_what_is_not_ours_is_left_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(INVALID[name][1])
    with pytest.raises(CacheFileError, match="so it is left alone") as caught:
        write_cache(path, NgramCache(TOY))
    assert caught.value.fault == NOT_OURS[name]
    assert [p.name for p in tmp_path.iterdir()] == ["c"] and path.read_bytes() == INVALID[name][1]
    assert is_of_another_pair(path, TOY) is (name == "another target")
    if name == "another target":
        check_cache_place(path)  # what it is a cache of is known when the bundle is loaded
        return
    with pytest.raises(CacheFileError, match="is not an n-gram cache, so it is left alone"):
        check_cache_place(path)


def test_a_damaged_cache_is_put_aside_under_names_of_its_own(tmp_path: Path) -> None:
    path, cache = tmp_path / "c", NgramCache(TOY)
    for number, name in enumerate(DAMAGED, 1):
        path.write_bytes(INVALID[name][1])
        kept = write_cache(path, cache)
        assert kept == tmp_path / ("c.refused" if number == 1 else f"c.refused-{number}")
        assert len(read_table(path, TOY)) == 0
    assert write_cache(path, cache) is None, "a cache of ours is replaced"
    assert [(tmp_path / f"c.refused{n}").read_bytes() for n in ("", "-2", "-3")] == [
        INVALID[name][1] for name in DAMAGED
    ]


@pytest.mark.parametrize("name", [*DAMAGED, *NOT_OURS])
def test_a_table_takes_no_other_files_place(name: str, tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(INVALID[name][1])
    with pytest.raises(CacheFileError, match=r"not replaced; .* delete it first") as caught:
        write_table(path, table())
    assert (caught.value.fault, path.read_bytes()) == ("unwritable", INVALID[name][1])
    write_table(path, table(), overwrite=True)
    assert path.read_bytes() == build()
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix_socket:
        unix_socket.bind(str(path))


@pytest.mark.parametrize("make", [make_pipe, make_socket, Path.mkdir])
def test_only_a_file_is_replaced(make: Callable[[Path], None], tmp_path: Path) -> None:
    path, link = tmp_path / "c", tmp_path / "link"
    make(path)
    link.symlink_to(path)
    kind = path.stat().st_mode
    for place in (path, link):
        with pytest.raises(
            CacheFileError, match=r"\(it is (a directory|not a regular file)\); choose another"
        ):
            check_place(place)
        with pytest.raises(CacheFileError, match="choose another place"):
            write_table(place, table(), overwrite=True)
        with pytest.raises(CacheFileError, match="choose another place"):
            write_cache(place, NgramCache(TOY))
    assert path.stat().st_mode == kind and link.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "link"]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "c", tmp_path / "link"
    link.symlink_to(target)
    write_table(link, table())  # the link leads nowhere
    write_table(link, table())
    assert link.is_symlink() and target.read_bytes() == build()
    assert [p.name for p in target.parent.iterdir()] == ["c"]
    assert wipe(link) == 1
    assert not target.exists() and not link.is_symlink()


def test_new_files_are_private_and_old_ones_keep_their_permissions(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        write_table(tmp_path / "c", table())
    finally:
        os.umask(before)
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600
    (tmp_path / "c").chmod(0o640)
    write_table(tmp_path / "c", table())
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o640


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
    with pytest.raises(CacheFileError, match="is not an n-gram cache, so it stays"):
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
