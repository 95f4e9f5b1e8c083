"""The contents of a release: the mean of the devices' adapters and their merged n-grams, all bounded."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.vocab.cache_file import decode as decode_cache
from omnidraft.runtime.vocab.cache_table import CacheTable, Counts, check_against, merge
from omnidraft.runtime.vocab.ngram_cache import CAPACITY
from omnidraft.runtime.vocab.vocab_map import VocabMap
from omnidraft.sync.average import (
    AveragedAdapter,
    average,
    bounded_norms,
    bounded_share,
    usual_rank,
)
from omnidraft.sync.channel import files_folder, utc
from omnidraft.sync.device_pushes import Sent, verified_file
from omnidraft.sync.installed import CACHE
from omnidraft.sync.pull import bounded
from omnidraft.sync.record_lines import LARGEST
from omnidraft.sync.release import Release
from omnidraft.sync.store import Store

MOST_COUNT = 1 << 10  # of an n-gram in a release


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


@dataclass(frozen=True)
class ReleaseMean:
    """The mean of the adapters of devices.

    Attributes:
        averaged: the mean.
        weights: accepted tokens that each device counts with, by name.
        left_out: why a device's adapter is not in the mean, by name.
    """

    averaged: AveragedAdapter
    weights: dict[str, int]
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def accepted(self) -> int:
        """Accepted tokens of all devices."""
        return sum(self.weights.values())


def mean_of(sent: Sequence[Sent], rank: int | None, cap: int = LARGEST) -> ReleaseMean | None:
    """The mean of the devices' adapters, weighted by accepted tokens; None where no device has an adapter.

    No number of a device can be checked, so none of them counts without a bound (see `bounded_share`,
    `bounded_norms` and `usual_rank`).

    Args:
        sent: from `sent_by_devices`.
        rank: see `average`; the usual rank when None.
        cap: largest weight of a device, below the bound that the others set.

    Raises:
        SettingError: see `average`.
        AdapterError: see `average`.
    """
    adapters = {each.device: each.adapter for each in sent if each.adapter and each.push}
    if not adapters:
        return None
    adapters, left_out = bounded_norms(adapters)
    counts = {each.device: each.push.accepted for each in sent if each.device in adapters and each.push}
    weights = {name: min(count, cap) for name, count in bounded_share(counts).items()}
    parts = list(adapters.values())
    rank = usual_rank(parts, list(weights.values())) if rank is None else rank
    return ReleaseMean(average(parts, list(weights.values()), utc(), rank), weights, left_out)


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

    return replace(
        table,
        tick=0,
        ticks=np.zeros_like(table.ticks),
        hits=rounded(table.hits),
        accepted=rounded(table.accepted),
    )


def cache_of(store: Store, release: Release | None, vocab_map: VocabMap) -> CacheTable | None:
    """The n-grams of a release; None where it has none.

    Raises:
        SyncError: the file is not the published one.
        CacheFileError: the file is refused.
    """
    if release is None or release.cache is None:
        return None
    table = decode_cache(verified_file(store, files_folder(release.channel), release.cache, CACHE, None))
    check_against(table, vocab_map)
    return table
