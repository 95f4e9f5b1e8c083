"""Runner of `generate` and `logprobs`: the real loop on tiny graphs in onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from conformance.decoding.run_grammar import constraint_of
from conformance.vectors import ROOT, Vector, cache_of
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.decoding.draft_length import (
    DraftLength,
    FixedLength,
    MeasuredLength,
    Plan,
    RoundCounts,
)
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.length_state import Costs, LengthState
from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import DecoderState
from omnidraft.runtime.decoding.stop import cut_at_eos
from omnidraft.runtime.models.ort_model import Graph, OrtModel
from omnidraft.runtime.session.decode import DecoderModels, decode
from support.configs import config_of

_graphs: dict[str, Graph] = {}
NOTHING = RoundCounts((), 0, 0, 0)
Passes = list[tuple[int, int]]  # past, fed


class CountingSource(SplitMix64):
    """The runtime's own random source, which counts the uniforms that it takes."""

    taken = 0

    def uniform(self) -> float:
        self.taken += 1
        return super().uniform()


class WatchedLength(MeasuredLength):
    """The runtime's own draft length, which records what a round asked and learned."""

    plan: Plan | None = None
    counts = NOTHING

    def next(self, match: int = 0) -> Plan:
        self.plan = super().next(match)
        return self.plan

    def record(self, counts: RoundCounts) -> None:
        super().record(counts)
        self.counts = counts

    def take(self) -> dict[str, Any]:
        """The plan (None where none was asked for) and the counts of a round, as vectors have them."""
        plan, self.plan = self.plan, None
        counts, self.counts = self.counts, NOTHING
        asked = None if plan is None else [plan.source, plan.count, plan.fresh]
        return {"plan": asked, "match": counts.match, "agreed": counts.agreed}


class WatchedModel(OrtModel):
    """The runtime's own model, which records its passes; keys and values that it does not hold are NaN."""

    passes: Passes

    @classmethod
    def of(cls, file: str, vocab_size: int, max_length: int) -> WatchedModel:
        if file not in _graphs:
            _graphs[file] = Graph(ROOT / "generate" / file, KvShape(1, 1, 1, max_length), vocab_size)
        _graphs[file].kv = KvShape(1, 1, 1, max_length)
        model = cls(_graphs[file])
        model.passes = []
        model.spoil()
        return model

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        self.passes.append((self.length, len(tokens)))
        return super().score(tokens, num_logits)

    def rewind(self, length: int) -> None:
        super().rewind(length)
        self.spoil()

    def spoil(self) -> None:
        """Make every key and value from `length` on NaN."""
        for value in self._kv.values():
            array = value.numpy().copy()
            array[:, :, self.length :] = np.nan
            value.update_inplace(array)


def run_generate(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    cache = cache_of(given)
    target = WatchedModel.of(given["target"], cache.map.target_size, given["max_length"])
    drafter = WatchedModel.of(given["drafter"], cache.map.draft_size, given["draft_max_length"])
    models = DecoderModels(target, Drafter(drafter, given["draft_start"]), cache)
    text = DecoderState()
    _run_text(models, text, given, expect)
    for later, due in zip(given.get("then", []), expect.get("then", []), strict=True):
        _run_text(models, text, given | later, due)


def _run_text(models: DecoderModels, text: DecoderState, given: Vector, expect: Vector) -> None:
    """One text of a session, compared with what is expected."""
    rows = expect["rounds"]
    sampling = SamplingConfig(**{"temperature": 0.0, **given["sampling"]})
    settings = {"verification": given["verification"], "logprobs": "logprobs" in rows[0]}
    settings["num_draft_tokens"] = given["num_draft_tokens"]
    config = config_of(given["mode"], sampling, given["max_new_tokens"], **settings)
    length = _length_of(given)
    random = CountingSource(int(given["seed"], 16))
    cut = cut_at_eos(given["eos_ids"])
    constraint = constraint_of(given, models.cache.map.draft_allowed)
    room = min(given["max_new_tokens"], given["max_length"] - len(given["prompt"]) + 1)
    text.restart(given["prompt"], given["draft_prompt"], room, cut, constraint)
    if constraint is not None:
        constraint.check_room(room)
    rounds: list[dict[str, Any]] = []
    planned = ("plan", "match", "agreed") if isinstance(length, WatchedLength) else ()
    fields = [name for name in rows[0] if not name.endswith("_passes") and name not in planned]
    target, drafter = models.target, models.drafter.model
    assert isinstance(target, WatchedModel)
    assert isinstance(drafter, WatchedModel)
    for each in decode(models, text, config, length, random):
        row = {name: _plain(getattr(each, name)) for name in fields}
        row["target_passes"] = _joined(target.passes, 1)
        seen = len(each.draft)
        if isinstance(length, WatchedLength):
            seen = max(seen, len(length.counts.classes))  # one more where a token was not worth proposing
            row |= length.take()
        row["draft_passes"] = _joined(drafter.passes, seen)
        target.passes, drafter.passes = [], []
        rounds.append(row)
    assert [t for each in rounds for t in each["emitted"]] == expect["tokens"]
    logprobs, expected = ([row.get("logprobs", []) for row in each] for each in (rounds, rows))
    assert [row | {"logprobs": []} for row in rounds] == [row | {"logprobs": []} for row in rows]
    assert [len(each) for each in logprobs] == [len(each) for each in expected]
    for actual, due in zip(logprobs, expected, strict=True):
        assert np.allclose(actual, due, rtol=0, atol=1e-6)  # logits are float32
    assert random.taken == expect["uniforms"]
    assert (constraint is not None and constraint.is_complete) == expect.get("complete", False)
    assert text.context == expect["context"]
    if isinstance(length, WatchedLength):
        assert length.state.written == expect["written"]
    assert [vars(entry) for entry in models.cache.entries()] == expect["entries"]


def _length_of(given: Vector) -> DraftLength:
    if given["num_draft_tokens"] != "auto":
        return FixedLength(0 if given["mode"] == "plain" else given["num_draft_tokens"])
    costs = Costs(**{**given["costs"], "target": tuple(given["costs"]["target"])})
    state, mode = LengthState(), given["mode"]
    state.begin_text(0 if mode == "lookup" else len(given["draft_prompt"]))
    drafts, copies = mode != "lookup", mode in ("trie", "lookup")
    return WatchedLength(costs, state, drafts=drafts, copies=copies)


def _joined(passes: Passes, wanted: int) -> list[int]:
    """The passes of a round as vectors have them: the past of the first, then the tokens that each reads.

    A runtime may read a text in passes of any lengths, so all but the last `wanted` are joined with the next.
    """
    if not wanted:
        assert not passes, "a pass that nothing was drawn from"
        return []
    for (past, count), (following, _) in pairwise(passes):
        assert past + count == following, f"read twice, or not at all: {passes}"
    fed = [count for _, count in passes]
    first = len(fed) + 1 - wanted
    return [passes[0][0], sum(fed[:first]), *fed[first:]]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
