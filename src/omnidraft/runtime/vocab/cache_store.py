"""Caches on disk: read a cache or start with an empty one, write a cache so that no crash damages it."""

import os
from pathlib import Path

from omnidraft.errors import CacheFileError, refusing
from omnidraft.runtime.disk.atomic_write import place_of, remove_leftovers, write_atomically
from omnidraft.runtime.disk.read_file import open_file, read_file
from omnidraft.runtime.vocab.cache_file import (
    HEADER_BYTES,
    MAGIC,
    MAX_FILE_BYTES,
    decode,
    decode_header,
    encode,
)
from omnidraft.runtime.vocab.cache_table import CacheTable, check_against
from omnidraft.runtime.vocab.ngram_cache import CAPACITY, NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap

_REMEDIES = {
    "not_a_cache": "check the path",
    "unreadable": "check the path and its permissions",
    "unwritable": "choose another place",
    "version": "update omnidraft",
    "foreign_vocabulary": "use it with the pair of models that it was learned from",
    "spelling": "use it with the pair of models that it was learned from",
    "id_range": "use it with the pair of models that it was learned from",
}
_LEFT_ALONE = ("not_a_cache", "foreign_vocabulary")  # no session replaces or renames such a file


def open_cache(
    path: str | Path, vocab_map: VocabMap, *, capacity: int = CAPACITY
) -> tuple[NgramCache, str | None]:
    """The cache in a file, or an empty cache: a bad file never stops a generation.

    Returns:
        the cache, and one sentence that says why the file was refused; None if it was not.
    """
    path = Path(path)
    empty = NgramCache(vocab_map, capacity=capacity)
    if _is_absent(path):
        return empty, None
    try:
        table = _table(path, vocab_map)
    except CacheFileError as error:
        remedy = "saving replaces it" if _is_free(path) else "saving keeps it under another name"
        if error.fault in _LEFT_ALONE and not _is_free(path):
            remedy = "it is left alone, and nothing is saved there"
        elif error.fault == "unreadable":
            remedy = _REMEDIES[error.fault]
        return empty, f"starting with an empty cache: {path} is refused: {error}; {remedy}"
    return NgramCache.of_table(table, vocab_map, capacity=capacity), None


def read_table(path: str | Path, vocab_map: VocabMap | None = None) -> CacheTable:
    """The table in a cache file, checked against a vocabulary map if one is given.

    Raises:
        CacheFileError: with the name of the fault, the path and the remedy.
    """
    try:
        return _table(Path(path), vocab_map)
    except CacheFileError as error:
        remedy = _REMEDIES.get(error.fault, "give a whole copy of it")
        raise CacheFileError(f"{path} is refused: {error}", remedy, fault=error.fault) from None


def _table(path: Path, vocab_map: VocabMap | None) -> CacheTable:
    table = decode(_read(path))
    if vocab_map is not None:
        check_against(table, vocab_map)
    return table


def _is_absent(path: Path) -> bool:
    """Whether there is no file; a link that leads nowhere counts as none."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):  # reading or writing it reports the error
        return False
    return False


def _is_free(path: Path) -> bool:
    """Whether nothing is lost when a file is written there: there is no file, or an empty one."""
    # `isfile` is false where the path may not be looked at, which `Path.is_file` raises before Python 3.14.
    return _is_absent(path) or (os.path.isfile(path) and os.path.getsize(path) == 0)


def _read(path: Path) -> bytes:
    """The bytes of a file, at most one more than its header promises: a wrong file is not read to its end."""
    with refusing(CacheFileError, "it cannot be read", "", "unreadable"), open_file(path) as file:
        head = file.read(HEADER_BYTES)
        promised, size = decode_header(head).file_bytes, os.fstat(file.fileno()).st_size
        if promised > MAX_FILE_BYTES:
            return head  # which is refused as it is
        if size > promised:
            extra = "1 byte" if size == promised + 1 else f"{size - promised} bytes"
            raise CacheFileError(f"it goes on for {extra} after its end", fault="trailing_bytes")
        return head + file.read(min(promised, size) - len(head) + 1)


def check_place(path: str | Path) -> None:
    """Refuse a path that no cache can be read from and saved to, before any work is done for it."""
    try:
        place_of(path)
    except OSError as error:
        raise _unwritable(path, error) from None


def check_cache_place(path: str | Path) -> None:
    """`check_place`, and refuse a file that is not a cache, so that a wrong path costs nobody a file.

    Raises:
        CacheFileError: `unwritable` or `not_a_cache`.
    """
    check_place(path)
    if not _is_free(Path(path)):
        try:
            _read(Path(path))
        except CacheFileError as error:
            if error.fault == "not_a_cache":
                raise _left_alone(path, error.fault) from None


def is_of_another_pair(path: str | Path, vocab_map: VocabMap) -> bool:
    """Whether a file is a whole cache of other vocabularies: a session leaves it alone."""
    return _fault_of(Path(path), NgramCache(vocab_map).table()) == "foreign_vocabulary"


def write_cache(path: str | Path, cache: NgramCache) -> Path | None:
    """Save a cache; killed at any point, the old file or the new one is there, whole.

    Returns:
        the new name of the old file, if that was a damaged cache; else None.

    Raises:
        CacheFileError: `unwritable`; or `not_a_cache` or `foreign_vocabulary`: the file there is not a cache,
            or one of another pair, and stays as it is.
    """
    table = cache.table()
    fault = _fault_of(Path(path), table)
    if fault in _LEFT_ALONE:
        raise _left_alone(path, fault)
    return _write(Path(path), table, keep=fault is not None)


def _left_alone(path: str | Path, fault: str) -> CacheFileError:
    what = "not an n-gram cache" if fault == "not_a_cache" else "a cache of another pair of models"
    return CacheFileError(
        f"{path} is {what}, so it is left alone", "give another file, or the name of a new one", fault=fault
    )


def write_table(path: str | Path, table: CacheTable, *, overwrite: bool = False) -> None:
    """Save a table; unless `overwrite`, it replaces only a whole cache of its pair."""
    check_place(path)
    if not overwrite and _fault_of(Path(path), table) is not None:
        raise CacheFileError(
            f"{path} is not a whole cache of this pair of models, so it is not replaced",
            "choose another place or delete it first",
            fault="unwritable",
        )
    _write(Path(path), table)


def _write(path: Path, table: CacheTable, *, keep: bool = False) -> Path | None:
    try:
        return write_atomically(path, encode(table), keep=keep)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: str | Path, error: OSError) -> CacheFileError:
    sentence = f"the cache cannot be written to {path} ({error.strerror})"
    return CacheFileError(sentence, _REMEDIES["unwritable"], fault="unwritable")


def _fault_of(path: Path, table: CacheTable) -> str | None:
    """Why a table may not replace a file; None for no file and for a whole cache of the same pair."""
    if _is_free(path):
        return None
    try:
        old = _table(path, None)
    except CacheFileError as error:
        return error.fault
    fingerprints = table.draft_fingerprint, table.target_fingerprint
    same = (old.draft_fingerprint, old.target_fingerprint) == fingerprints
    return None if same else "foreign_vocabulary"


def wipe(path: str | Path) -> int:
    """Delete a cache file and the leftovers of its writers, and return the number of deleted files.

    Raises:
        CacheFileError: the file is not a cache, or cannot be deleted.
    """
    path = Path(path)
    with refusing(CacheFileError, f"{path} cannot be wiped", "check the path", "unwritable"):
        place = place_of(path)
        if read_file(place, len(MAGIC)) != MAGIC:
            raise CacheFileError(
                f"{path} is not an n-gram cache, so it stays", "check the path", fault="not_a_cache"
            )
        place.unlink()
        if path.is_symlink():
            path.unlink()
    return 1 + remove_leftovers(place)
