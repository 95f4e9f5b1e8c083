"""The training side: publish one adapter and one cache as a signed, numbered release.

The files are written first, then the release under its number, then the name of the newest release. Devices
see the release only after the last write.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnidraft import defaults
from omnidraft.errors import SettingError, SyncError
from omnidraft.runtime.models.adapter_file import encode_adapter
from omnidraft.runtime.vocab.cache_file import encode as encode_cache
from omnidraft.signing import raw_public, sign
from omnidraft.sync.channel import (
    channel_folder,
    files_folder,
    latest_name,
    release_name,
    releases_folder,
    utc,
)
from omnidraft.sync.installed import ADAPTER, CACHE
from omnidraft.sync.published import Published, PublisherMemory
from omnidraft.sync.record_lines import LARGEST, Channel, StoredFile
from omnidraft.sync.release import MOST_BYTES, Release, decode_release, encode_release
from omnidraft.sync.release_contents import Contents
from omnidraft.sync.store import Store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEPT = defaults.SYNC_KEPT_RELEASES  # releases kept in a store
MOST_RELEASES = 64  # names of releases that are read; anyone can write more
_NAME = re.compile("[0-9]{15}")


def latest_release(store: Store, channel: Channel, public_key: bytes | None) -> Release | None:
    """The newest release of a channel; None where there is none.

    Raises:
        SyncError: the release is refused, or the store cannot be reached.
    """
    name = latest_name(channel)
    if store.size(name) is None:
        return None
    release, _ = decode_release(store.read(name, MOST_BYTES), public_key)
    channel.check(release.channel, f"{name} in {store.shown}")
    return release


def newest_of(store: Store, channel: Channel, public_key: bytes) -> Release | None:
    """The newest release, before publishing the next; None where there is none.

    Raises:
        SyncError: the release is of another key or damaged, or the store cannot be reached.
    """
    try:
        return latest_release(store, channel, public_key)
    except SyncError as error:
        if error.fault == "unreachable":
            raise
        raise SyncError(
            f"the newest release is not ours: {error}",
            f"to publish nevertheless, remove {latest_name(channel)}",
            fault=error.fault,
        ) from None


@dataclass(frozen=True)
class Publisher:
    """Who publishes.

    Attributes:
        key: to sign with.
        memory: what this publisher published; None believes the store.
        restore: publish also where the store does not have the newest release that is remembered.
        after: a number that devices have seen, where store and memory may have lost it.
    """

    key: "Ed25519PrivateKey"
    memory: PublisherMemory | None = None
    restore: bool = False
    after: int = 0

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return raw_public(self.key)


def publish(
    store: Store, channel: Channel, contents: Contents, publisher: Publisher, now: str | None = None
) -> Release:
    """Sign the contents and publish them under the next number.

    Args:
        store: to write to.
        channel: of the pair of models.
        contents: of the release.
        publisher: signs, and remembers.
        now: ISO 8601 in UTC; the clock's time when None.

    Raises:
        SettingError: there is nothing to publish.
        SyncError: the newest release is of another key or damaged, or not the newest one that was published
            (`older`, `conflict`); another release was published meanwhile (`taken`); `read_only`,
            `unreachable` or `unwritable`.
    """
    if contents.adapter is None and contents.cache is None:
        raise SettingError(
            f"{store.shown} has neither adapters nor caches of devices to publish",
            "let devices push, or give --adapter",
        )
    number = _next_number(store, channel, publisher)
    files = {}
    if contents.adapter is not None:
        files[ADAPTER] = encode_adapter(contents.adapter)
    if contents.cache is not None:
        files[CACHE] = encode_cache(contents.cache)
    named = {suffix: StoredFile.of(data) for suffix, data in files.items()}
    release = Release(
        number, channel, now or utc(), utc(contents.days), named.get(ADAPTER), named.get(CACHE),
        min(contents.accepted, LARGEST), contents.devices,
    )  # fmt: skip
    record = encode_release(release, sign(release.text, publisher.key))
    decode_release(record, publisher.public)  # refuse to publish what a device would refuse
    for suffix, data in files.items():
        name = f"{files_folder(channel)}/{named[suffix].sha256}{suffix}"
        if store.size(name) != len(data):
            store.write(name, data)
    _write_release(store, release, record, publisher)
    _prune(store, release, publisher.public)
    return release


def _next_number(store: Store, channel: Channel, publisher: Publisher) -> int:
    """One more than every number that this key signed, as far as store, memory and caller know."""
    newest = newest_of(store, channel, publisher.public)
    known = Published() if publisher.memory is None else publisher.memory.of(store.address, channel)
    if not publisher.restore:
        known.check(newest, store.shown)
    signed = _signed(store, channel, publisher.public)
    numbers = [publisher.after, known.reserved, newest.number if newest else 0, *signed]
    if max(numbers) >= LARGEST:
        raise SyncError(f"release {LARGEST} is the last number", "publish with another key", fault="taken")
    return 1 + max(numbers)


def _write_release(store: Store, release: Release, record: bytes, publisher: Publisher) -> None:
    """Write a release under its number and as the newest one, and remember it."""
    name = release_name(release.channel, release.number)
    if publisher.memory is not None:
        publisher.memory.reserve(store.address, release.channel, release.number)
    if store.size(name) is not None and _release_at(store, release.channel, name, publisher.public) is None:
        store.delete(name)  # this key did not sign it, so it keeps no number
    store.write(name, record, new=True)
    store.write(latest_name(release.channel), record)
    if publisher.memory is not None:
        publisher.memory.keep(store.address, release)


def _signed(store: Store, channel: Channel, public_key: bytes) -> dict[int, Release]:
    """The releases of a channel that this key signed, by number, by the largest names."""
    releases = {}
    names = [name for name in store.names(releases_folder(channel)) if _NAME.fullmatch(name)]
    for name in names[-MOST_RELEASES:]:
        release = _release_at(store, channel, f"{releases_folder(channel)}/{name}", public_key)
        if release is not None:
            releases[release.number] = release
    return releases


def _release_at(store: Store, channel: Channel, name: str, public_key: bytes) -> Release | None:
    """The release under a number's name; None if the key did not sign it, or signed it under another one."""
    try:
        release, _ = decode_release(store.read(name, MOST_BYTES), public_key)
    except SyncError as error:
        if error.fault == "unreachable":
            raise
        return None
    return release if release.channel == channel and release_name(channel, release.number) == name else None


def _prune(store: Store, newest: Release, public_key: bytes) -> None:
    """Remove our releases before the last `KEPT`, files that none of ours names, and leftovers."""
    channel = newest.channel
    releases = {**_signed(store, channel, public_key), newest.number: newest}
    kept = sorted(releases)[-KEPT:]
    named = set()
    for number in kept:
        release = releases[number]
        named |= {f"{file.sha256}{suffix}" for file, suffix in
                  ((release.adapter, ADAPTER), (release.cache, CACHE)) if file}  # fmt: skip
    for number in set(releases) - set(kept):
        store.delete(release_name(channel, number))
    for name in store.names(files_folder(channel)):
        if name not in named and not name.startswith("."):
            store.delete(f"{files_folder(channel)}/{name}")
    for folder in (channel_folder(channel), releases_folder(channel), files_folder(channel)):
        store.tidy(folder)
