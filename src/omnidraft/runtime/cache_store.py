"""Caches on disk: read one or go on with an empty one, write one so that no crash can spoil it."""

import os
import secrets
import time
from pathlib import Path

from omnidraft.errors import CacheFileError
from omnidraft.runtime.atomic_write import remove_leftovers, write_atomically
from omnidraft.runtime.cache_file import HEADER_BYTES, MAGIC, decode, decode_header, encode
from omnidraft.runtime.cache_table import CacheTable, check_against
from omnidraft.runtime.ngram_cache import CAPACITY, NgramCache, Policy
from omnidraft.runtime.vocab_map import VocabMap

_REMEDIES = {
    "not_a_cache": "check the path",
    "unreadable": "check the path and its permissions",
    "version": "update omnidraft",
    "foreign_vocabulary": "use it with the pair of models that it was learned from",
    "spelling": "use it with the pair of models that it was learned from",
    "id_range": "use it with the pair of models that it was learned from",
}


def open_cache(
    path: str | Path, vocab_map: VocabMap, *, capacity: int = CAPACITY, policy: Policy = "lfu"
) -> tuple[NgramCache, str | None]:
    """The cache in a file, or an empty one: a file never keeps a generation from running.

    Returns:
        the cache, and one sentence that says why it is empty though there is a file; None when all is well.
    """
    path = Path(path)
    empty = NgramCache(vocab_map, capacity=capacity, policy=policy)
    if not os.path.lexists(path):
        return empty, None
    try:
        table = read_table(path, vocab_map)
    except CacheFileError as error:
        return empty, f"starting with an empty cache: {error}"
    return NgramCache.of_table(table, vocab_map, capacity=capacity, policy=policy), None


def read_table(path: str | Path, vocab_map: VocabMap | None = None) -> CacheTable:
    """The table in a cache file, checked against a vocabulary map if one is given.

    Raises:
        CacheFileError: with the name of the fault, the path and the remedy.
    """
    try:
        table = decode(_read(Path(path)))
        if vocab_map is not None:
            check_against(table, vocab_map)
    except CacheFileError as error:
        remedy = _REMEDIES.get(error.fault, "restore a copy, or remove it to start anew")
        raise CacheFileError(error.fault, f"{path} is refused: {error}; {remedy}") from None
    return table


def _read(path: Path) -> bytes:
    """A file's bytes, no more than its header promises and one: a wrong file is not read to its end."""
    try:
        if path.exists() and not path.is_file():
            raise CacheFileError("unreadable", "it is no file")  # a pipe would be waited for
        with path.open("rb") as file:
            head = file.read(HEADER_BYTES)
            rest = decode_header(head).file_bytes - len(head)
            return head + file.read(min(rest, os.fstat(file.fileno()).st_size) + 1)
    except (OSError, ValueError) as error:
        raise CacheFileError("unreadable", f"it cannot be read ({error})") from None


def write_cache(path: str | Path, cache: NgramCache) -> None:
    """Save a cache; killed at any point, the old file or the new one is there, whole.

    A cache that counted gets a replica id at its first writing. A file of another kind, pair or version in
    its place is not lost: it is renamed to `NAME.refused` first.

    Raises:
        CacheFileError: `unwritable`.
    """
    cache.replica = cache.replica or new_replica()
    write_table(path, cache.table())


def write_table(path: str | Path, table: CacheTable) -> None:
    """Save a table, as `write_cache` does.

    Raises:
        CacheFileError: `unwritable`.
    """
    path = Path(path)
    data = encode(table)
    try:
        if path.is_file() and not _is_of_pair(path, data):
            os.replace(path, refused_name(path))
        write_atomically(path, data)
    except (OSError, ValueError) as error:
        raise CacheFileError(
            "unwritable", f"the cache cannot be written to {path} ({error}); choose another place"
        ) from None


def refused_name(path: Path) -> Path:
    """Where `write_cache` puts a file that is none of ours."""
    return path.with_name(path.name + ".refused")


def _is_of_pair(path: Path, data: bytes) -> bool:
    """Whether the file there is of the same version and vocabularies, be it damaged."""
    with path.open("rb") as file:
        head = file.read(80)
    return not head or (head[:12], head[16:80]) == (data[:12], data[16:80])


def wipe(path: str | Path) -> int:
    """Delete a cache file with all that writing it left behind, and return how many files went.

    Raises:
        CacheFileError: no cache is there, or it cannot be deleted.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
        if head != MAGIC:
            raise CacheFileError("not_a_cache", f"{path} is no n-gram cache, so it stays; check the path")
        path.unlink()
    except (OSError, ValueError) as error:
        raise CacheFileError("unwritable", f"{path} cannot be wiped ({error}); check the path") from None
    return 1 + remove_leftovers(path)


def new_replica() -> int:
    """An id for one who counts: 42 bits of time, so that newer ones are higher, then 22 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    return (milliseconds % (1 << 42)) << 22 | secrets.randbits(22)
