"""Runner of `draft_length`: plans by costs and outcomes, over texts; the choice of `auto`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

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
        _drive(length, text["records"], expect)
        for name, value in asdict(state).items():
            assert close(value, expect["state"][name]), name


def _drive(length: MeasuredLength, records: list[list[Any]], expect: Vector) -> None:
    plans, last = [], None
    for times, match, *counts in records:
        for _ in range(times):
            plan = length.next(match)
            plans.append([plan.source, plan.count, plan.fresh])
            last = plan if plan.source == "draft" else last
            length.record(_counts(match, *counts))
    assert plans == [list(each) for times, *each in expect["plans"] for _ in range(int(times))]
    assert (last is None) == (expect["last_draft"] is None)
    if last is not None:
        for name in ("chances", "worth", "least"):
            assert close(list(getattr(last, name)), expect["last_draft"][name]), name


def _counts(
    match: int, classes: list[int], evaluated: int, accepted: int, emitted: int, agreed: int
) -> RoundCounts:
    return RoundCounts(classes, evaluated, accepted, emitted, match, agreed)
