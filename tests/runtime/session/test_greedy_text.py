"""Greedy text with the starter bundles is the target's own, with any draft length and any cache."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from omnidraft.runtime.session.api import load

UNSEEN = 50
NEW_TOKENS = 48


@pytest.fixture
def starter_bundles(bundle: Path, bundle_b: Path) -> dict[str, Path]:
    return {"a": bundle, "b": bundle_b}


@pytest.mark.parametrize("name", ["a", "b"])
def test_greedy_speculation_says_what_the_target_says(
    name: str, starter_bundles: dict[str, Path], data: Path
) -> None:
    """50 unseen GSM8K questions: the ids of speculative decoding are those of plain decoding."""
    with gzip.open(data / "tasks/gsm8k/test.jsonl.gz", "rt", encoding="utf-8") as file:
        questions = [json.loads(line)["question"] for line, _ in zip(file, range(UNSEEN), strict=False)]
    assert len(questions) == UNSEEN
    session = load(starter_bundles[name])
    rounds = emitted = 0
    for question in questions:
        plain = session.generate(question, mode="plain", max_new_tokens=NEW_TOKENS).finish()
        fast = session.generate(question, num_draft_tokens=4, max_new_tokens=NEW_TOKENS).finish()
        assert fast.token_ids == plain.token_ids, question
        rounds, emitted = rounds + fast.statistics.rounds, emitted + fast.statistics.emitted
    assert len(session.cache) > 0
    assert emitted / rounds > 1.3, "the drafter saves almost nothing"


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 48])
def test_every_draft_length_says_what_the_target_says(
    name: str, count: int, starter_bundles: dict[str, Path]
) -> None:
    """With an empty, a full and a wrong cache."""
    session = load(starter_bundles[name])
    prompt = "Tom buys 3 books for $7 each and 2 pens for $1.50 each. How much does he pay?"
    plain = session.generate(prompt, mode="plain", max_new_tokens=NEW_TOKENS).finish().token_ids
    for fill in ("nothing", "everything", "what never comes"):
        session.reset_cache()
        if fill == "everything":
            session.cache.prefill()
        elif fill == "what never comes":
            others = [int(t) for t in session.vocab_map.leaves if int(t) not in plain]
            assert sum(session.cache.insert(t) for t in others) > 1000
        fast = session.generate(prompt, num_draft_tokens=count, max_new_tokens=NEW_TOKENS).finish()
        assert fast.token_ids == plain, fill
