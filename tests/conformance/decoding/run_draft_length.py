"""Runner of `draft_length`: lengths by costs and outcomes, over texts, with a head; the choice of `auto`."""

from __future__ import annotations

from conformance.vectors import DEFAULTS, Vector
from omnidraft.runtime.decoding.draft_length import Costs, MeasuredLength
from omnidraft.runtime.decoding.verifier import block_pays


def run_draft_length(vector: Vector) -> None:
    given = vector["input"]
    costs = given["costs"]
    measured = Costs(**{**costs, "target": tuple(costs["target"])})
    if "vocab_size" in given:
        pays = block_pays(measured.round_seconds(DEFAULTS["block"]["usual_draft"]), given["vocab_size"])
        assert ("block" if pays else "token") == vector["expect"]["verification"]
        return
    if "rounds" in given:
        return _run_headed(vector, measured)
    if "texts" in given:
        return _run_texts(vector, measured)
    _drive(MeasuredLength(measured, unread=given["unread"]), given["records"], vector["expect"]["lengths"])


def _run_texts(vector: Vector, measured: Costs) -> None:
    before: MeasuredLength | None = None
    for given, expect in zip(vector["input"]["texts"], vector["expect"]["texts"], strict=True):
        length = MeasuredLength(measured, unread=given["unread"], limit=given["limit"])
        if before is not None:
            length.follow(before)
        _drive(length, given["records"], expect["lengths"])
        before = length


def _drive(length: MeasuredLength, records: list[list[int]], expected: list[list[int]]) -> None:
    lengths = []
    for times, *record in records:
        for _ in range(times):
            lengths.append(length.next())
            length.record(*record)
    assert lengths == [each for times, each in expected for _ in range(times)]


def _run_headed(vector: Vector, measured: Costs) -> None:
    length = MeasuredLength(measured, head_threshold=vector["input"]["threshold"])
    for given, expect in zip(vector["input"]["rounds"], vector["expect"]["rounds"], strict=True):
        if "unread" in given:  # the next text begins
            before = length
            length = MeasuredLength(
                measured, unread=given["unread"], head_threshold=vector["input"]["threshold"]
            )
            length.follow(before)
        assert length.next() == expect["length"]
        assert [length.more(drawn, survival) for drawn, survival in given["asks"]] == expect["more"]
        length.record(*given["record"])
