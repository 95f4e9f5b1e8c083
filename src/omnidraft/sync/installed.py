"""The files of a device: adapter in use, previous adapter, newest release seen (spec/15-sync.md).

A directory with one pointer file, `current`, and files named by their SHA-256. Replacing the pointer file is
the switch. Files of a process that was killed are not named in the pointer file, and the next process removes
them.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft.errors import ClaimError, SyncError, refusing
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.claim import claim
from omnidraft.runtime.disk.read_file import read_file, read_whole
from omnidraft.sync.channel import CHANNEL_LINES, HASH, Channel, channel_of
from omnidraft.sync.record import COUNT, NUMBER, SignedRecord, StoredFile

POINTER = "current"
ADAPTER = ".safetensors"  # ending of file names, after the SHA-256
_MOST_BYTES = 2048
_KEPT = re.compile(f"{HASH}{re.escape(ADAPTER)}")
_LEFT = re.compile(f"\\.({_KEPT.pattern}|{POINTER})\\.[0-9a-f]{{16}}\\.tmp")
_USED = f"(?:{COUNT} {HASH} {NUMBER}|none)"
_FORM = re.compile(
    f"omnidraft\\.installed 1\n{CHANNEL_LINES}seen (?P<seen>{NUMBER} {HASH}|none)\n"
    f"refused (?P<refused>{COUNT})\ncurrent (?P<current>{_USED})\nprevious (?P<previous>{_USED})\n"
)


@dataclass(frozen=True)
class Seen:
    """The newest release that a device verified: its number, and the SHA-256 of its signed lines."""

    number: int
    sha256: str

    def check(self, release: SignedRecord) -> None:
        """Refuse an older release (`older`), and another one of the same number (`conflict`)."""
        if release.number < self.number:
            raise SyncError(
                f"the store offers release {release.number} and this device has seen {self.number}: an old "
                "release was put back",
                "do not use this store before its publisher made a newer one",
                fault="older",
            )
        if release.number == self.number and release.digest != self.sha256:
            raise SyncError(
                f"the store's release {release.number} is not the one that this device has seen under that "
                "number",
                "tell its publisher",
                fault="conflict",
            )


@dataclass(frozen=True)
class Used:
    """An adapter that is or was in use.

    Attributes:
        number: of its release; 0 for the device's own adapter.
    """

    number: int
    file: StoredFile

    def __str__(self) -> str:
        return f"{self.number} {self.file}"


@dataclass(frozen=True)
class Installed:
    """The content of the pointer file.

    Attributes:
        seen: the newest release that was verified.
        refused: number of the newest release whose adapter was not taken, 0 for none.
        current: the adapter in use; None for the drafter without an adapter.
    """

    channel: Channel
    seen: Seen | None = None
    refused: int = 0
    current: Used | None = None
    previous: Used | None = None

    @property
    def files(self) -> set[str]:
        """The names of all files in the pointer file."""
        return {f"{each.file.sha256}{ADAPTER}" for each in (self.current, self.previous) if each}

    @property
    def text(self) -> bytes:
        """The bytes of the pointer file."""
        seen = f"{self.seen.number} {self.seen.sha256}" if self.seen else "none"
        return (
            f"omnidraft.installed 1\n{self.channel.lines}seen {seen}\nrefused {self.refused}\n"
            f"current {self.current or 'none'}\nprevious {self.previous or 'none'}\n"
        ).encode()

    def switched(self, to: Used | None) -> "Installed":
        """This state with another adapter in use; the present adapter becomes the previous one."""
        return self if to == self.current else replace(self, current=to, previous=self.current)


def read_installed(place: Path) -> Installed | None:
    """The content of a directory; None where nothing is installed.

    Raises:
        SyncError: `unreadable` or `malformed`.
    """
    pointer = place / POINTER
    with refusing(SyncError, f"{pointer} cannot be read", "check the path and its permissions", "unreadable"):
        try:
            data = read_file(pointer, _MOST_BYTES + 1)
        except FileNotFoundError:
            return None
    fields = _FORM.fullmatch(data.decode("latin-1"))
    if fields is None:
        raise SyncError(
            f"{pointer} is not what `omnidraft sync pull` wrote",
            "give another directory, or delete it, which also forgets the newest release seen",
            fault="malformed",
        )
    number, _, sha256 = fields["seen"].partition(" ")
    return Installed(
        channel=channel_of(fields),
        seen=Seen(int(number), sha256) if sha256 else None,
        refused=int(fields["refused"]),
        current=_used(fields["current"]),
        previous=_used(fields["previous"]),
    )


def _used(text: str) -> Used | None:
    if text == "none":
        return None
    number, _, rest = text.partition(" ")
    file = StoredFile.read(rest)
    assert file is not None, "the pattern has a file here"
    return Used(int(number), file)


def install(place: Path, state: Installed) -> None:
    """Replace the pointer file; the caller has claimed the directory.

    A kill at any moment leaves the old state or the new one, whole.
    """
    with _writing(place):
        write_atomically(place / POINTER, state.text)


def tidy(place: Path, state: Installed) -> None:
    """Remove files that the pointer file does not name, and files of killed processes; the caller has claimed
    it.
    """
    for file in place.iterdir():
        if (_KEPT.fullmatch(file.name) and file.name not in state.files) or _LEFT.fullmatch(file.name):
            with contextlib.suppress(OSError):  # a file that stays only takes space
                file.unlink()


def keep(place: Path, data: bytes) -> StoredFile:
    """Put an adapter into a directory where it is absent or damaged; the pointer file does not change."""
    file = StoredFile.of(data)
    if kept(place, file) is None:
        with _writing(place):
            write_atomically(place / f"{file.sha256}{ADAPTER}", data)
    return file


def kept(place: Path, file: StoredFile) -> bytes | None:
    """The bytes of an adapter in a directory; None where it is absent or damaged."""
    try:
        data = read_whole(place / f"{file.sha256}{ADAPTER}", file.size)
    except OSError:
        return None
    return data if StoredFile.of(data) == file else None


def adapter_in_use(place: Path) -> Path | None:
    """The file of the adapter in use; None for the drafter without an adapter.

    Raises:
        SyncError: `absent`, nothing is installed there; `unreadable` or `malformed`; `checksum`, the file was
            changed.
    """
    state = read_installed(place)
    if state is None:
        raise SyncError(
            f"{place} holds nothing that was pulled", "run `omnidraft sync pull` first", fault="absent"
        )
    if state.current is None:
        return None
    if kept(place, state.current.file) is None:
        raise SyncError(
            f"the adapter in use in {place} is not the file that was pulled",
            "run `omnidraft sync pull` again",
            fault="checksum",
        )
    return place / f"{state.current.file.sha256}{ADAPTER}"


def roll_back(place: Path) -> Installed:
    """Use the previous adapter again. The release of the present adapter is not taken again.

    Raises:
        SyncError: `absent`, no adapter is in use; `in_use` or `unwritable`.
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
    """Lock a directory for this process; make it if it is absent.

    Raises:
        SyncError: `in_use` or `unwritable`.
    """
    with _writing(place):
        try:
            handle = claim(place)
        except ClaimError:
            raise SyncError(
                f"another process is pulling into {place}",
                "wait for it, or give another directory",
                fault="in_use",
            ) from None
    try:
        yield
    finally:
        os.close(handle)


def _writing(place: Path) -> AbstractContextManager[None]:
    """Inside, a directory that cannot be written is refused."""
    remedy = "make room, or give another directory"
    return refusing(SyncError, f"{place} cannot be written", remedy, "unwritable")
