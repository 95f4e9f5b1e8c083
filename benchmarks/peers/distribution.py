"""How far the first two tokens of a decoder's texts are from the target's exact distribution."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.peers.decoders import Decoder, Transformers

FIRST_TOKENS = 64  # the likeliest, after which the second token's distribution is computed
FEWEST = 5.0  # expected draws of a pair that is counted by itself
REPEATS = 4000  # of exact draws, for the distance that chance alone gives
NEW_TOKENS = 3  # two that are counted are drafted at once, and the pass gives one more
Pair = tuple[int, int]


@dataclass(frozen=True)
class Distance:
    """Total variation between what was drawn and the exact distribution, mean over prompts.

    Attributes:
        drawn: of the decoder; 0 is equal, 1 has nothing in common.
        chance: 99 % of sets of as many exact draws are nearer than this.
    """

    drawn: float
    chance: float


def pairs(target: Transformers, prompt: Sequence[int], draws: int) -> dict[Pair, float]:
    """The exact probability of each pair of first tokens that `FEWEST` of the draws should have."""
    with torch.inference_mode():
        first = target.model(torch.tensor([list(prompt)])).logits[0, -1].double().softmax(-1)
        tokens = first.topk(FIRST_TOKENS).indices.tolist()
        texts = torch.tensor([[*prompt, token] for token in tokens])
        second = target.model(texts).logits[:, -1].double().softmax(-1)
    joint = first[tokens, None] * second
    found = (joint * draws >= FEWEST).nonzero().tolist()
    return {(tokens[i], j): float(joint[i, j]) for i, j in found}


def distance(
    decoder: Decoder, prompts: Sequence[Sequence[int]], exact: Sequence[dict[Pair, float]], draws: int
) -> Distance:
    """Draw texts at temperature 1 and compare them with the target's probabilities.

    Args:
        decoder: writes them, a seed for each.
        prompts: in target ids.
        exact: `pairs` of each prompt.
        draws: texts of each prompt.
    """
    drawn, chance = list[float](), np.zeros(REPEATS)
    for prompt, probabilities in zip(prompts, exact, strict=True):
        texts = (decoder.generate(prompt, 1.0, seed, NEW_TOKENS).tokens for seed in range(draws))
        counts = Counter((text[0], text[1]) for text in texts if len(text) > 1)
        p = with_rest(np.array(list(probabilities.values())), 1.0)
        found = with_rest(np.array([counts[pair] for pair in probabilities], dtype=float), draws) / draws
        drawn.append(float(total_variation(found, p)))
        by_chance = np.random.default_rng(0).multinomial(draws, p, REPEATS) / draws
        chance += total_variation(by_chance, p) / len(prompts)
    return Distance(sum(drawn) / len(drawn), float(np.quantile(chance, 0.99)))


def with_rest(values: npt.NDArray[np.float64], total: float) -> npt.NDArray[np.float64]:
    """The values and, as the last one, what is left of the total."""
    return np.append(values, max(0.0, total - values.sum()))


def total_variation(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Half of the sum of differences, over the last axis."""
    return np.asarray(np.abs(a - b).sum(axis=-1) / 2)
