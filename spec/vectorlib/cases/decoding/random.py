"""Vectors of `random`: the generator, its uniforms, and draws from weights."""

from itertools import islice

from vectorlib.reference.random_source import RandomSource, inverse_cdf, splitmix64, uniforms_of
from vectorlib.writer import VectorWriter, vector

SEEDS = {
    "seed_0": (0, "a weak generator stays at 0 for ever"),
    "seed_1": (1, "neighbouring seeds give unrelated numbers"),
    "seed_1234567": (1234567, "the published example for SplitMix64"),
    "seed_all_ones": ((1 << 64) - 1, "the largest seed: additions wrap at 2^64"),
    "seed_high_bit": (1 << 63, "a seed that is negative where 64 bits are signed"),
    "seed_random": (0x0123456789ABCDEF, "any other seed"),
}
PUBLISHED = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]

DRAWS = [
    ("draw_even", "four equal weights: each takes a quarter", [1.0, 1.0, 1.0, 1.0], [0.1, 0.3, 0.6, 0.9]),
    ("draw_unnormalised", "weights need not add up to 1", [2.0, 6.0], [0.24, 0.26]),
    ("draw_zero_first", "uniform 0 never draws a weight of zero", [0.0, 0.0, 3.0, 1.0], [0.0, 0.7, 0.8]),
    (
        "draw_zero_between",
        "a weight of zero between others is skipped",
        [1.0, 0.0, 0.0, 1.0],
        [0.49, 0.5, 0.51],
    ),
    (
        "draw_zero_last",
        "ids after the last positive weight are never drawn",
        [1.0, 1.0, 0.0, 0.0],
        [0.99, 0.9999999],
    ),
    ("draw_edge", "a uniform on an edge belongs to the next index", [1.0, 1.0, 2.0], [0.25, 0.5, 0.0]),
    (
        "draw_single",
        "one index has all the weight, and the draw still takes a uniform",
        [0.0, 5.0, 0.0],
        [0.0, 0.5, 0.999],
    ),
    ("draw_tiny", "weights far below 1", [1e-30, 3e-30], [0.2, 0.3]),
    (
        "draw_huge_range",
        "a weight that is lost in the sum with the other",
        [1.0, 1e-30],
        [0.0, 0.5, 0.9999999999],
    ),
]


def write(writer: VectorWriter) -> None:
    assert list(islice(splitmix64(1234567), 4)) == PUBLISHED
    bits, uniforms = [], []
    for name, (seed, why) in SEEDS.items():
        given = {"seed": f"{seed:#018x}"}
        expected = [f"{x:#018x}" for x in islice(splitmix64(seed), 6)]
        bits.append(vector(f"u64_{name}", why, given, {"u64": expected}))
        expect = {"uniforms": list(islice(uniforms_of(seed), 6))}
        uniforms.append(vector(f"uniform_{name}", "the upper 53 bits over 2^53", given, expect))
    writer.vectors("random", "u64", bits)
    writer.vectors("random", "uniforms", uniforms)
    draws = []
    for name, why, weights, drawn in DRAWS:
        expect = {"indices": [inverse_cdf(weights, u) for u in drawn]}
        draws.append(vector(name, why, {"weights": weights, "uniforms": drawn}, expect))
    writer.vectors("random", "draws", draws)
    writer.vectors("random", "questions", [_questions()])


def _questions() -> dict[str, object]:
    """Which questions take a uniform."""
    random = RandomSource(iter([0.3, 0.3, 0.9, 0.5, 0.0]), margin=0.0)
    probabilities = [0.5, 0.0, 1.0, 0.2, 1.5, -0.5, 0.95, 0.5, 0.25]
    answers = [random.bernoulli(p) for p in probabilities]
    return vector(
        "bernoulli_takes_no_uniform_when_certain",
        "only a probability strictly between 0 and 1 takes a uniform; a uniform equal to it answers false",
        {"bernoulli": probabilities, "uniforms": random.used},
        {"answers": answers},
    )
