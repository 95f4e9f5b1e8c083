"""The training side: what devices sent becomes one adapter and one cache, signed and numbered.

The files go first, then the release under its number, and the pointer to it last: until then nobody sees it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnidraft.errors import AdapterError, CacheFileError, OmnidraftError, SettingError, SyncError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import decode_adapter, encode_adapter
from omnidraft.runtime.models.adapter_fit import fit
from omnidraft.runtime.vocab.cache_file import decode as decode_cache
from omnidraft.runtime.vocab.cache_file import encode as encode_cache
from omnidraft.runtime.vocab.cache_table import CacheTable, check_against, merge
from omnidraft.runtime.vocab.vocab_map import VocabMap
from omnidraft.signing import raw_public, sign
from omnidraft.sync.average import AveragedAdapter, average
from omnidraft.sync.channel import (
    RECORD,
    channel_of_bundle,
    device_folder,
    devices_folder,
    files_folder,
    latest_name,
    release_name,
    releases_folder,
    utc,
)
from omnidraft.sync.installed import ADAPTER, CACHE
from omnidraft.sync.pull import bounded
from omnidraft.sync.push_record import MOST_BYTES as MOST_PUSH_BYTES
from omnidraft.sync.push_record import Push, decode_push
from omnidraft.sync.release import (
    LARGEST,
    MOST_BYTES,
    Channel,
    Release,
    StoredFile,
    decode_release,
    encode_release,
)
from omnidraft.sync.store import Progress, Store, short

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEPT = 10  # releases that stay in a store


@dataclass(frozen=True)
class Sent:
    """What a device sent, verified.

    Attributes:
        push: its record; None where that is refused. refusal: why something of it is left out.
    """

    device: str
    push: Push | None
    adapter: Adapter | None = None
    cache: CacheTable | None = None
    refusal: str | None = None


@dataclass(frozen=True)
class ChannelPair:
    """A bundle's pair of models, as the training side needs it."""

    bundle: Bundle
    vocab_map: VocabMap

    @property
    def channel(self) -> Channel:
        """Of the bundle."""
        return channel_of_bundle(self.bundle, self.vocab_map)


def sent_by_devices(
    store: Store, pair: ChannelPair, chosen: Sequence[str] = (), progress: Progress | None = None
) -> list[Sent]:
    """What the devices of a channel sent; one whose files are refused does not keep the others out.

    Args:
        chosen: devices by name; all of them when empty.

    Raises:
        SettingError: a chosen device sent nothing. SyncError: the store cannot be reached.
    """
    there = store.names(devices_folder(pair.channel))
    if absent := sorted(set(chosen) - set(there)):
        raise SettingError(
            f"device {absent[0]} sent nothing for this pair of models to {store.shown}",
            f"those that did: {', '.join(there) or 'none'}",
        )
    return [_sent(store, pair, name, progress) for name in there if not chosen or name in chosen]


def _sent(store: Store, pair: ChannelPair, device: str, progress: Progress | None) -> Sent:
    push, folder = None, device_folder(pair.channel, device)
    adapter, cache = None, None
    try:
        push = decode_push(store.read(f"{folder}/{RECORD}", MOST_PUSH_BYTES))
        pair.channel.check(push.channel, f"the push of {device}")
        if push.device != device:
            raise SyncError(f"it is of device {push.device}", f"let {device} push again", fault="foreign")
        if push.adapter is not None:
            adapter = decode_adapter(_file(store, folder, push.adapter, ADAPTER, progress))
            fit(adapter, pair.bundle, pair.vocab_map, "drafter")
        if push.cache is not None:
            cache = decode_cache(_file(store, folder, push.cache, CACHE, progress))
            check_against(cache, pair.vocab_map)
    except (SyncError, AdapterError, CacheFileError) as error:
        if getattr(error, "fault", "") == "unreachable":
            raise
        return Sent(device, push, refusal=str(error))
    return Sent(device, push, adapter, cache)


def _file(store: Store, folder: str, file: StoredFile, suffix: str, progress: Progress | None) -> bytes:
    name = f"{folder}/{file.sha256}{suffix}"
    data = store.read(name, file.size, progress, file.size)
    file.check(data, f"{short(name)} in {store.shown}")
    return data


@dataclass(frozen=True)
class ReleaseMean:
    """The mean of devices' adapters.

    Attributes:
        weights: accepted tokens that each device counted with, by name.
    """

    averaged: AveragedAdapter
    weights: dict[str, int]

    @property
    def accepted(self) -> int:
        """Of all devices."""
        return sum(self.weights.values())


def mean_of(sent: Sequence[Sent], rank: int | None, cap: int = LARGEST) -> ReleaseMean | None:
    """The mean of the devices' adapters by their accepted tokens; None without any.

    Args:
        rank: see `average`. cap: tokens that a device counts with at most; what it says cannot be checked.

    Raises:
        SettingError, AdapterError: see `average`.
    """
    found = [(each.adapter, each.push) for each in sent if each.adapter and each.push]
    if not found:
        return None
    weights = {push.device: min(push.accepted, cap) for _, push in found}
    return ReleaseMean(
        average([adapter for adapter, _ in found], list(weights.values()), utc(), rank), weights
    )


def merged(caches: Sequence[CacheTable]) -> CacheTable | None:
    """What several caches know, as large as a session holds, and of no writer: each device counts on."""
    if not caches:
        return None
    found = caches[0]
    for each in caches[1:]:
        found = merge(found, each)
    return replace(bounded(found), writer=0)


def latest_release(store: Store, channel: Channel, public_key: bytes | None) -> Release | None:
    """The newest release of a channel; None where there is none yet.

    Raises:
        SyncError: it is refused, or the store cannot be reached.
    """
    name = latest_name(channel)
    if store.size(name) is None:
        return None
    found, _ = decode_release(store.read(name, MOST_BYTES), public_key)
    channel.check(found.channel, f"{name} in {store.shown}")
    return found


def newest_of(store: Store, channel: Channel, public_key: bytes) -> Release | None:
    """The newest release, which the next one follows; None where there is none yet.

    Raises:
        SyncError: it is not of this key or damaged, or the store cannot be reached.
    """
    try:
        return latest_release(store, channel, public_key)
    except SyncError as error:
        if error.fault == "unreachable":
            raise
        raise SyncError(
            f"the newest release is not ours: {error}",
            f"to publish all the same, remove {latest_name(channel)}",
            fault=error.fault,
        ) from None


def cache_of(store: Store, release: Release | None, vocab_map: VocabMap) -> CacheTable | None:
    """The n-grams of a release.

    Raises:
        SyncError, CacheFileError: they are not what was published.
    """
    if release is None or release.cache is None:
        return None
    found = decode_cache(_file(store, files_folder(release.channel), release.cache, CACHE, None))
    check_against(found, vocab_map)
    return found


@dataclass(frozen=True)
class Contents:
    """What is to be published.

    Attributes:
        accepted, devices: see `Release`. days: that it is good for.
    """

    adapter: Adapter | None
    cache: CacheTable | None
    accepted: int
    devices: int
    days: float


def publish(
    store: Store, channel: Channel, contents: Contents, key: "Ed25519PrivateKey", now: str | None = None
) -> Release:
    """Sign and publish under the next number.

    Raises:
        SettingError: there is nothing to publish.
        SyncError: the newest release is of another key or damaged; somebody published meanwhile (`taken`);
            `read_only` or `unreachable`.
    """
    if contents.adapter is None and contents.cache is None:
        raise SettingError(
            f"{store.shown} has neither adapters nor caches of devices to publish",
            "let devices push, or give --adapter",
        )
    newest = newest_of(store, channel, raw_public(key))
    number = 1 + max([newest.number if newest else 0, *_numbers(store, channel)])
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
    record = encode_release(release, sign(release.text, key))
    decode_release(record, raw_public(key))  # what a device would refuse is not published
    for suffix, data in files.items():
        name = f"{files_folder(channel)}/{named[suffix].sha256}{suffix}"
        if store.size(name) != len(data):
            store.write(name, data)
    store.write(release_name(channel, number), record, new=True)
    store.write(latest_name(channel), record)
    _prune(store, channel)
    return release


def _numbers(store: Store, channel: Channel) -> Iterator[int]:
    return (int(name) for name in store.names(releases_folder(channel)) if name.isdecimal())


def _prune(store: Store, channel: Channel) -> None:
    """Remove releases before the last `KEPT`, and the files that only they name."""
    numbers = sorted(_numbers(store, channel))
    named = set()
    for number in numbers[-KEPT:]:
        try:
            release, _ = decode_release(store.read(release_name(channel, number), MOST_BYTES), None)
        except OmnidraftError:
            return  # whose files these are is not known
        named |= {f"{file.sha256}{suffix}" for file, suffix in
                  ((release.adapter, ADAPTER), (release.cache, CACHE)) if file}  # fmt: skip
    for number in numbers[:-KEPT]:
        store.delete(release_name(channel, number))
    for name in store.names(files_folder(channel)):
        if name not in named:
            store.delete(f"{files_folder(channel)}/{name}")
