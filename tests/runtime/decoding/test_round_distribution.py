"""Monte-Carlo: the output of the loop has the target's distribution, with toy models and a real bundle."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft import load
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.modes import Mode
from support.configs import config_of
from support.toy import softmax, toy_cache
from support.toy_round import PROMPT, Toy

SAMPLES = 4000
COMPARED_TOKENS = 2


def exact_distribution(toy: Toy) -> dict[tuple[int, ...], float]:
    distribution: dict[tuple[int, ...], float] = {}
    first = softmax(toy.target.row(PROMPT), 1.0)
    for a, chance in enumerate(first.tolist()):
        second = softmax(toy.target.row([*PROMPT, a]), 1.0)
        distribution |= {(a, b): chance * after for b, after in enumerate(second.tolist())}
    return distribution


def p_value(counts: Counter[tuple[int, ...]], distribution: dict[tuple[int, ...], float]) -> float:
    """Pearson's chi-square of counts against a distribution.

    Outcomes that are expected less than 8 times share one bin.
    """
    total = counts.total()
    bins = [(counts[key], chance * total) for key, chance in distribution.items() if chance * total >= 8]
    seen, expected = (sum(column) for column in zip(*bins, strict=True))
    bins.append((total - seen, max(total - expected, 1e-9)))
    if bins[-1][1] < 8:  # too few for a bin of their own: join the last bin
        (o, e), (p, f) = bins.pop(), bins.pop()
        bins.append((o + p, e + f))
    degrees = len(bins) - 1
    statistic = sum((observed - mean) ** 2 / mean for observed, mean in bins)
    spread = 2 / (9 * degrees)  # Wilson and Hilferty: the cube root is nearly normal
    deviation = ((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(deviation / math.sqrt(2))


def sample(toy: Toy, mode: Mode, grams: Sequence[str]) -> Counter[tuple[int, ...]]:
    """The first tokens of many generations by the real loop, each with a new cache."""
    random, counts = SplitMix64(2024), Counter[tuple[int, ...]]()
    config = config_of(mode, SamplingConfig(1.0), COMPARED_TOKENS + 1)
    for _ in range(SAMPLES):
        toy.draft_model.rewind(0)
        models = DecoderModels(toy.target, Drafter(toy.draft_model), toy_cache(toy.vocab_map, grams))
        output: list[int] = []
        for each in decode_prompt(models, PROMPT, [0, 3], config, FixedLength(3), random):
            output += each.emitted
            if len(output) >= COMPARED_TOKENS:
                break
        counts[tuple(output[:COMPARED_TOKENS])] += 1
    return counts


@pytest.mark.parametrize("mode", ["trie", "match", "direct"])
def test_samples_have_the_targets_distribution(mode: Mode) -> None:
    toy = Toy(0)
    assert p_value(sample(toy, mode, ("FLAKE", "FO")), exact_distribution(toy)) > 1e-4


def test_the_chi_square_has_power() -> None:
    """It refuses the paper's rule, and a distribution that is slightly wrong."""
    toy = Toy(0)
    assert p_value(sample(toy, "paper", ("FLAKE", "FO")), exact_distribution(toy)) < 1e-4
    counts = sample(toy, "match", ())
    (common, chance), *_ = sorted(exact_distribution(toy).items(), key=lambda item: -item[1])
    off = {key: p * (1 - 1.3 * chance) / (1 - chance) for key, p in exact_distribution(toy).items()}
    off[common] = 1.3 * chance
    assert p_value(counts, off) < 1e-4


def test_samples_of_a_real_bundle_have_the_targets_distribution(bundle: Path) -> None:
    """Two tokens at temperature 1 in mode trie, with rewound KV caches, against scored probabilities."""
    session = load(bundle)
    target, text = session.models.target, "Once upon a time"
    prompt = session.encode(text, raw=True)
    draft_prompt = session.loaded.draft_prompt(prompt)

    def scored(ids: Sequence[int]) -> npt.NDArray[np.float64]:
        target.rewind(0)
        return softmax(target.score(ids, num_logits=1)[-1].astype(np.float64), 1.0)

    first = scored(prompt)
    likely = [int(t) for t in np.argsort(-first)[:12]]
    distribution: dict[tuple[int, ...], float] = {
        (a, int(b)): float(first[a] * second[b])
        for a in likely
        for second in [scored([*prompt, a])]
        for b in np.flatnonzero(second > 1e-4)
    }
    random, counts, accepted = SplitMix64(7), Counter[tuple[int, ...]](), 0
    config = config_of("trie", SamplingConfig(1.0), 3)
    models = DecoderModels(session.models.target, session.models.drafter, session.cache)
    session.cache.prefill()
    for _ in range(1000):
        output: list[int] = []
        rounds = decode_prompt(models, prompt, draft_prompt, config, FixedLength(3), random)
        for each in rounds:
            output += each.emitted
            accepted += each.accepted
            if len(output) >= 2:
                break
        counts[tuple(output[:2])] += 1
    assert accepted > 100, "the test needs accepted drafts"
    assert p_value(counts, distribution) > 1e-4
