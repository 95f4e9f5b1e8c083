"""What a device has of a channel: the adapter in use, the one before it, and the newest release it ever saw.

A directory with one pointer file, `current`, and files named by their SHA-256. Replacing the pointer is the
switch; whatever else was going on when a process was killed is not pointed to. spec/sync.md.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft.errors import ClaimError, SyncError
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.claim import claim
from omnidraft.sync.release import (
    CHANNEL_LINES,
    COUNT,
    HASH,
    NUMBER,
    Channel,
    Seen,
    StoredFile,
    channel_of,
)

POINTER = "current"
ADAPTER, CACHE = ".safetensors", ".odc"  # what stands behind the SHA-256 in a file's name
_MOST_BYTES = 2048
_KEPT = re.compile(f"{HASH}({re.escape(ADAPTER)}|{re.escape(CACHE)})")
_LEFT = re.compile(f"\\.({_KEPT.pattern}|{POINTER})\\.[0-9a-f]{{16}}\\.tmp")
_USED = f"(?:{COUNT} {HASH} {NUMBER}|none)"
_FORM = re.compile(
    f"omnidraft\\.installed 1\n{CHANNEL_LINES}seen (?P<seen>{NUMBER} {HASH}|none)\n"
    f"refused (?P<refused>{COUNT})\nkey (?P<key>[0-9a-f]{{16}}|none)\n"
    f"current (?P<current>{_USED})\nprevious (?P<previous>{_USED})\n"
    f"cache (?P<cache>{HASH} {NUMBER}|none)\n"
)


@dataclass(frozen=True)
class Used:
    """An adapter that is or was in use, and the release that it came with; 0 for the device's own."""

    number: int
    file: StoredFile

    def __str__(self) -> str:
        return f"{self.number} {self.file}"


@dataclass(frozen=True)
class Installed:
    """What a directory holds.

    Attributes:
        seen: the newest release that was verified.
        refused: the newest whose adapter was not kept, 0 for none.
        key: id of the key that a release was last checked with; then every release must be signed.
        current, previous: adapters, None for the drafter as it is. cache: of the newest release with one.
    """

    channel: Channel
    seen: Seen | None = None
    refused: int = 0
    key: str | None = None
    current: Used | None = None
    previous: Used | None = None
    cache: StoredFile | None = None

    @property
    def files(self) -> set[str]:
        """The names of all files that it points to."""
        used = {f"{each.file.sha256}{ADAPTER}" for each in (self.current, self.previous) if each}
        return used | ({f"{self.cache.sha256}{CACHE}"} if self.cache else set())

    @property
    def text(self) -> bytes:
        """The pointer file."""
        seen = f"{self.seen.number} {self.seen.sha256}" if self.seen else "none"
        return (
            f"omnidraft.installed 1\n{self.channel.lines}seen {seen}\nrefused {self.refused}\n"
            f"key {self.key or 'none'}\ncurrent {self.current or 'none'}\n"
            f"previous {self.previous or 'none'}\ncache {self.cache or 'none'}\n"
        ).encode()

    def switched(self, to: Used | None) -> "Installed":
        """With another adapter in use, and the one that was as the previous."""
        return self if to == self.current else replace(self, current=to, previous=self.current)


def read_installed(place: Path) -> Installed | None:
    """What a directory holds; None where nothing was installed yet.

    Raises:
        SyncError: `unreadable` or `malformed`.
    """
    pointer = place / POINTER
    try:
        with pointer.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SyncError(
            f"{pointer} cannot be read ({error.strerror})",
            "check the path and its permissions",
            fault="unreadable",
        ) from None
    found = _FORM.fullmatch(data.decode("latin-1"))
    if found is None:
        raise SyncError(
            f"{pointer} is not what `omnidraft sync pull` wrote",
            "give another directory, or delete it and with it the memory of which releases are older",
            fault="malformed",
        )
    seen = None if found["seen"] == "none" else Seen(int(found["seen"].split()[0]), found["seen"].split()[1])
    return Installed(
        channel_of(found),
        seen,
        int(found["refused"]),
        None if found["key"] == "none" else found["key"],
        _used(found["current"]),
        _used(found["previous"]),
        StoredFile.read(found["cache"]),
    )


def _used(text: str) -> Used | None:
    if text == "none":
        return None
    number, _, file = text.partition(" ")
    found = StoredFile.read(file)
    assert found is not None, "the form has a file here"
    return Used(int(number), found)


def install(place: Path, state: Installed) -> None:
    """Replace the pointer, by who has claimed the directory.

    Killed at any point, the old or the new state is there, whole.

    Raises:
        SyncError: `unwritable`.
    """
    try:
        write_atomically(place / POINTER, state.text)
    except OSError as error:
        raise unwritable(place, error) from None


def tidy(place: Path, state: Installed) -> None:
    """Remove what nothing points to, and what killed processes left; by who has claimed the directory."""
    for file in place.iterdir():
        if (_KEPT.fullmatch(file.name) and file.name not in state.files) or _LEFT.fullmatch(file.name):
            with contextlib.suppress(OSError):  # it is only room
                file.unlink()


def keep(place: Path, data: bytes, suffix: str) -> StoredFile:
    """Put a file into a directory, without pointing to it.

    Raises:
        SyncError: `unwritable`.
    """
    file = StoredFile.of(data)
    try:
        write_atomically(place / f"{file.sha256}{suffix}", data)
    except OSError as error:
        raise unwritable(place, error) from None
    return file


def kept(place: Path, file: StoredFile, suffix: str) -> bytes | None:
    """A file of a directory; None where it is absent or damaged."""
    try:
        data = (place / f"{file.sha256}{suffix}").read_bytes()
    except OSError:
        return None
    return data if StoredFile.of(data) == file else None


def adapter_in_use(place: Path) -> Path | None:
    """The file of the adapter that a directory has in use; None for the drafter as it is.

    Raises:
        SyncError: nothing was installed there.
    """
    state = read_installed(place)
    if state is None:
        raise SyncError(
            f"{place} holds nothing that was pulled", "run `omnidraft sync pull` first", fault="absent"
        )
    return None if state.current is None else place / f"{state.current.file.sha256}{ADAPTER}"


def roll_back(place: Path) -> Installed:
    """Use the previous adapter again; the release of the one that was in use is not taken up by itself again.

    Raises:
        SyncError: `absent`, where there is no previous; `in_use` or `unwritable`.
    """
    with claimed_directory(place):
        state = read_installed(place)
        if state is None or state.current is None:
            raise SyncError(
                f"{place} has no adapter in use, so there is nothing before it",
                "pull one first",
                fault="absent",
            )
        rolled = replace(
            state,
            current=state.previous,
            previous=state.current,
            refused=max(state.refused, state.current.number),
        )
        install(place, rolled)
        tidy(place, rolled)
    return rolled


@contextlib.contextmanager
def claimed_directory(place: Path) -> Iterator[None]:
    """The directory for this process alone, made where it is absent.

    Raises:
        SyncError: `in_use` or `unwritable`.
    """
    try:
        handle = claim(place)
    except ClaimError:
        raise SyncError(
            f"another process is pulling into {place}",
            "wait for it, or give another directory",
            fault="in_use",
        ) from None
    except OSError as error:
        raise unwritable(place, error) from None
    try:
        yield
    finally:
        os.close(handle)


def unwritable(place: Path, error: OSError) -> SyncError:
    """That a directory cannot be written."""
    return SyncError(
        f"{place} cannot be written ({error.strerror})",
        "make room, or give another directory",
        fault="unwritable",
    )
