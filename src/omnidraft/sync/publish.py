"""The training side: a release of the accepted devices' mean, or of a trained adapter, that passed a trial.

Only devices whose public keys the publisher lists take part. No number of a device can be checked, so what
one device can do is bounded by what the others sent, and the result is tried on text that the publisher holds
back.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from omnidraft.errors import AdapterError, CacheFileError, SettingError, SyncError, counted, refusing
from omnidraft.learning.compare import LEAST_GENERATIONS, AdapterComparison
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import encode_adapter
from omnidraft.runtime.vocab.cache_file import encode as encode_cache
from omnidraft.runtime.vocab.cache_table import CacheTable, Counts, merge
from omnidraft.runtime.vocab.ngram_cache import CAPACITY
from omnidraft.signing import raw_public
from omnidraft.sync.average import average, bounded_norms, bounded_share, check_values, usual_rank
from omnidraft.sync.channel import HASH, PUSH_END, Channel, ChannelPair, push_name, release_name
from omnidraft.sync.pull import Trial, bounded, contents_of
from omnidraft.sync.record import MOST_BYTES, Contents, Signed, check_current, read_signed, utc, write_signed
from omnidraft.sync.store import Store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MOST_COUNT = 1 << 10  # of an n-gram in a release
MOST_DEVICES = 10_000
_MOST_LIST_BYTES = 1 << 20
_DEVICE = re.compile(rf"({HASH})(?: +([ -~]{{1,64}}))?")


@dataclass(frozen=True)
class Sent:
    """The push of a device.

    Attributes:
        device: its label in the publisher's list with the beginning of its key; the key of another device.
        accepted: tokens that its drafts were accepted for.
        adapter, cache: None where there is none, or the push is refused.
        refusal: why nothing of it is taken; None where it is.
    """

    device: str
    accepted: int = 0
    adapter: Adapter | None = None
    cache: CacheTable | None = None
    refusal: str | None = None


@dataclass(frozen=True)
class Mean:
    """The mean of the adapters of devices.

    Attributes:
        lost: the part of it that was cut off to keep the rank, 0 to 1.
        left_out: why a device's adapter is not in the mean.
    """

    adapter: Adapter
    lost: float
    weights: dict[str, int]
    left_out: dict[str, str]


def read_devices(path: Path) -> dict[str, str]:
    """The devices of a publisher: the label of each public key, from lines `KEY LABEL`.

    Raises:
        SettingError: the file cannot be read, or a line is no device.
    """
    with refusing(SettingError, f"{path} cannot be read", "check the path"):
        lines = read_whole(path, _MOST_LIST_BYTES).decode("utf-8", "replace").splitlines()
    devices = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _DEVICE.fullmatch(line.strip())
        if found is None:
            raise SettingError(
                f"{path}, line {number} is not a device",
                "write the 64 digits that `omnidraft sync push` prints, and a name if you like",
            )
        devices[found[1]] = found[2] or "device"
    if len(devices) > MOST_DEVICES:
        raise SettingError(f"{path} names more than {MOST_DEVICES} devices", "choose fewer")
    return devices


def sent_by(store: Store, pair: ChannelPair, devices: Mapping[str, str]) -> list[Sent]:
    """The pushes of the devices, each verified with its own key; others in the store are refused by key."""
    found = {name.removesuffix(PUSH_END) for name in store.names(pair.channel.id) if name.endswith(PUSH_END)}
    keys = sorted(key for key in found if re.fullmatch(HASH, key))
    known = [_sent(store, pair, key, devices[key]) for key in keys if key in devices]
    unknown = [Sent(key, refusal="its key is not among --devices") for key in keys if key not in devices]
    return known + unknown


def _sent(store: Store, pair: ChannelPair, key: str, label: str) -> Sent:
    name = f"{label} ({key[:12]})"
    try:
        signed = store.read(push_name(pair.channel, key), "push", bytes.fromhex(key))
        check_current(signed.record, pair.channel)
        adapter, cache = contents_of(signed, pair)
        if adapter is not None:
            check_values(adapter)
    except (SyncError, AdapterError, CacheFileError) as error:
        if error.fault == "unreachable":
            raise
        return Sent(name, refusal=str(error))
    return Sent(name, signed.record.accepted, adapter, cache)


def mean_of(sent: Sequence[Sent]) -> Mean | None:
    """The mean of the devices' adapters, by accepted tokens; None where no device has an adapter."""
    adapters = {each.device: each.adapter for each in sent if each.adapter is not None}
    if not adapters:
        return None
    adapters, left_out = bounded_norms(adapters)
    weights = bounded_share({each.device: each.accepted for each in sent if each.device in adapters})
    weights = {name: weights[name] for name in adapters}
    parts, shares = list(adapters.values()), list(weights.values())
    mean = average(parts, shares, utc(), usual_rank(parts, shares))
    return Mean(mean.adapter, mean.lost, weights, left_out)


def merged(devices: Sequence[CacheTable], before: CacheTable | None = None) -> CacheTable | None:
    """What several caches know, cut to the size that a session holds, without the counts of single devices.

    Args:
        devices: caches of devices; each adds at most half of the n-grams where there are several.
        before: of the newest release; None for none.
    """
    most = CAPACITY if len(devices) == 1 else CAPACITY // 2
    tables = [coarse(bounded(each, most)) for each in devices] + ([] if before is None else [before])
    if not tables:
        return None
    table = tables[0]
    for each in tables[1:]:
        table = merge(table, each)
    return bounded(table)


def coarse(table: CacheTable) -> CacheTable:
    """A cache with rounded counts: powers of two up to 1,024, and no time of any entry.

    A merged cache keeps the largest count of an entry, which is the count of one device.
    """

    def rounded(counts: Counts) -> Counts:
        powers = np.floor(np.log2(np.maximum(counts, 1).astype(np.float64)))
        return np.where(counts > 0, np.minimum(2.0**powers, MOST_COUNT), 0).astype(np.uint32)

    hits, accepted = rounded(table.hits), rounded(table.accepted)
    return replace(table, tick=0, ticks=np.zeros_like(table.ticks), hits=hits, accepted=accepted)


def tried(trial: Trial, before: Adapter | None, offered: Adapter) -> AdapterComparison:
    """The comparison of an adapter with that of the release before on text that was held back.

    Raises:
        SyncError: `too_few` recordings, or the adapter is `worse`.
    """
    comparison = trial(before, offered)
    if not comparison.is_enough:
        raise SyncError(
            f"the traces have {counted(comparison.generations, 'recorded generation')} and "
            f"{LEAST_GENERATIONS} are needed to try the adapter",
            "record more with `omnidraft generate --trace`",
            fault="too_few",
        )
    if comparison.offered < comparison.current:
        than = "the drafter without an adapter" if before is None else "the release before"
        raise SyncError(
            f"the adapter is worse than {than}: {comparison.offered:.4f} of its draft tokens would have been "
            f"accepted, and {comparison.current:.4f} of those",
            "nothing was published; look at which devices took part",
            fault="worse",
        )
    return comparison


def memory_beside(key: str | os.PathLike[str], channel: Channel) -> Path:
    """Where a publisher keeps its newest release, `team.3f2a….release` of `team.private.pem`."""
    path = Path(key)
    name = path.name.removesuffix(".pem").removesuffix(".private")
    return path.with_name(f"{name}.{channel.id[:16]}.release")


def remembered(memory: Path, pair: ChannelPair, public_key: bytes) -> Signed | None:
    """The newest release of a publisher in its own copy; None where there is none.

    The store's word is not needed for it, so nobody there can put an older release back.

    Raises:
        SyncError: the file is refused; `unreadable`.
    """
    try:
        signed = read_signed(read_whole(memory, MOST_BYTES), "release", public_key)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SyncError(
            f"{memory} cannot be read ({error.strerror})", "check its permissions", fault="unreadable"
        ) from None
    except SyncError as error:
        raise SyncError(
            f"{memory} is refused: {error}", "restore it, or move it away to begin again", fault=error.fault
        ) from None
    pair.channel.check(signed.record.channel, str(memory))
    return signed


def publish(
    store: Store,
    channel: Channel,
    contents: tuple[Adapter | None, CacheTable | None, int],
    key: "Ed25519PrivateKey",
    memory: Path,
    before: Signed | None = None,
) -> Signed:
    """Sign a release, keep a copy of it, and write it to a store.

    Args:
        contents: adapter, cache, accepted tokens.
        memory: the publisher's own copy.

    Raises:
        SettingError: there is nothing to publish.
        SyncError: `read_only`, `unreachable`, `unwritable` or `too_large`.
    """
    adapter, cache, accepted = contents
    if adapter is None and cache is None:
        raise SettingError(
            f"{store.shown} has neither adapters nor caches of accepted devices to publish",
            "let devices push and list their keys in --devices, or give --adapter",
        )
    files = Contents(
        None if adapter is None else encode_adapter(adapter),
        None if cache is None else encode_cache(cache),
        (),
        accepted,
    )
    data = write_signed("release", channel, files, key, before.record.number if before else 0)
    with refusing(
        SyncError, f"{memory} cannot be written", "keep the private key where you can write", "unwritable"
    ):
        write_atomically(memory, data)  # first, so that its number is never used again
    store.write(release_name(channel), data)
    return read_signed(data, "release", raw_public(key))
