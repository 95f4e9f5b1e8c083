"""The loop: speculative output is plain output, for every drafter, cache and map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Draft, Drafter
from omnidraft.runtime.decoding.proposer import respell
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.translator import Proposal
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.modes import Mode
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from support.configs import config_of
from support.toy import DRAFT, GRAMS, TARGET, toy_cache, toy_map
from support.toy_round import MAPS, PROMPT, Echo, Toy, caches

SPECULATIVE: list[Mode] = ["trie", "match", "direct", "paper"]
COUNTS = [1, 2, 3, 5, 8, 48]


# Greedy identity


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("mode", SPECULATIVE)
@pytest.mark.parametrize("which", MAPS)
def test_greedy_output_is_plain_output(which: str, mode: Mode, count: int) -> None:
    """For every number of draft tokens, every mode, every cache, right and wrong maps."""
    for seed in range(2):
        toy = Toy(seed, vocab_map=MAPS[which]())
        expected = toy.plain()
        assert len(expected) == 40
        for name, cache in caches(toy.vocab_map).items():
            assert toy.output(mode, count, cache) == expected, name


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("mode", SPECULATIVE)
def test_greedy_output_is_plain_output_with_a_good_drafter(mode: Mode, count: int) -> None:
    """A drafter that is right makes long accepted blocks, and the output is still the target's."""
    toy = Toy(3)
    expected = toy.plain()
    toy.draft_model = Echo(toy.target, toy.vocab_map, expected)
    cache = NgramCache(toy.vocab_map)
    cache.prefill()
    rounds = list(toy.rounds(mode, count, cache))
    assert [t for r in rounds for t in r.emitted] == expected
    if mode != "direct" and count > 1:
        assert len(rounds) < 0.75 * len(expected)


def test_a_long_draft_token_stays_where_all_of_its_target_tokens_were_accepted() -> None:
    draft, proposal = Draft([DRAFT.index("sfo"), 1]), Proposal([0, 1, 4, 1], ends=[1, 1, 1, 2])
    assert respell(draft, proposal, [0, 1, 4, 1, 8], toy_map()) == [6, 1]
    assert respell(draft, proposal, [0, 1, 5], toy_map()) == [0, 1, 1, 2, 3]


class Scrambled(Drafter):
    """A drafter with a wrong context: the true one reversed, without every second token."""

    def propose(self, context: Sequence[int], *rest: object, **named: object) -> object:  # type: ignore[override]
        return super().propose([0, *context[::-2]], *rest, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("mode", SPECULATIVE)
def test_the_drafters_context_is_free(mode: Mode, count: int) -> None:
    """A wrong draft prompt, and a wrong context in every round, change speed only."""
    for seed in range(3):
        toy = Toy(seed, draft_prompt=[6, 5, 5, 2, 0] * 7)
        assert toy.output(mode, count, toy_cache(toy.vocab_map, list(GRAMS))) == toy.plain()
        models = DecoderModels(toy.target, Scrambled(toy.draft_model), NgramCache(toy.vocab_map))
        toy.draft_model.rewind(0)
        config = config_of(mode, SamplingConfig(), 40)
        rounds = decode_prompt(models, PROMPT, [1], config, FixedLength(count), SplitMix64(0))
        assert [t for r in rounds for t in r.emitted] == toy.plain()


# Where it ends


@pytest.mark.parametrize("mode", SPECULATIVE)
@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_max_new_tokens_is_exact(mode: Mode, most: int) -> None:
    """Also where it falls inside an accepted block."""
    toy = Toy(3)
    toy.draft_model = Echo(toy.target, toy.vocab_map, toy.plain())
    rounds = list(toy.rounds(mode, 8, toy_cache(toy.vocab_map, list(GRAMS)), most=most))
    assert [t for r in rounds for t in r.emitted] == toy.plain(most)
    assert toy.target.length <= len(PROMPT) + most - 1


@pytest.mark.parametrize("mode", SPECULATIVE)
@pytest.mark.parametrize("count", COUNTS)
def test_the_output_ends_with_the_first_end_of_sequence(mode: Mode, count: int) -> None:
    for seed in range(2):
        for eos in range(len(TARGET)):
            toy = Toy(seed, eos_ids=(eos,))
            expected = toy.plain()
            cache = toy_cache(toy.vocab_map, list(GRAMS))
            rounds = list(toy.rounds(mode, count, cache))
            assert [t for r in rounds for t in r.emitted] == expected
            assert toy.target.length == len(PROMPT) + len(expected) - 1


@pytest.mark.parametrize("mode", SPECULATIVE)
@pytest.mark.parametrize("count", [0, 1, 3, 8])
@pytest.mark.parametrize("room", [0, 1, 2, 5])
def test_a_full_context_ends_cleanly(mode: Mode, count: int, room: int) -> None:
    """Every position is used: after a prompt that fills the context there is one token, and no pass fails."""
    toy = Toy(4, target_length=len(PROMPT) + room)
    output = toy.output(mode, count, toy_cache(toy.vocab_map, list(GRAMS)))
    assert output == toy.plain()
    assert len(output) == room + 1


@pytest.mark.parametrize("mode", SPECULATIVE)
@pytest.mark.parametrize(("drafter_length", "count"), [(8, 2), (8, 6), (12, 8), (20, 3), (64, 48)])
def test_a_short_drafter_slides_its_window(mode: Mode, drafter_length: int, count: int) -> None:
    """The drafter's context is much shorter than the text; ContextModel refuses a pass beyond its end."""
    toy = Toy(5, drafter_length=drafter_length, draft_prompt=[0, 3, 1] * 10)
    assert toy.output(mode, count, toy_cache(toy.vocab_map, list(GRAMS)), most=100) == toy.plain(100)
    assert toy.draft_model.length > 0


@pytest.mark.parametrize("mode", SPECULATIVE)
def test_a_failure_of_the_drafters_model_is_raised(mode: Mode) -> None:
    """In the round in which it happens; the rounds before keep their text."""
    toy = Toy(6)
    score = toy.draft_model.score

    def failing(tokens: Sequence[int], num_logits: int | None = None) -> npt.NDArray[np.float64]:
        if toy.draft_model.passes == 5:
            raise MemoryError("no memory for a pass")
        return score(tokens, num_logits)

    toy.draft_model.score = failing  # type: ignore[method-assign]
    emitted: list[int] = []

    def follow() -> None:
        for each in toy.rounds(mode, 2, NgramCache(toy.vocab_map)):
            emitted.extend(each.emitted)

    with pytest.raises(MemoryError, match="no memory for a pass"):
        follow()
    assert toy.draft_model.passes == 5 and 0 < len(emitted) < 40
    assert emitted == toy.plain()[: len(emitted)]


# What is spent


@pytest.mark.parametrize("mode", SPECULATIVE)
def test_the_drafter_never_proposes_a_control_token(mode: Mode) -> None:
    toy = Toy(8)
    control = DRAFT.index("#")
    seen = [
        d
        for t in (0.0, 1.0)
        for r in toy.rounds(mode, 6, NgramCache(toy.vocab_map), most=60, temperature=t)
        for d in r.draft
    ]
    assert len(seen) > 100 and control not in seen
    if mode == "direct":
        assert all(toy.vocab_map.direct[d] >= 0 for d in seen)
