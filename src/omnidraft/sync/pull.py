"""Verify a release on a device, compare its adapter on recorded text, and switch or stay.

Everything is checked first; then the adapter is written beside that in use, and replacing one pointer file is
the switch. A kill or a full disk leaves the adapter in use as it was.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from omnidraft.learning.compare import AdapterComparison
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import decode_adapter, encode_adapter, read_adapter
from omnidraft.runtime.models.adapter_fit import fit
from omnidraft.runtime.vocab.cache_file import decode as decode_cache
from omnidraft.runtime.vocab.cache_file import encode as encode_cache
from omnidraft.runtime.vocab.cache_store import read_table, write_table
from omnidraft.runtime.vocab.cache_table import CacheTable, check_against, eviction_order, merge
from omnidraft.runtime.vocab.ngram_cache import CAPACITY
from omnidraft.sync.channel import ChannelPair
from omnidraft.sync.installed import (
    ADAPTER,
    Installed,
    Seen,
    Used,
    claimed_directory,
    install,
    keep,
    kept,
    read_installed,
    tidy,
)
from omnidraft.sync.record import Signed, SignedRecord, check_current

Trial = Callable[[Adapter | None, Adapter], AdapterComparison]  # the adapter in use, the offered one
PullOutcome = Literal[
    "switched", "newest", "no adapter", "too few recordings", "not better", "refused before"
]


@dataclass(frozen=True)
class Device:
    """The device that pulls.

    Attributes:
        trial: compares adapters on recent traces; None takes the release without a comparison.
        own: an adapter that the device learned and has in use; None for the adapter in `into`.
        cache: the device's own n-grams, into which those of the release are merged; None for none.
    """

    pair: ChannelPair
    into: Path
    trial: Trial | None = None
    own: Path | None = None
    cache: Path | None = None


@dataclass(frozen=True)
class Pulled:
    """The result of a pull.

    Attributes:
        comparison: of the offered adapter with the one in use; None where there was no trial.
        adapter: the file in use now; None for the drafter without an adapter.
        learned: n-grams that were new to the device's own cache; None without a cache.
    """

    outcome: PullOutcome
    release: SignedRecord
    comparison: AdapterComparison | None
    adapter: Path | None
    learned: int | None
    had_adapter: bool


def pull(signed: Signed, device: Device, now: str | None = None) -> Pulled:
    """Take a verified release if it is current and its adapter is better.

    Args:
        now: ISO 8601 in UTC; the clock's time when None.

    Raises:
        SyncError: the release is refused, or the directory cannot be written.
        AdapterError: an adapter of the release or of the device is refused.
        CacheFileError: a cache of the release or of the device is refused.
    """
    channel, release = device.pair.channel, signed.record
    with claimed_directory(device.into):
        state = read_installed(device.into) or Installed(channel)
        channel.check(state.channel, f"the content of {device.into}")
        channel.check(release.channel, "the release")
        if state.seen is not None:
            state.seen.check(release)
        check_current(release, channel, now)
        offered, theirs = contents_of(signed, device.pair)
        own = None if device.cache is None else _own_table(device.cache, device)
        state = replace(state, seen=Seen(release.number, release.digest))
        state, outcome, comparison, had = _decide(state, signed, offered, device)
        if state != read_installed(device.into):
            install(device.into, state)
        tidy(device.into, state)
        learned = None if device.cache is None else _merge(device.cache, own, theirs)
    adapter = None if state.current is None else device.into / f"{state.current.file.sha256}{ADAPTER}"
    return Pulled(outcome, release, comparison, adapter, learned, had)


def contents_of(signed: Signed, pair: ChannelPair) -> tuple[Adapter | None, CacheTable | None]:
    """The adapter and the cache of a push or release, which must fit the pair of models.

    Raises:
        AdapterError, CacheFileError: one is refused.
    """
    adapter = None if signed.adapter is None else decode_adapter(signed.adapter)
    if adapter is not None:
        fit(adapter, pair.bundle, pair.vocab_map, "drafter")
    cache = None if signed.cache is None else decode_cache(signed.cache)
    if cache is not None:
        check_against(cache, pair.vocab_map)
    return adapter, cache


def _decide(
    state: Installed, signed: Signed, offered: Adapter | None, device: Device
) -> tuple[Installed, PullOutcome, AdapterComparison | None, bool]:
    """The state after a release, what became of its adapter, the comparison, and whether one was in use."""
    state, used = _with_own(state, device)
    had, release = used is not None, signed.record
    if offered is None or signed.adapter is None or release.adapter is None:
        return state, "no adapter", None, had
    new = Used(release.number, release.adapter)
    if state.current == new:
        return state, "newest", None, had
    if state.refused >= release.number:
        return state, "refused before", None, had
    comparison = None
    if used is not None and used.digest == offered.digest:
        outcome: PullOutcome = "newest"
    else:
        outcome = "switched"
        comparison = None if device.trial is None else device.trial(used, offered)
    if comparison is not None and not comparison.is_better:
        if not comparison.is_enough:  # the next pull tries the release again
            return state, "too few recordings", comparison, had
        return replace(state, refused=release.number), "not better", comparison, had
    keep(device.into, signed.adapter)
    return state.switched(new), outcome, comparison, had


def _with_own(state: Installed, device: Device) -> tuple[Installed, Adapter | None]:
    """The state, with the device's own adapter in use if it has one; and the adapter in use."""
    if device.own is not None:
        adapter = read_adapter(device.own)
        fit(adapter, device.pair.bundle, device.pair.vocab_map, "drafter")
        return state.switched(Used(0, keep(device.into, encode_adapter(adapter)))), adapter
    if state.current is None:
        return state, None
    data = kept(device.into, state.current.file)
    # An adapter that is absent or damaged cannot be in use.
    return (replace(state, current=None), None) if data is None else (state, decode_adapter(data))


def _own_table(place: Path, device: Device) -> CacheTable | None:
    """The device's own n-grams; None where it has none yet."""
    if not place.exists() or place.stat().st_size == 0:
        return None
    return read_table(place, device.pair.vocab_map)


def _merge(place: Path, own: CacheTable | None, theirs: CacheTable | None) -> int:
    """Merge a release's n-grams into the device's own; the number of new ones. Again adds nothing."""
    if theirs is None:
        return 0
    if own is None:
        write_table(place, theirs)
        return len(theirs)
    both = bounded(merge(own, theirs))
    if encode_cache(both) != encode_cache(own):
        write_table(place, both)
    return int((~np.isin(both.targets, own.targets)).sum())


def bounded(table: CacheTable, most: int = CAPACITY) -> CacheTable:
    """A cache cut to the capacity of a session; the least used n-grams are left out."""
    order = eviction_order(table.hits, table.ticks)
    return table.keep(np.sort(order[max(0, len(table) - most) :]))
