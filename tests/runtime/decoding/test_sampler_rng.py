"""Random numbers that are the same in every language, and draws from distributions by the inverse CDF."""

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.distribution import Categorical, OneHot
from omnidraft.runtime.decoding.rng import SplitMix64, fresh_seed
from omnidraft.runtime.decoding.sampling import (
    SamplingConfig,
    check_temperature,
    draft_distribution,
    target_distribution,
)

Weights = npt.NDArray[np.floating]

# Published with the generator: seed 1234567 (Rosetta Code), seed 0 (the Java and Rust test suites).
REFERENCE = {
    1234567: [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ],
    0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC],
}


@pytest.mark.parametrize("seed", REFERENCE)
def test_splitmix64_gives_the_published_numbers(seed: int) -> None:
    rng = SplitMix64(seed)
    assert [rng.next_u64() for _ in REFERENCE[seed]] == REFERENCE[seed]


def test_a_seed_counts_modulo_two_to_the_64() -> None:
    assert SplitMix64(1 << 64).next_u64() == SplitMix64(0).next_u64()
    assert SplitMix64(-1).next_u64() == SplitMix64((1 << 64) - 1).next_u64()


def test_uniform_is_the_upper_53_bits() -> None:
    bits, floats = SplitMix64(9), SplitMix64(9)
    drawn = [floats.uniform() for _ in range(2000)]
    assert drawn == [(bits.next_u64() >> 11) / 2**53 for _ in range(2000)]
    assert 0.0 <= min(drawn) < 0.01 and 0.99 < max(drawn) < 1.0
    assert np.mean(drawn) == pytest.approx(0.5, abs=0.02)


def test_a_question_with_one_answer_takes_no_number() -> None:
    """Greedy decoding never changes the generator, so its output cannot depend on the seed."""
    rng = SplitMix64(3)
    distribution = target_distribution(np.array([0.0, 1.0]), SamplingConfig(1.0))
    assert rng.sample(target_distribution(np.array([0.0, 1.0]), SamplingConfig(0.0))) == 1
    assert rng.sample(distribution, np.array([0], dtype=np.int32)) == 0
    assert rng.bernoulli(1.0) and rng.bernoulli(1.5) and not rng.bernoulli(0.0) and not rng.bernoulli(-1.0)
    assert rng.state == 3
    rng.bernoulli(0.5)
    assert rng.state != 3


def test_bernoulli_and_categorical_keep_their_odds() -> None:
    rng = SplitMix64(5)
    accepted = sum(rng.bernoulli(0.3) for _ in range(20_000)) / 20_000
    assert accepted == pytest.approx(0.3, abs=0.015)
    weights = np.array([0.0, 2.0, 0.0, 6.0, 0.0])
    counts = np.bincount([rng.categorical(weights) for _ in range(20_000)], minlength=5)
    assert counts[[0, 2, 4]].sum() == 0
    assert counts[1] / 20_000 == pytest.approx(0.25, abs=0.015)


def test_fresh_seeds_differ() -> None:
    seeds = {fresh_seed() for _ in range(10)}
    assert len(seeds) == 10 and all(0 <= seed < 1 << 64 for seed in seeds)


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


def test_an_edge_belongs_to_the_next_token() -> None:
    """With equal weights, a power of two of them, every edge is exact, also between blocks."""
    distribution = Categorical(np.ones(2048, dtype=np.float32))
    assert [distribution.draw(i / 2048) for i in range(2048)] == list(range(2048))
    assert [distribution.draw((i + 1) / 2048 - 2.0**-53) for i in range(2048)] == list(range(2048))


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


def test_a_block_of_zeros_is_passed_over() -> None:
    weights = np.zeros(2048)
    weights[[100, 1700]] = 1.0
    distribution = Categorical(weights)
    assert {distribution.draw(u) for u in np.linspace(0.0, 0.4999, 50)} == {100}
    assert {distribution.draw(u) for u in np.linspace(0.5001, 0.9999, 50)} == {1700}


def test_a_restricted_draw_renormalises() -> None:
    distribution = Categorical(np.array([1.0, 2.0, 3.0, 4.0]))
    among = np.array([3, 1], dtype=np.int32)  # in the order given: 4/6, then 2/6
    assert [distribution.draw(u, among) for u in (0.0, 0.66, 0.67, 0.99)] == [3, 3, 1, 1]


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


def test_greedy_takes_the_lowest_id_of_a_tie() -> None:
    distribution = target_distribution(np.array([1.0, 7.0, 3.0, 7.0]), SamplingConfig(0.0))
    assert isinstance(distribution, OneHot) and distribution.is_certain
    assert [distribution.draw(u) for u in (0.0, 0.5, 0.99)] == [1, 1, 1]
    assert distribution.probability(np.array([0, 1, 3], dtype=np.int32)).tolist() == [0.0, 1.0, 0.0]
    assert distribution.mass(np.array([0, 3], dtype=np.int32)) == 0.0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_banned_draft_token_has_no_probability(temperature: float) -> None:
    logits = np.array([0.0, 9.0, 1.0, 1.0], dtype=np.float32)
    distribution = draft_distribution(logits, temperature, np.array([1]))
    assert logits.tolist() == [0.0, 9.0, 1.0, 1.0]
    assert distribution.probability(np.array([1], dtype=np.int32)).tolist() == [0.0]
    assert {distribution.draw(u) for u in np.linspace(0.0, 0.999, 30)} == (
        {2} if temperature == 0.0 else {0, 2, 3}
    )


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


def test_a_distribution_without_some_tokens_is_renormalised() -> None:
    distribution = Categorical(np.array([1.0, 2.0, 3.0, 4.0])).without(np.array([1, 3]))
    assert distribution.probability(np.arange(4)) == pytest.approx([0.25, 0.0, 0.75, 0.0])


@pytest.mark.parametrize("temperature", [-0.1, float("nan"), float("inf"), float("-inf")])
def test_a_temperature_that_is_none_is_refused(temperature: float) -> None:
    with pytest.raises(
        SettingError, match=rf"temperature {temperature} is not a finite number >= 0; use 0 for"
    ):
        check_temperature(temperature)


@pytest.mark.parametrize("temperature", [0.0, 0.01, 1.0, 2.0])
def test_a_temperature_that_is_one_passes(temperature: float) -> None:
    assert check_temperature(temperature) == temperature


@pytest.mark.parametrize("temperature", [1e-46, 1e-300, 5e-5])
def test_a_temperature_too_small_to_divide_by_is_refused(temperature: float) -> None:
    with pytest.raises(SettingError, match="use 0 for greedy"):
        check_temperature(temperature)


def test_the_smallest_temperature_is_nearly_greedy() -> None:
    distribution = target_distribution(np.array([1.0, 3.0, 2.0], dtype=np.float32), SamplingConfig(1e-4))
    assert distribution.probability(np.arange(3, dtype=np.int32)).tolist() == [0.0, 1.0, 0.0]
