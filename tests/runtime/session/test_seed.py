"""What a seed promises above temperature 0: the same drafts, the same text; and where the promise ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnidraft import GenerationConfig, LanguageModel, TextSession
from omnidraft.runtime.decoding.length_state import Costs

PROMPTS = (
    "How many legs do 3 cats have?",
    "Tell me a story.",
    "def add(a, b):",
    "One, two, three, one, two,",
)
CHEAP = Costs((1.0, 1.0, 1.0), 0.01, 0.0)  # every round drafts
TOKEN = GenerationConfig(max_new_tokens=32, temperature=1.0, num_draft_tokens=4, verification="token")
SETTINGS = {
    "token": TOKEN,
    "block": replace(TOKEN, verification="block"),
    "auto": replace(TOKEN, num_draft_tokens="auto"),
    "match": replace(TOKEN, mode="match"),
}


def fresh(loaded: LanguageModel) -> TextSession:
    session = TextSession(loaded)
    session.costs = CHEAP
    return session


def texts(session: TextSession, config: GenerationConfig) -> list[list[int]]:
    """An answer to each prompt, with a seed of its own; the session forgets what it learned between them."""
    answers = []
    for seed, prompt in enumerate(PROMPTS):
        answers.append(session.generate(prompt, config, seed=seed).finish().token_ids)
        session.reset_cache()
    return answers


@pytest.mark.parametrize("name", SETTINGS)
def test_a_seed_repeats_its_text_where_nothing_was_learned_in_between(
    loaded: LanguageModel, name: str
) -> None:
    """In the same session after `reset_cache`, and in a new one."""
    session = fresh(loaded)
    expected = texts(session, SETTINGS[name])
    assert texts(session, SETTINGS[name]) == expected
    assert texts(fresh(loaded), SETTINGS[name]) == expected
    assert session.stats.totals.drafted > 100


@pytest.mark.parametrize("mode", ["plain", "lookup"])
def test_modes_without_draws_repeat_a_text_whatever_was_learned(loaded: LanguageModel, mode: str) -> None:
    """Their drafts take no random number, so both modes give the same text."""
    config = replace(TOKEN, mode=mode)  # type: ignore[arg-type]
    expected = texts(fresh(loaded), replace(TOKEN, mode="plain"))
    session = fresh(loaded)
    for seed, prompt in enumerate(PROMPTS):
        session.generate(prompt, TOKEN, seed=99).finish()
        assert len(session.cache) > 0
        assert session.generate(prompt, config, seed=seed).finish().token_ids == expected[seed]


def test_what_the_draft_length_learned_does_not_count(loaded: LanguageModel) -> None:
    """Mode direct learns no n-grams: with "auto" nothing but the counts of drafts differs the second time."""
    session, config = fresh(loaded), replace(TOKEN, mode="direct", num_draft_tokens="auto")
    for seed, prompt in enumerate(PROMPTS):
        first, second = (session.generate(prompt, config, seed=seed).finish().token_ids for _ in range(2))
        assert first == second


def test_a_session_that_learned_draws_another_text(loaded: LanguageModel) -> None:
    """The promise ends there: other n-grams make other drafts, which take other random numbers."""
    session = fresh(loaded)
    first, second = (
        [session.generate(prompt, TOKEN, seed=seed).finish().token_ids for seed, prompt in enumerate(PROMPTS)]
        for _ in range(2)
    )
    assert first != second
