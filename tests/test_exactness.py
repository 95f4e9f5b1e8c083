"""The promise: the law of the output is the target's, at every temperature, by exact enumeration."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from enumerate_law import _Script, outcomes
from omnidraft.runtime.draft_length import FixedLength
from omnidraft.runtime.drafter import Drafter
from omnidraft.runtime.round import Mode, Pair, Settings, rule_for, speculate
from toy import GRAMS, TARGET, ContextModel, softmax, toy_cache, toy_map

PROMPT, DRAFT_PROMPT = [0, 3], [0, 3]
LENGTH = 3  # tokens whose joint law is compared
CACHES: list[Sequence[str]] = [(), ("FO",), ("FLAKE", "FO"), tuple(GRAMS)]


def law_of_output(
    mode: Mode,
    temperature: float,
    seed: int,
    count: int,
    grams: Sequence[str],
    max_new_tokens: int,
    rounds: int,
) -> dict[tuple[int, ...], float]:
    """The law of the first tokens, through the real loop, drafter, translator and verifier."""
    vocab_map = toy_map()
    drafter_model = ContextModel(2 * seed + 1, vocab_map.draft_size)
    target = ContextModel(2 * seed, vocab_map.target_size)

    def run(script: _Script) -> tuple[int, ...]:
        drafter_model.rewind(0)
        pair = Pair(target, Drafter(drafter_model), toy_cache(vocab_map, grams))
        settings = Settings(rule_for(mode, temperature), temperature, max_new_tokens, ())
        emitted: list[int] = []
        loop = speculate(pair, PROMPT, DRAFT_PROMPT, settings, FixedLength(count), script)
        for _ in range(rounds):
            found = next(loop, None)
            if found is None:
                break
            emitted += found.emitted
        return tuple(emitted)

    law: dict[tuple[int, ...], float] = defaultdict(float)
    for emitted, probability in outcomes(run):
        law[emitted] += probability
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    return law


def total_variation(law: dict[tuple[int, ...], float], temperature: float, seed: int) -> float:
    """Distance to the target's own law of LENGTH tokens; short outputs go on by the target's law."""
    target = ContextModel(2 * seed, len(TARGET))

    def p(context: tuple[int, ...]) -> npt.NDArray[np.float64]:
        row = target.row([*PROMPT, *context])
        if temperature == 0.0:
            point: npt.NDArray[np.float64] = np.eye(len(row))[int(np.argmax(row))]
            return point
        return softmax(row, temperature)

    found: dict[tuple[int, ...], float] = defaultdict(float)

    def go_on(context: tuple[int, ...], weight: float) -> None:
        if weight <= 0.0:
            return
        if len(context) >= LENGTH:
            found[context[:LENGTH]] += weight
            return
        for token, chance in enumerate(p(context)):
            go_on((*context, token), weight * float(chance))

    wanted: dict[tuple[int, ...], float] = {}

    def ancestral(context: tuple[int, ...], weight: float) -> None:
        if len(context) == LENGTH:
            wanted[context] = weight
            return
        for token, chance in enumerate(p(context)):
            ancestral((*context, token), weight * float(chance))

    for context, weight in law.items():
        go_on(context, weight)
    ancestral((), 1.0)
    return 0.5 * sum(abs(found[key] - wanted.get(key, 0.0)) for key in {*found, *wanted})


@pytest.mark.parametrize("temperature", [0.4, 1.0])
@pytest.mark.parametrize("grams", CACHES, ids=lambda g: f"{len(g)}grams")
def test_a_trie_round_has_the_targets_law(temperature: float, grams: Sequence[str]) -> None:
    count = 3 if grams == CACHES[1] else 2  # three draft tokens once: every node of the trie within reach
    law = law_of_output("trie", temperature, len(grams), count, grams, 16, rounds=1)
    assert total_variation(law, temperature, len(grams)) < 1e-9


@pytest.mark.parametrize("mode", ["match", "direct", "plain"])
def test_a_round_of_the_other_modes_has_the_targets_law(mode: Mode) -> None:
    law = law_of_output(mode, 1.0, 3, 2, tuple(GRAMS), 16, rounds=1)
    assert total_variation(law, 1.0, 3) < 1e-9


@pytest.mark.parametrize("mode", ["trie", "match", "direct", "paper", "plain"])
def test_greedy_is_exact_in_every_mode(mode: Mode) -> None:
    for grams in CACHES:
        law = law_of_output(mode, 0.0, len(grams), 5, grams, LENGTH, rounds=LENGTH)
        assert total_variation(law, 0.0, len(grams)) < 1e-9


@pytest.mark.parametrize("count", [1, 3])
def test_every_draft_length_has_the_targets_law(count: int) -> None:
    law = law_of_output("trie", 1.0, 5, count, ("FLAKE",), 16, rounds=1)
    assert total_variation(law, 1.0, 5) < 1e-9


def test_whole_generations_have_the_targets_law() -> None:
    """Rounds after rounds, with a cache that learns in between and a limit inside accepted blocks."""
    law = law_of_output("trie", 1.0, 7, 1, ("FO",), 2, rounds=2)
    assert {len(emitted) for emitted in law} == {2}
    assert total_variation(law, 1.0, 7) < 1e-9


def test_the_papers_rule_is_not_exact_at_temperature_one() -> None:
    distances = [
        total_variation(law_of_output("paper", 1.0, seed, 2, ("FO",), 16, rounds=1), 1.0, seed)
        for seed in range(2)
    ]
    assert max(distances) > 1e-3, distances


def test_drafting_is_used() -> None:
    """The enumeration would pass with a drafter that does nothing: several tokens a round must occur."""
    law = law_of_output("trie", 1.0, 0, 2, tuple(GRAMS), 16, rounds=1)
    assert sum(weight for emitted, weight in law.items() if len(emitted) > 1) > 0.2
