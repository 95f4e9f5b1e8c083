"""Vectors of `random`: the generator, its uniforms, and draws from weights."""

from itertools import islice

from vectorlib.reference.random_source import Chance, inverse_cdf, splitmix64, uniforms_of
from vectorlib.writer import VectorWriter, vector

SEEDS = {
    "seed_0": (0, "the seed that a weak generator would get stuck at"),
    "seed_1": (1, "neighbouring seeds give unrelated numbers"),
    "seed_1234567": (1234567, "the example that is published for SplitMix64"),
    "seed_all_ones": ((1 << 64) - 1, "the largest seed: additions wrap at 2^64"),
    "seed_high_bit": (1 << 63, "a seed that is negative where 64 bits are signed"),
    "seed_random": (0x0123456789ABCDEF, "any other seed"),
}
PUBLISHED = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]

DRAWS = [
    ("draw_even", "four equal weights: each takes a quarter", [1.0, 1.0, 1.0, 1.0], [0.1, 0.3, 0.6, 0.9]),
    ("draw_unnormalised", "weights need not add up to 1", [2.0, 6.0], [0.24, 0.26]),
    ("draw_zero_first", "uniform 0 never draws a weight of zero", [0.0, 0.0, 3.0, 1.0], [0.0, 0.7, 0.8]),
    ("draw_zero_between", "a zero inside is stepped over", [1.0, 0.0, 0.0, 1.0], [0.49, 0.5, 0.51]),
    ("draw_zero_last", "nothing is drawn behind the last weight", [1.0, 1.0, 0.0, 0.0], [0.99, 0.9999999]),
    ("draw_border", "a uniform on a border belongs to the next index", [1.0, 1.0, 2.0], [0.25, 0.5, 0.0]),
    ("draw_single", "one index has it all, and still takes a uniform", [0.0, 5.0, 0.0], [0.0, 0.5, 0.999]),
    ("draw_tiny", "weights far below 1", [1e-200, 3e-200], [0.2, 0.3]),
    ("draw_huge_range", "a weight that the other hides", [1.0, 1e-30], [0.0, 0.5, 0.9999999999]),
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
    writer.vectors(
        "random",
        "draws",
        [
            vector(
                name,
                why,
                {"weights": weights, "uniforms": us},
                {"indices": [inverse_cdf(weights, u) for u in us]},
            )
            for name, why, weights, us in DRAWS
        ],
    )
    writer.vectors("random", "questions", [_questions()])


def _questions() -> dict[str, object]:
    """What takes a uniform and what does not."""
    chance = Chance(iter([0.3, 0.3, 0.9, 0.5]))
    probabilities = [0.5, 0.0, 1.0, 0.2, 1.5, -0.5, 0.95]
    answers = [chance.accept(p) for p in probabilities]
    return vector(
        "accept_takes_no_uniform_when_sure",
        "only a probability strictly between 0 and 1 asks the generator",
        {"accept": probabilities, "uniforms": chance.used},
        {"answers": answers},
    )
