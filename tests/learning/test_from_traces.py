"""From recorded generations to training positions; `learner/trace` of the vectors has what they become."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.learning.positions.from_traces import OPEN, TraceAligner, joined
from omnidraft.runtime.traces.trace import WINDOW, Start, Traced, TracedRound, window
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.toy import DRAFT, TARGET, toy_map
from support.trace_files import random_round, token

TOYS = TraceAligner(Aligner(full_trie(toy_map()), max_length=400), (DRAFT.index("#"),))


def test_another_target_is_refused() -> None:
    traced = Traced(Start(None, None, "trie", False, 0, (0, 3, 1)), (random_round(np.random.default_rng(0)),))
    other = replace(traced, start=replace(traced.start, target_adapter="ab" * 32))
    with pytest.raises(
        SettingError, match="is of the target with adapter abababababab and not with no adapter"
    ):
        TOYS.align(other)
    with pytest.raises(SettingError, match="with no adapter and not with adapter abababababab"):
        replace(TOYS, target_adapter="ab" * 32).align(traced)
    assert replace(TOYS, target_adapter="ab" * 32).align(other) is not None


def test_a_record_that_continues_another_is_spelled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A push may hold any number of records; joining them must not take their square."""
    count, spelled, spell = 30_000, 0, VocabMap.spell

    def counted(self: VocabMap, target_id: int) -> list[int]:
        nonlocal spelled
        spelled += 1
        assert spelled <= count
        return spell(self, target_id)

    monkeypatch.setattr(VocabMap, "spell", counted)
    rng = np.random.default_rng(0)
    each = TracedRound((replace(token(rng, False), token_id=TARGET.index("S")),))
    text = (DRAFT.index("s"),) * WINDOW
    records = (
        Traced(Start(None, None, "trie", n > 0, max(0, n + 1 - WINDOW), text[: n + 1]), (each,))
        for n in range(count)
    )
    (whole,) = joined(records, toy_map())
    assert whole.rounds == (each,) * count and not whole.start.continues
    assert spelled == count


def test_generations_that_take_turns_are_joined() -> None:
    """Each is cut anywhere, and some are longer than the text that a record repeats."""
    rng, spell = np.random.default_rng(1), toy_map().spell
    rounds = [random_round(rng) for _ in range(50)]
    parts: list[list[Traced]] = []
    for number in range(OPEN):
        text, records = [number % 3] * (number + 1), []
        for cut in range(int(rng.integers(2, 9))):
            some = tuple(rounds[int(i)] for i in rng.integers(len(rounds), size=rng.integers(1, 400)))
            records.append(Traced(Start(None, None, "trie", cut > 0, *window(text)), some))
            text += [d for each in records[-1].tokens for d in spell(each.token_id)]
        parts.append(records)
    assert any(records[-1].start.skipped for records in parts)
    order = rng.permutation([number for number, records in enumerate(parts) for _ in records]).tolist()
    left = [iter(records) for records in parts]
    found = {each.start: each.rounds for each in joined([next(left[n]) for n in order], toy_map())}
    assert found == {
        records[0].start: tuple(each for record in records for each in record.rounds) for records in parts
    }
