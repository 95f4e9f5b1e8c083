"""What a device does with a release: verify it, try it in shadow, and switch to it or stay.

Everything is downloaded and checked beside what is in use; one pointer file makes the switch. A process that
is killed, a network that breaks off and a disk that is full leave what was in use.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from omnidraft.errors import SyncError
from omnidraft.learning.compare import AdapterComparison
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.signature import PublicKey, read_public_key
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import decode_adapter, encode_adapter, read_adapter
from omnidraft.runtime.models.adapter_fit import fit
from omnidraft.runtime.vocab.cache_file import decode as decode_cache
from omnidraft.runtime.vocab.cache_file import encode as encode_cache
from omnidraft.runtime.vocab.cache_store import read_table, write_table
from omnidraft.runtime.vocab.cache_table import CacheTable, check_against, eviction_order, merge
from omnidraft.runtime.vocab.ngram_cache import CAPACITY
from omnidraft.runtime.vocab.vocab_map import VocabMap
from omnidraft.sync.channel import channel_of_bundle, files_folder, latest_name, utc
from omnidraft.sync.installed import (
    ADAPTER,
    CACHE,
    Installed,
    Used,
    claimed_directory,
    install,
    keep,
    kept,
    read_installed,
    tidy,
)
from omnidraft.sync.release import (
    MOST_BYTES,
    Channel,
    Release,
    Seen,
    StoredFile,
    check_release,
    decode_release,
)
from omnidraft.sync.store import Progress, Store, short

Trial = Callable[[Adapter | None, Adapter], AdapterComparison]  # the adapter in use, the offered one
Outcome = Literal["switched", "kept", "newest", "refused before", "no adapter"]
WhyNot = Literal["too few recordings", "not better", "not better before"]


@dataclass(frozen=True)
class Device:
    """What is pulled for.

    Attributes:
        into: the directory of `sync/installed.py`.
        public_key: of the signer; None leaves signatures unchecked, where none was ever checked.
        trial: compares adapters on recent traces; None where there are none, and then the release is taken.
        own: an adapter that the device learned by itself and has in use; None for what the directory has.
        cache: the device's own n-grams, which the release's are merged into.
        again: try once more what was refused before.
    """

    bundle: Bundle
    vocab_map: VocabMap
    into: Path
    public_key: PublicKey | None = None
    trial: Trial | None = None
    own: Path | None = None
    cache: Path | None = None
    again: bool = False

    @property
    def channel(self) -> Channel:
        """Of the bundle."""
        return channel_of_bundle(self.bundle, self.vocab_map)


@dataclass(frozen=True)
class Pulled:
    """What a pull did.

    Attributes:
        shadow: how the offered adapter compared; None where it was not tried.
        adapter: the file in use now; None for the drafter as it is.
        had_adapter: whether there was an adapter that the offered one was compared with.
        learned: n-grams that were new to the device's own cache; None where none was given.
        key: id of the key that the signature was checked with.
    """

    outcome: Outcome
    release: Release
    shadow: AdapterComparison | None
    adapter: Path | None
    learned: int | None
    key: str | None
    had_adapter: bool

    @property
    def why_not_taken(self) -> WhyNot | None:
        """Why the release's adapter is not in use; None where it is, or where it has none."""
        if self.outcome == "refused before":
            return "not better before"
        if self.outcome != "kept" or self.shadow is None:
            return None
        return "not better" if self.shadow.is_enough else "too few recordings"


def pull(store: Store, device: Device, progress: Progress | None = None, now: str | None = None) -> Pulled:
    """Take the newest release up if it is right and better.

    Raises:
        SyncError: it is refused, or the store cannot be reached, or the directory cannot be written.
        AdapterError, CacheFileError: a file of it is refused, or one of the device's own.
    """
    key = None if device.public_key is None else read_public_key(device.public_key)
    with claimed_directory(device.into):
        state = _state(device, key)
        data = _latest(store, device)
        release, signer = decode_release(data, key)
        check_release(release, device.channel, state.seen, now or utc())
        offered = _files(store, release, device, progress)
        state, outcome, found = _decide(state, release, offered, device)
        state = replace(state, seen=Seen(release.number, StoredFile.of(release.text).sha256))
        state = replace(state, key=signer or state.key, cache=release.cache or state.cache)
        if state != read_installed(device.into):
            install(device.into, state)
        tidy(device.into, state)
        learned = None if device.cache is None else _merge(device, state)
        used = state.current
        had = (state.previous if outcome == "switched" else used) is not None
    adapter = None if used is None else device.into / f"{used.file.sha256}{ADAPTER}"
    return Pulled(outcome, release, found, adapter, learned, signer, had)


def _state(device: Device, key: bytes | None) -> Installed:
    state = read_installed(device.into)
    if state is None:
        return Installed(device.channel)
    device.channel.check(state.channel, f"what {device.into} holds")
    if state.key is not None and key is None:
        raise SyncError(
            f"releases in {device.into} were checked with key {state.key} so far",
            "give that public key",
            fault="unsigned",
        )
    return state


def _latest(store: Store, device: Device) -> bytes:
    try:
        return store.read(latest_name(device.channel), MOST_BYTES)
    except SyncError as error:
        if error.fault != "missing":
            raise
        raise SyncError(
            f"{store.shown} has no release for the pair of models of {device.bundle.path.name}",
            "check the store's address and the bundle, or ask whoever publishes there",
            fault="missing",
        ) from None


def _files(store: Store, release: Release, device: Device, progress: Progress | None) -> Adapter | None:
    """Have all files of a release in the directory, each verified; its adapter."""
    adapter = None
    if release.adapter is not None:
        data = _file(store, release, release.adapter, ADAPTER, device.into, progress)
        adapter = decode_adapter(data)
        fit(adapter, device.bundle, device.vocab_map, "drafter")
        _keep(device.into, data, ADAPTER)
    if release.cache is not None:
        data = _file(store, release, release.cache, CACHE, device.into, progress)
        check_against(decode_cache(data), device.vocab_map)
        _keep(device.into, data, CACHE)
    return adapter


def _keep(place: Path, data: bytes, suffix: str) -> StoredFile:
    """Put a file into the directory, if it is not there."""
    file = StoredFile.of(data)
    return file if kept(place, file, suffix) is not None else keep(place, data, suffix)


def _file(
    store: Store, release: Release, file: StoredFile, suffix: str, place: Path, progress: Progress | None
) -> bytes:
    data = kept(place, file, suffix)
    if data is None:
        name = f"{files_folder(release.channel)}/{file.sha256}{suffix}"
        data = store.read(name, file.size, progress, file.size)
        file.check(data, f"{short(name)} in {store.shown}")
    return data


def _decide(
    state: Installed, release: Release, offered: Adapter | None, device: Device
) -> tuple[Installed, Outcome, AdapterComparison | None]:
    """The state after a release, whether its adapter is used, and how it compared."""
    if offered is None or release.adapter is None:
        return _with_own(state, device)[0], "no adapter", None
    new = Used(release.number, release.adapter)
    if state.current == new and device.own is None:
        return state, "newest", None
    if state.refused >= release.number and not device.again:
        return _with_own(state, device)[0], "refused before", None
    state, used = _with_own(state, device)
    if used is not None and used.digest == offered.digest:
        return state.switched(new), "newest", None
    if device.trial is None:
        return state.switched(new), "switched", None
    found = device.trial(used, offered)
    if found.is_better:
        return replace(state.switched(new), refused=0), "switched", found
    # With too little text to tell the next pull tries again.
    return replace(state, refused=release.number if found.is_enough else state.refused), "kept", found


def _with_own(state: Installed, device: Device) -> tuple[Installed, Adapter | None]:
    """The state with the device's own adapter in use, if one is given; and the adapter in use."""
    if device.own is not None:
        adapter = read_adapter(device.own)
        fit(adapter, device.bundle, device.vocab_map, "drafter")
        return state.switched(Used(0, _keep(device.into, encode_adapter(adapter), ADAPTER))), adapter
    if state.current is None:
        return state, None
    data = kept(device.into, state.current.file, ADAPTER)
    # One that is gone or damaged cannot be in use.
    return (replace(state, current=None), None) if data is None else (state, decode_adapter(data))


def _merge(device: Device, state: Installed) -> int | None:
    """Merge the newest release's n-grams into the device's own; how many were new. Twice does no more."""
    assert device.cache is not None
    data = None if state.cache is None else kept(device.into, state.cache, CACHE)
    if data is None:
        return 0
    theirs = decode_cache(data)
    if not device.cache.exists() or device.cache.stat().st_size == 0:
        write_table(device.cache, theirs)
        return len(theirs)
    own = read_table(device.cache, device.vocab_map)
    both = bounded(replace(merge(own, theirs), writer=own.writer))
    if encode_cache(both) != encode_cache(own):
        write_table(device.cache, both)
    return int((~np.isin(both.targets, own.targets)).sum())


def bounded(table: CacheTable) -> CacheTable:
    """A cache as large as a session holds, its least used n-grams left out."""
    order = eviction_order("lfu", table.hits, table.ticks, table.targets)
    return table.keep(np.sort(order[max(0, len(table) - CAPACITY) :]))
