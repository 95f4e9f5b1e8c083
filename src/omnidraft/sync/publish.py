"""The training side: publish one adapter and one cache as a signed, numbered release.

The files are written first, then the release under its number, then the name of the newest release. Devices
see the release only after the last write.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from omnidraft.sync.store import Store, TransferProgress, short

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEPT = 10  # releases kept in a store


@dataclass(frozen=True)
class Sent:
    """The files of a device, verified.

    Attributes:
        device: name of the device.
        push: its record; None where the record is refused.
        adapter: None where there is none, or a file is refused.
        cache: None likewise.
        refusal: why a file or the record is refused; None if nothing is.
    """

    device: str
    push: Push | None
    adapter: Adapter | None = None
    cache: CacheTable | None = None
    refusal: str | None = None


@dataclass(frozen=True)
class ChannelPair:
    """The pair of models of a bundle, for the training side."""

    bundle: Bundle
    vocab_map: VocabMap

    @property
    def channel(self) -> Channel:
        """The channel of the bundle."""
        return channel_of_bundle(self.bundle, self.vocab_map)


def sent_by_devices(
    store: Store, pair: ChannelPair, chosen: Sequence[str] = (), progress: TransferProgress | None = None
) -> list[Sent]:
    """Read the files of the devices of a channel. A device whose files are refused does not stop the others.

    Args:
        store: to read from.
        pair: the pair of models of the channel.
        chosen: names of devices; all devices when empty.
        progress: called after each chunk.

    Raises:
        SettingError: a chosen device sent nothing.
        SyncError: the store cannot be reached.
    """
    devices = store.names(devices_folder(pair.channel))
    if absent := sorted(set(chosen) - set(devices)):
        raise SettingError(
            f"device {absent[0]} sent nothing for this pair of models to {store.shown}",
            f"those that did: {', '.join(devices) or 'none'}",
        )
    return [_sent(store, pair, name, progress) for name in devices if not chosen or name in chosen]


def _sent(store: Store, pair: ChannelPair, device: str, progress: TransferProgress | None) -> Sent:
    push, folder = None, device_folder(pair.channel, device)
    adapter, cache = None, None
    try:
        push = decode_push(store.read(f"{folder}/{RECORD}", MOST_PUSH_BYTES))
        pair.channel.check(push.channel, f"the push of {device}")
        if push.device != device:
            raise SyncError(
                f"the push is of device {push.device}", f"let {device} push again", fault="foreign"
            )
        if push.adapter is not None:
            adapter = decode_adapter(_file(store, folder, push.adapter, ADAPTER, progress))
            fit(adapter, pair.bundle, pair.vocab_map, "drafter")
        if push.cache is not None:
            cache = decode_cache(_file(store, folder, push.cache, CACHE, progress))
            check_against(cache, pair.vocab_map)
    except (SyncError, AdapterError, CacheFileError) as error:
        if error.fault == "unreachable":
            raise
        return Sent(device, push, refusal=str(error))
    return Sent(device, push, adapter, cache)


def _file(
    store: Store, folder: str, file: StoredFile, suffix: str, progress: TransferProgress | None
) -> bytes:
    name = f"{folder}/{file.sha256}{suffix}"
    data = store.read(name, file.size, progress, file.size)
    file.check(data, f"{short(name)} in {store.shown}")
    return data


@dataclass(frozen=True)
class ReleaseMean:
    """The mean of the adapters of devices.

    Attributes:
        averaged: the mean.
        weights: accepted tokens of each device, by name.
    """

    averaged: AveragedAdapter
    weights: dict[str, int]

    @property
    def accepted(self) -> int:
        """Accepted tokens of all devices."""
        return sum(self.weights.values())


def mean_of(sent: Sequence[Sent], rank: int | None, cap: int = LARGEST) -> ReleaseMean | None:
    """The mean of the devices' adapters, weighted by accepted tokens; None where no device has an adapter.

    Args:
        sent: from `sent_by_devices`.
        rank: see `average`.
        cap: largest weight of a device, because the numbers of devices cannot be checked.

    Raises:
        SettingError: see `average`.
        AdapterError: see `average`.
    """
    parts = [(each.adapter, each.push) for each in sent if each.adapter and each.push]
    if not parts:
        return None
    weights = {push.device: min(push.accepted, cap) for _, push in parts}
    return ReleaseMean(
        average([adapter for adapter, _ in parts], list(weights.values()), utc(), rank), weights
    )


def merged(caches: Sequence[CacheTable]) -> CacheTable | None:
    """What several caches know, cut to the size that a session holds."""
    if not caches:
        return None
    table = caches[0]
    for each in caches[1:]:
        table = merge(table, each)
    return bounded(table)


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


def cache_of(store: Store, release: Release | None, vocab_map: VocabMap) -> CacheTable | None:
    """The n-grams of a release; None where it has none.

    Raises:
        SyncError: the file is not the published one.
        CacheFileError: the file is refused.
    """
    if release is None or release.cache is None:
        return None
    table = decode_cache(_file(store, files_folder(release.channel), release.cache, CACHE, None))
    check_against(table, vocab_map)
    return table


@dataclass(frozen=True)
class Contents:
    """The contents of the next release.

    Attributes:
        adapter: None for none.
        cache: None for none.
        accepted: see `Release`.
        devices: see `Release`.
        days: until it expires.
    """

    adapter: Adapter | None
    cache: CacheTable | None
    accepted: int
    devices: int
    days: float


def publish(
    store: Store, channel: Channel, contents: Contents, key: "Ed25519PrivateKey", now: str | None = None
) -> Release:
    """Sign the contents and publish them under the next number.

    Args:
        store: to write to.
        channel: of the pair of models.
        contents: of the release.
        key: to sign with.
        now: ISO 8601 in UTC; the clock's time when None.

    Raises:
        SettingError: there is nothing to publish.
        SyncError: the newest release is of another key or damaged; another release was published meanwhile
            (`taken`); `read_only` or `unreachable`.
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
    decode_release(record, raw_public(key))  # refuse to publish what a device would refuse
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
    """Remove releases before the last `KEPT`, and files that no kept release names."""
    numbers = sorted(_numbers(store, channel))
    named = set()
    for number in numbers[-KEPT:]:
        try:
            release, _ = decode_release(store.read(release_name(channel, number), MOST_BYTES), None)
        except OmnidraftError:
            return  # the files of this release are unknown
        named |= {f"{file.sha256}{suffix}" for file, suffix in
                  ((release.adapter, ADAPTER), (release.cache, CACHE)) if file}  # fmt: skip
    for number in numbers[:-KEPT]:
        store.delete(release_name(channel, number))
    for name in store.names(files_folder(channel)):
        if name not in named:
            store.delete(f"{files_folder(channel)}/{name}")
