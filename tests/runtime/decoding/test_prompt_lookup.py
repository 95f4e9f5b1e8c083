"""Copies of the context as proposals, and the log-probabilities of the output."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.prompt_lookup import PromptLookup
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from support.configs import config_of
from support.toy import DRAFT, GRAMS, TARGET, ContextModel, processed, toy_cache, toy_map


def copied(tokens: list[int], count: int) -> list[int]:
    return list(PromptLookup().find(tokens).tokens[:count])


@pytest.mark.parametrize(
    ("tokens", "count", "expected"),
    [
        ([1, 2, 7, 8, 9, 1, 2], 3, [7, 8, 9]),
        ([1, 2, 7, 1, 2, 8, 1, 2], 1, [8]),  # the latest occurrence
        ([0, 1, 2, 7, 3, 1, 2, 8, 0, 1, 2], 1, [7]),  # a longer match beats a later one
        ([9, 9, 9], 4, [9, 9, 9, 9]),  # the copy runs into itself
        ([4, 5, 4, 5], 5, [4, 5, 4, 5, 4]),
        ([1, 7, 1], 2, []),  # one token is not enough for a match
        ([1, 2], 2, []),
        ([3], 2, []),
    ],
)
def test_what_is_copied(tokens: list[int], count: int, expected: list[int]) -> None:
    assert copied(tokens, count) == expected


def test_a_context_that_grows_gives_what_a_fresh_look_gives() -> None:
    rng = np.random.default_rng(0)
    tokens, lookup = [0], PromptLookup()
    for _ in range(200):
        tokens += rng.integers(0, 3, size=rng.integers(1, 4)).tolist()
        assert lookup.find(tokens) == PromptLookup().find(tokens)


class Unused(ContextModel):
    """A drafter's model that fails when it is asked."""

    def row(self, context: Sequence[int]) -> npt.NDArray[np.float64]:
        raise AssertionError("mode lookup has no drafter")


class Repeating(ContextModel):
    """Repeats its last seven tokens, with a probability near 1."""

    def row(self, context: Sequence[int]) -> npt.NDArray[np.float64]:
        logits: npt.NDArray[np.float64] = super().row(context).copy()
        logits[context[-7:][0]] += 9.0
        return logits


@pytest.mark.parametrize("count", [1, 2, 8, 48])
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_greedy_output_is_plain_output_without_a_drafter(count: int, penalty: float) -> None:
    prompt = [0, 3, 1, 5, 2, 8, 9, 0, 3, 1]
    target = Repeating(1, len(TARGET), max_length=128)
    sampling = SamplingConfig(repetition_penalty=penalty)
    models = DecoderModels(target, Drafter(Unused(1, len(DRAFT))), toy_cache(toy_map(), ()))
    config = config_of("lookup", sampling, 60)
    rounds = list(decode_prompt(models, prompt, [], config, FixedLength(count), SplitMix64(0)))
    output = [token for r in rounds for token in r.emitted]
    expected: list[int] = []
    while len(expected) < 60:
        before = [*prompt, *expected]
        expected.append(int(np.argmax(processed(target.row(before), sampling, before))))
    assert output == expected
    if penalty == 1.0:
        assert len(rounds) < 60 / min(count, 3)  # copies are proposed, and accepted


@pytest.mark.parametrize("temperature", [0.9, 0.0])
@pytest.mark.parametrize("mode", ["trie", "lookup", "plain"])
def test_logprobs_are_of_the_distribution_that_was_sampled_from(mode: str, temperature: float) -> None:
    """At temperature 0 of the softmax of the penalised logits, because the distribution itself is certain."""
    sampling = SamplingConfig(temperature, top_k=6, top_p=0.95, min_p=0.02, repetition_penalty=1.4)
    distribution = sampling if temperature else SamplingConfig(1.0, repetition_penalty=1.4)
    prompt = [0, 3, 1, 0, 3]
    target = Repeating(0, len(TARGET))
    models = DecoderModels(target, Drafter(ContextModel(1, len(DRAFT))), toy_cache(toy_map(), tuple(GRAMS)))
    config = config_of(mode, sampling, 30, logprobs=True)
    rounds = list(decode_prompt(models, prompt, [0, 3], config, FixedLength(3), SplitMix64(5)))
    tokens = list(prompt)
    for each in rounds:
        for token, logprob in zip(each.emitted, each.logprobs, strict=True):
            p = processed(target.row(tokens), distribution, tokens)
            assert logprob == pytest.approx(float(np.log(p[token])), abs=1e-9)
            tokens.append(token)
    assert any(r.accepted for r in rounds) or mode == "plain"
    assert min(x for r in rounds for x in r.logprobs) < -0.01


def test_logprobs_are_left_out_unless_asked_for() -> None:
    models = DecoderModels(
        ContextModel(0, len(TARGET)), Drafter(ContextModel(1, len(DRAFT))), toy_cache(toy_map(), ())
    )
    config = config_of("trie", SamplingConfig(1.0), 5)
    rounds = list(decode_prompt(models, [0], [0], config, FixedLength(3), SplitMix64(5)))
    assert all(r.logprobs == () for r in rounds)
