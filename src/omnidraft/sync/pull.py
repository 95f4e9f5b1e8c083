"""Fetch the newest release on a device, verify it, compare its adapter, and switch or stay.

All files are downloaded and checked beside those in use; replacing one pointer file is the switch. A kill, a
broken connection or a full disk leaves the files in use as they were.
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
from omnidraft.sync.published import seen_of
from omnidraft.sync.record_lines import Channel, StoredFile
from omnidraft.sync.release import MOST_BYTES, Release, check_release, decode_release
from omnidraft.sync.store import Store, TransferProgress, short

Trial = Callable[[Adapter | None, Adapter], AdapterComparison]  # the adapter in use, the offered one
PullOutcome = Literal["switched", "kept", "newest", "refused before", "no adapter"]
WhyNot = Literal["too few recordings", "not better", "not better before"]


@dataclass(frozen=True)
class Device:
    """The device that pulls.

    Attributes:
        bundle: of the device.
        vocab_map: of the bundle.
        into: the directory of `sync/installed.py`.
        public_key: of the signer; None leaves signatures unchecked, which is allowed where none was checked
            before.
        trial: compares adapters on recent traces; None takes the release without a comparison.
        own: an adapter that the device learned and has in use; None for the adapter in `into`.
        cache: the device's own n-grams, into which those of the release are merged; None for none.
        again: try a release again that was refused before.
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
        """The channel of the bundle."""
        return channel_of_bundle(self.bundle, self.vocab_map)


@dataclass(frozen=True)
class Pulled:
    """The result of a pull.

    Attributes:
        outcome: of the release's adapter.
        release: the newest release.
        comparison: of the offered adapter with the one in use; None where there was no trial.
        adapter: the file in use now; None for the drafter without an adapter.
        learned: n-grams that were new to the device's own cache; None without a cache.
        key: id of the key that the signature was checked with; None where it was not checked.
        had_adapter: whether an adapter was in use before.
    """

    outcome: PullOutcome
    release: Release
    comparison: AdapterComparison | None
    adapter: Path | None
    learned: int | None
    key: str | None
    had_adapter: bool

    @property
    def why_not_taken(self) -> WhyNot | None:
        """Why the release's adapter is not in use; None where it is in use, or where the release has none."""
        if self.outcome == "refused before":
            return "not better before"
        if self.outcome != "kept" or self.comparison is None:
            return None
        return "not better" if self.comparison.is_enough else "too few recordings"


def pull(
    store: Store, device: Device, progress: TransferProgress | None = None, now: str | None = None
) -> Pulled:
    """Take the newest release if it is valid and its adapter is better.

    Args:
        store: to read from.
        device: that pulls.
        progress: called after each chunk.
        now: ISO 8601 in UTC; the clock's time when None.

    Raises:
        SyncError: the release is refused, the store cannot be reached, or the directory cannot be written.
        AdapterError: an adapter of the release or of the device is refused.
        CacheFileError: a cache of the release or of the device is refused.
    """
    key = None if device.public_key is None else read_public_key(device.public_key)
    with claimed_directory(device.into):
        state = _state(device, key)
        data = _latest(store, device)
        release, signer = decode_release(data, key)
        check_release(release, device.channel, state.seen, now or utc())
        # Kept at once: who withholds a file of this release cannot offer an older release afterwards.
        state = replace(state, seen=seen_of(release), key=signer or state.key)
        if state != read_installed(device.into):
            install(device.into, state)
        offered = _files(store, release, device, progress)
        state, outcome, comparison = _decide(state, release, offered, device)
        state = replace(state, cache=release.cache or state.cache)
        if state != read_installed(device.into):
            install(device.into, state)
        tidy(device.into, state)
        learned = None if device.cache is None else _merge(device, state)
        used = state.current
        had = (state.previous if outcome == "switched" else used) is not None
    adapter = None if used is None else device.into / f"{used.file.sha256}{ADAPTER}"
    return Pulled(outcome, release, comparison, adapter, learned, signer, had)


def _state(device: Device, key: bytes | None) -> Installed:
    state = read_installed(device.into)
    if state is None:
        return Installed(device.channel)
    device.channel.check(state.channel, f"the content of {device.into}")
    if state.key is not None and key is None:
        raise SyncError(
            f"releases in {device.into} were checked with key {state.key} so far",
            "give that public key",
            fault="unsigned",
        )
    if state.key is None and key is not None:  # what nobody signed does not count against what is signed
        return replace(state, seen=None, refused=0)
    return state


def _latest(store: Store, device: Device) -> bytes:
    try:
        return store.read(latest_name(device.channel), MOST_BYTES)
    except SyncError as error:
        if error.fault != "missing":
            raise
        if store.is_absent:
            raise SyncError(
                f"there is no store {store.shown}", "check its address", fault="missing"
            ) from None
        raise SyncError(
            f"{store.shown} has no release for the pair of models of {device.bundle.path.name}",
            "check the store's address and the bundle, or ask its publisher",
            fault="missing",
        ) from None


def _files(
    store: Store, release: Release, device: Device, progress: TransferProgress | None
) -> Adapter | None:
    """Put all files of a release into the directory, each verified; return the adapter."""
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
    """Put a file into the directory if it is absent or damaged."""
    file = StoredFile.of(data)
    return file if kept(place, file, suffix) is not None else keep(place, data, suffix)


def _file(
    store: Store,
    release: Release,
    file: StoredFile,
    suffix: str,
    place: Path,
    progress: TransferProgress | None,
) -> bytes:
    data = kept(place, file, suffix)
    if data is None:
        name = f"{files_folder(release.channel)}/{file.sha256}{suffix}"
        data = store.read(name, file.size, progress, file.size)
        file.check(data, f"{short(name)} in {store.shown}")
    return data


def _decide(
    state: Installed, release: Release, offered: Adapter | None, device: Device
) -> tuple[Installed, PullOutcome, AdapterComparison | None]:
    """The state after a release, what happened to its adapter, and the comparison."""
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
    comparison = device.trial(used, offered)
    if comparison.is_better:
        return replace(state.switched(new), refused=0), "switched", comparison
    # With too few generations the next pull tries the release again.
    refused = release.number if comparison.is_enough else state.refused
    return replace(state, refused=refused), "kept", comparison


def _with_own(state: Installed, device: Device) -> tuple[Installed, Adapter | None]:
    """The state, with the device's own adapter in use if it has one; and the adapter in use."""
    if device.own is not None:
        adapter = read_adapter(device.own)
        fit(adapter, device.bundle, device.vocab_map, "drafter")
        return state.switched(Used(0, _keep(device.into, encode_adapter(adapter), ADAPTER))), adapter
    if state.current is None:
        return state, None
    data = kept(device.into, state.current.file, ADAPTER)
    # An adapter that is absent or damaged cannot be in use.
    return (replace(state, current=None), None) if data is None else (state, decode_adapter(data))


def _merge(device: Device, state: Installed) -> int | None:
    """Merge the newest release's n-grams into the device's cache; the number of new ones. Repeating it adds
    nothing.
    """
    assert device.cache is not None
    data = None if state.cache is None else kept(device.into, state.cache, CACHE)
    if data is None:
        return 0
    theirs = decode_cache(data)
    if not device.cache.exists() or device.cache.stat().st_size == 0:
        write_table(device.cache, theirs)
        return len(theirs)
    own = read_table(device.cache, device.vocab_map)
    both = bounded(merge(own, theirs))
    if encode_cache(both) != encode_cache(own):
        write_table(device.cache, both)
    return int((~np.isin(both.targets, own.targets)).sum())


def bounded(table: CacheTable, most: int = CAPACITY) -> CacheTable:
    """A cache cut to the capacity of a session; the least used n-grams are left out."""
    order = eviction_order("lfu", table.hits, table.ticks, table.targets)
    return table.keep(np.sort(order[max(0, len(table) - most) :]))
