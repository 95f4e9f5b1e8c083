"""Runners of `random`, `sampling` and `lookup`."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.given_uniforms import GivenUniforms
from conformance.vectors import Vector, close
from omnidraft.runtime.decoding.distribution import Categorical, Distribution, Row
from omnidraft.runtime.decoding.prompt_lookup import PromptLookup
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import (
    LogitsError,
    SamplingConfig,
    draft_distribution,
    target_distribution,
)


def run_random(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    if "weights" in given:
        distribution = Categorical(np.array(given["weights"]))
        assert [distribution.draw(u) for u in given["uniforms"]] == expect["indices"]
    elif "bernoulli" in given:
        random = GivenUniforms(given["uniforms"])
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
    row = np.array([float(x) for x in given["logits"]])
    if expect.get("fault") is not None:
        with pytest.raises(LogitsError) as refused:
            _distribution(given, row)
        assert refused.value.fault == expect["fault"]
        return
    distribution = _distribution(given, row)
    probabilities = distribution.probability(np.arange(distribution.size))
    assert close(probabilities, expect["probabilities"])
    assert ((probabilities > 0) == (np.array(expect["probabilities"]) > 0)).all(), (
        "another set of tokens is kept"
    )


def _distribution(given: Vector, row: Row) -> Distribution:
    if "banned" in given:
        banned = np.array(given["banned"], dtype=np.int32)
        return draft_distribution(row, given["temperature"], banned)
    return target_distribution(row, SamplingConfig(**given["settings"]), given["context"])


def run_lookup(vector: Vector) -> None:
    given, lookup = vector["input"], PromptLookup()
    copies = [lookup.find(context) for context in given["contexts"]]
    assert [list(copy.tokens[: given["count"]]) for copy in copies] == vector["expect"]["copies"]
    assert [copy.match for copy in copies] == vector["expect"]["matches"]
