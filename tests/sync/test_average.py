"""The mean of adapters: of their products, exact at the sum of the ranks and the nearest below."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidraft.errors import AdapterError, SettingError
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.sync.average import average, size
from support.adapters import CREATED, OPEN, SITES, adapter

WIDE = LoraSites(None, {"layers.0.o": Site(24, (("o", 30),)), "layers.0.down": Site(20, (("down", 24),))})


def added(one: Adapter, site: str) -> np.ndarray:
    a, b = one.tensors[site]
    return a.astype(np.float64) @ b.astype(np.float64)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 10**6)), min_size=1, max_size=4), st.integers(0, 99)
)
def test_at_the_sum_of_the_ranks_the_mean_is_exact(parts: list[tuple[int, int]], seed: int) -> None:
    adapters = [adapter(rank, seed + i, sites=WIDE) for i, (rank, _) in enumerate(parts)]
    weights = np.array([weight for _, weight in parts], dtype=np.float64)
    weights[0] += 1
    mean = average(adapters, weights.tolist(), CREATED, rank=sum(rank for rank, _ in parts))
    assert mean.lost < 1e-6
    for site in WIDE.sites:
        expected = sum(
            w * added(each, site) for w, each in zip(weights / weights.sum(), adapters, strict=True)
        )
        np.testing.assert_allclose(added(mean.adapter, site), expected, atol=1e-5)


def test_a_smaller_rank_is_the_nearest_there_is() -> None:
    adapters = [adapter(4, seed, sites=WIDE) for seed in range(3)]
    whole = average(adapters, [1, 2, 3], CREATED, rank=12).adapter
    left = total = 0.0
    for rank in (1, 4, 7):
        mean = average(adapters, [1, 2, 3], CREATED, rank=rank)
        left = total = 0.0
        for site in WIDE.sites:
            values = np.linalg.svd(added(whole, site), compute_uv=False)
            error = np.linalg.norm(added(whole, site) - added(mean.adapter, site))
            assert error == pytest.approx(np.sqrt((values[rank:] ** 2).sum()), rel=1e-4)  # Eckart and Young
            left, total = left + float(error) ** 2, total + float((values**2).sum())
        assert mean.lost == pytest.approx(np.sqrt(left / total), rel=1e-4)
        assert mean.adapter.rank == rank
    assert average(adapters, [1, 2, 3], CREATED).adapter.rank == 4  # the largest of them by default


def test_a_weight_of_0_and_an_adapter_of_zeros() -> None:
    one, two = adapter(2, 1), adapter(3, 2)
    alone = average([one, two], [5, 0], CREATED).adapter
    for site in SITES:
        np.testing.assert_allclose(added(alone, site), added(one, site), atol=1e-6)
    assert alone.rank == 2
    nothing = replace(one, tensors={s: (np.zeros_like(a), b) for s, (a, b) in one.tensors.items()})
    mean = average([nothing], [1], CREATED)
    assert mean.lost == 0.0 and mean.adapter.rank == 1 and size(mean.adapter) == 0.0


def test_the_size_is_that_of_what_is_added() -> None:
    one = adapter(3, 1)
    expected = np.sqrt(sum(np.linalg.norm(added(one, site)) ** 2 for site in SITES))
    assert size(one) == pytest.approx(expected, rel=1e-6)


def test_the_result_fits_where_its_parts_fit() -> None:
    mean = average([adapter(2, 1), adapter(3, 2)], [1, 1], CREATED).adapter
    mean.check_fits(OPEN)
    assert (mean.base, mean.draft_tokenizer, mean.created) == ("a" * 64, "d" * 64, CREATED)


def test_what_cannot_be_averaged() -> None:
    one = adapter(2, 1)
    for weights in ([0.0], [-1.0], [1.0, 2.0], [float("nan")], [float("inf")]):
        with pytest.raises(SettingError, match="each with its accepted tokens"):
            average([one], weights, CREATED)
    with pytest.raises(SettingError, match="0 adapters"):
        average([], [], CREATED)
    with pytest.raises(SettingError, match="2 different bases"):
        average([one, replace(one, base="b" * 64)], [1, 1], CREATED)
    with pytest.raises(SettingError, match="rank 0 is outside"):
        average([one], [1], CREATED, rank=0)
    huge = {site: (np.full_like(a, 3e38), np.full_like(b, 3e38)) for site, (a, b) in one.tensors.items()}
    assert np.isfinite(size(replace(one, tensors=huge)))
    with pytest.raises(AdapterError, match="not finite"):
        average([replace(one, tensors=huge)], [1], CREATED)
