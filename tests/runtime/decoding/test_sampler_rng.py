"""Random numbers that are the same in every language, and draws from distributions by the inverse CDF."""

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.distribution import Categorical, OneHot
from omnidraft.runtime.decoding.sampling import (
    SamplingConfig,
    check_temperature,
    draft_distribution,
    target_distribution,
)

Weights = npt.NDArray[np.floating]


def plain_inverse(weights: Weights, uniform: float) -> tuple[int, float]:
    """The first index whose cumulative share exceeds `uniform`, and how far the nearest edge is."""
    cumulative = np.cumsum(weights.astype(np.float64)) / weights.sum(dtype=np.float64)
    index = int(np.argmax(cumulative > uniform)) if (cumulative > uniform).any() else len(weights) - 1
    return index, float(np.abs(cumulative - uniform).min())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1, 2, 511, 512, 513, 1024, 1025, 5000])
def test_draw_is_the_inverse_cdf(size: int, dtype: type[np.floating]) -> None:
    """Block sums change a draw only by rounding, close to an edge of the cumulative distribution."""
    rng = np.random.default_rng(size)
    logits = (rng.normal(size=size) * 3).astype(dtype)
    distribution = target_distribution(logits, SamplingConfig(1.0))
    weights = np.exp(logits.astype(np.float64) - logits.max())
    closest = 1e-12 if dtype is np.float64 else 1e-6
    compared = 0
    for uniform in [0.0, 0.5, 1.0 - 2.0**-53, *rng.random(800).tolist()]:
        expected, distance = plain_inverse(weights, uniform)
        if distance > closest:
            compared += 1
            assert distribution.draw(uniform) == expected
    assert compared > 700


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [3, 512, 513, 1500])
def test_a_weight_of_zero_is_never_drawn(size: int, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(size)
    weights = rng.random(size).astype(dtype)
    weights[rng.random(size) < 0.8] = 0.0
    weights[[0, -1]] = 0.0
    weights[size // 2] = 1.0
    distribution = Categorical(weights)
    for uniform in [0.0, np.nextafter(1.0, 0.0), *rng.random(500).tolist()]:
        assert weights[distribution.draw(float(uniform))] > 0.0
    among = np.flatnonzero(rng.random(size) < 0.9).astype(np.int32)
    among = np.union1d(among, [size // 2]).astype(np.int32)
    for uniform in [0.0, np.nextafter(1.0, 0.0), *rng.random(100).tolist()]:
        drawn = distribution.draw(float(uniform), among)
        assert drawn in among and weights[drawn] > 0.0


def test_a_weight_of_zero_is_not_drawn_where_the_sum_rounds_up() -> None:
    """A share of a sum below the smallest normal number is the sum itself, and leads past the last weight."""
    tiny = 5e-324
    assert 0.9 * tiny == tiny
    assert Categorical(np.array([tiny, 0.0])).draw(0.9, np.array([0, 1])) == 0
    weights = np.zeros(512)
    weights[3] = tiny
    assert Categorical(weights).draw(0.9) == 3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_probabilities_sum_to_one_and_mass_is_their_sum(dtype: type[np.floating]) -> None:
    logits = (np.random.default_rng(0).normal(size=2000) * 4).astype(dtype)
    distribution = target_distribution(logits, SamplingConfig(0.7))
    ids = np.arange(2000, dtype=np.int32)
    expected = np.exp((logits.astype(np.float64) - logits.max()) / 0.7)
    expected /= expected.sum()
    assert distribution.probability(ids) == pytest.approx(expected, rel=1e-4, abs=1e-9)
    assert distribution.probability(ids).sum() == pytest.approx(1.0, abs=1e-6)
    assert distribution.mass(ids[:50]) == pytest.approx(distribution.probability(ids[:50]).sum(), abs=1e-6)


def test_the_logits_are_left_as_they_were() -> None:
    logits = np.array([1.0, 5.0, 2.0], dtype=np.float32)
    for temperature in (0.0, 0.5, 1.0):
        target_distribution(logits, SamplingConfig(temperature))
    assert logits.tolist() == [1.0, 5.0, 2.0]


@pytest.mark.parametrize("temperature", [0.01, 1e-4])
def test_a_cold_distribution_without_its_likeliest_token_is_still_a_distribution(temperature: float) -> None:
    """The banned token is so much larger that the weights of all others are 0 in float64."""
    for dtype in (np.float64, np.float32):
        row = np.array([1.0, 2.0, 30.0, 1.99], dtype)
        distribution = draft_distribution(row, temperature, np.array([2]))
        p = distribution.probability(np.arange(4))
        assert p.sum() == pytest.approx(1.0) and p[2] == 0.0
        assert p[3] / p[1] == pytest.approx(np.exp((float(row[3]) - 2.0) / temperature), rel=1e-5, abs=1e-37)
        assert distribution.draw(0.3) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_under_a_mask(dtype: type[np.floating]) -> None:
    weights = np.random.default_rng(1).random(1100).astype(dtype)
    mask = (np.random.default_rng(2).random(1100) < 0.5).astype(np.float32)
    for distribution in (Categorical(weights), OneHot(7, 1100)):
        each = distribution.probability(np.arange(1100)) * mask
        assert distribution.masked(mask, np.empty(1100)) == pytest.approx(each, abs=1e-9)
        assert distribution.mass_under(mask) == pytest.approx(each.sum(), abs=1e-6)


@pytest.mark.parametrize("temperature", [1e-46, 1e-300, 5e-5])
def test_a_temperature_too_small_to_divide_by_is_refused(temperature: float) -> None:
    with pytest.raises(SettingError, match="use 0 for greedy"):
        check_temperature(temperature)
