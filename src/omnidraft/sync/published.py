"""What a publisher remembers of its own releases, in a private file: the store's word is not enough.

Anyone who can write to a store can put an old release back, or delete all of them. A publisher that believed
it would use a number twice, and devices would refuse everything that follows.
"""

import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from omnidraft.errors import SyncError
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.sync.record_lines import HASH, LARGEST, NUMBER, Channel, StoredFile
from omnidraft.sync.release import Release, Seen

_TITLE = "omnidraft.published 1\n"
_LINE = re.compile(f"({HASH} {HASH}) ({NUMBER}) ({NUMBER} {HASH}|none)")
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Published:
    """The releases of a channel that a publisher made.

    Attributes:
        reserved: the largest number that it ever began to publish; 0 for none.
        last: the newest release that it published; None for none.
    """

    reserved: int = 0
    last: Seen | None = None

    def check(self, newest: Release | None, where: str) -> None:
        """Refuse a store that does not have the newest release.

        Args:
            newest: the store's newest release by this publisher's key.
            where: the store, for the message.

        Raises:
            SyncError: `older` or `conflict`.
        """
        if self.last is None:
            return
        remedy = "find out who changes the store; --restore publishes the next number nevertheless"
        found = newest.number if newest else 0
        if found < self.last.number:
            has = f"release {found}" if newest else "no release"
            raise SyncError(
                f"{where} offers {has} and this publisher has published {self.last.number}: an old release "
                "was put back, or newer ones were deleted",
                remedy,
                fault="older",
            )
        if newest and found == self.last.number and seen_of(newest) != self.last:
            raise SyncError(
                f"release {found} in {where} is not the one that this publisher has published under that "
                "number",
                remedy,
                fault="conflict",
            )


def seen_of(release: Release) -> Seen:
    """The number and hash by which a release is remembered."""
    return Seen(release.number, StoredFile.of(release.text).sha256)


class PublisherMemory:
    """The private file of a publisher: `CHANNEL STORE RESERVED LAST`, a line for each channel of a store."""

    def __init__(self, path: Path) -> None:
        """
        Args:
            path: the file; made at the first release.
        """
        self.path = path

    def of(self, store: str, channel: Channel) -> Published:
        """What was published.

        Args:
            store: its `Store.address`.
            channel: of the releases.

        Raises:
            SyncError: `unreadable` or `malformed`.
        """
        return self._read().get(_name(store, channel), Published())

    def reserve(self, store: str, channel: Channel, number: int) -> None:
        """Remember that a release of this number is about to be written, so that it is never used again.

        Raises:
            SyncError: `unwritable`; also `unreadable` or `malformed`.
        """
        assert 0 < number <= LARGEST, number
        known = self.of(store, channel)
        self._write(_name(store, channel), replace(known, reserved=max(number, known.reserved)))

    def keep(self, store: str, release: Release) -> None:
        """Remember a release that is published; errors are those of `reserve`."""
        self._write(_name(store, release.channel), Published(release.number, seen_of(release)))

    def _read(self) -> dict[str, Published]:
        try:
            text = read_whole(self.path, _MOST_BYTES).decode("ascii", "replace")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SyncError(
                f"{self.path} cannot be read ({error.strerror})", "check its permissions", fault="unreadable"
            ) from None
        lines = text.removeprefix(_TITLE).split("\n")
        found = [_LINE.fullmatch(line) for line in lines[:-1]]
        if not text.startswith(_TITLE) or lines[-1] or None in found:
            raise SyncError(
                f"{self.path} is not what `omnidraft sync publish` wrote",
                "restore it, or give another --memory and publish with --restore",
                fault="malformed",
            )
        return {line[1]: Published(int(line[2]), _seen(line[3])) for line in found if line}

    def _write(self, changed: str, published: Published) -> None:
        everything = {**self._read(), changed: published}
        lines = (
            f"{name} {each.reserved} {f'{each.last.number} {each.last.sha256}' if each.last else 'none'}\n"
            for name, each in sorted(everything.items())
        )
        try:
            write_atomically(self.path, (_TITLE + "".join(lines)).encode())
        except OSError as error:
            raise SyncError(
                f"{self.path} cannot be written ({error.strerror})",
                "give a private file with --memory",
                fault="unwritable",
            ) from None


def _name(store: str, channel: Channel) -> str:
    return f"{channel.id} {hashlib.sha256(store.encode()).hexdigest()}"


def _seen(text: str) -> Seen | None:
    number, _, sha256 = text.partition(" ")
    return Seen(int(number), sha256) if sha256 else None


def memory_beside(key: str | os.PathLike[str]) -> PublisherMemory:
    """The memory beside a private key, `team.published` of `team.private.pem`."""
    path = Path(key)
    return PublisherMemory(
        path.with_name(f"{path.name.removesuffix('.pem').removesuffix('.private')}.published")
    )
