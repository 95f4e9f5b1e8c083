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
from support.toy import DRAFT, TARGET, ContextModel, processed, toy_cache, toy_map


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
