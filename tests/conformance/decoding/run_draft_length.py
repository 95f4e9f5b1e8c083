"""Runner of `draft_length`: plans by costs and outcomes, over texts; the choice of `auto`."""

from __future__ import annotations

from dataclasses import asdict

from conformance.vectors import Vector, close
from omnidraft import defaults
from omnidraft.runtime.decoding.draft_length import MeasuredLength, RoundCounts
from omnidraft.runtime.decoding.length_state import Costs, LengthState
from omnidraft.runtime.decoding.verifier import block_pays


def run_draft_length(vector: Vector) -> None:
    given = vector["input"]
    costs = given["costs"]
    measured = Costs(**{**costs, "target": tuple(costs["target"])})
    if "vocab_size" in given:
        pays = block_pays(measured.round_seconds(defaults.BLOCK_USUAL_DRAFT), given["vocab_size"])
        assert ("block" if pays else "token") == vector["expect"]["verification"]
        return
    state = LengthState()
    for text, expect in zip(given["texts"], vector["expect"]["texts"], strict=True):
        state.begin_text(*text["context"])
        length = MeasuredLength(measured, state, drafts=given["drafts"], copies=True)
        _drive(length, text["records"], expect["plans"])
        for name, value in asdict(state).items():
            assert close(value, expect["state"][name]), name


def _drive(length: MeasuredLength, records: list[list[int]], expected: list[list[object]]) -> None:
    plans = []
    for times, match, *counts in records:
        for _ in range(times):
            plan = length.next(match)
            plans.append([plan.source, plan.count, plan.fresh])
            length.record(_counts(match, *counts))
    assert plans == [list(each) for times, *each in expected for _ in range(int(str(times)))]


def _counts(
    match: int, drafted: int, evaluated: int, accepted: int, emitted: int, agreed: int
) -> RoundCounts:
    return RoundCounts(drafted, evaluated, accepted, emitted, match, agreed)
