"""Runners of `random`, `sampling`, `draft_length`, `lookup` and `utf8`."""

from __future__ import annotations

import numpy as np

from conformance.choosing import Given
from conformance.vectors import DEFAULTS, Vector, close
from omnidraft.runtime.decoding.block_verifier import block_pays
from omnidraft.runtime.decoding.costs import Costs
from omnidraft.runtime.decoding.draft_length import MeasuredLength
from omnidraft.runtime.decoding.prompt_lookup import PromptLookup
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import (
    Categorical,
    SamplingConfig,
    draft_distribution,
    target_distribution,
)
from omnidraft.runtime.decoding.utf8_stream import Utf8Stream


def run_random(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    if "weights" in given:
        distribution = Categorical(np.array(given["weights"]))
        assert [distribution.draw(u) for u in given["uniforms"]] == expect["indices"]
    elif "bernoulli" in given:
        random = Given(given["uniforms"])
        assert [random.bernoulli(p) for p in given["bernoulli"]] == expect["answers"]
        random.finish()
    else:
        rng = SplitMix64(int(given["seed"], 16))
        if "u64" in expect:
            assert [f"{rng.next_u64():#018x}" for _ in expect["u64"]] == expect["u64"]
        else:
            assert [rng.uniform() for _ in expect["uniforms"]] == expect["uniforms"]


def run_sampling(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    row = np.array(given["logits"])
    if "banned" in given:
        distribution = draft_distribution(
            row, given["temperature"], np.array(given["banned"], dtype=np.int32)
        )
    else:
        distribution = target_distribution(row, SamplingConfig(**given["settings"]), given["context"])
    found = distribution.probability(np.arange(distribution.size))
    assert close(found, expect["probabilities"])
    assert ((found > 0) == (np.array(expect["probabilities"]) > 0)).all(), "another set of tokens is kept"


def run_draft_length(vector: Vector) -> None:
    given = vector["input"]
    costs = given["costs"]
    known = Costs(**{**costs, "target": tuple(costs["target"])})
    if "vocab_size" in given:
        pays = block_pays(known.round_seconds(DEFAULTS["block"]["usual_draft"]), given["vocab_size"])
        assert ("block" if pays else "token") == vector["expect"]["verification"]
        return
    if "rounds" in given:
        return _run_headed(vector, known)
    if "texts" in given:
        return _run_texts(vector, known)
    _drive(MeasuredLength(known, unread=given["unread"]), given["records"], vector["expect"]["lengths"])


def _run_texts(vector: Vector, known: Costs) -> None:
    before: MeasuredLength | None = None
    for given, expect in zip(vector["input"]["texts"], vector["expect"]["texts"], strict=True):
        length = MeasuredLength(known, unread=given["unread"], limit=given["limit"])
        if before is not None:
            length.follow(before)
        _drive(length, given["records"], expect["lengths"])
        before = length


def _drive(length: MeasuredLength, records: list[list[int]], wanted: list[list[int]]) -> None:
    found = []
    for times, *record in records:
        for _ in range(times):
            found.append(length.next())
            length.record(*record)
    assert found == [each for times, each in wanted for _ in range(times)]


def _run_headed(vector: Vector, known: Costs) -> None:
    length = MeasuredLength(known, head_threshold=vector["input"]["threshold"])
    for given, expect in zip(vector["input"]["rounds"], vector["expect"]["rounds"], strict=True):
        if "unread" in given:  # another text begins
            before = length
            length = MeasuredLength(
                known, unread=given["unread"], head_threshold=vector["input"]["threshold"]
            )
            length.follow(before)
        assert length.next() == expect["length"]
        assert [length.more(drawn, stands) for drawn, stands in given["asks"]] == expect["more"]
        length.record(*given["record"])


def run_lookup(vector: Vector) -> None:
    given, lookup = vector["input"], PromptLookup()
    found = [lookup.propose(context, given["count"], Given([])).tokens for context in given["contexts"]]
    assert found == vector["expect"]["copies"]


def run_utf8(vector: Vector) -> None:
    stream = Utf8Stream()
    found = [stream.push(bytes.fromhex(chunk)) for chunk in vector["input"]["chunks"]]
    assert found == vector["expect"]["pieces"]
    assert stream.flush() == vector["expect"]["rest"]
