"""Runners of `learner/align`, `trace` and `calls`: from responses to the inputs of a training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformance.vectors import ROOT, Vector, close, map_of
from omnidraft.learning.positions.alignment import Aligned, Aligner, SparseDistributions
from omnidraft.learning.positions.from_traces import TraceAligner, from_traces
from omnidraft.learning.positions.target_rows import TargetRows
from omnidraft.learning.step.head_step import head_batch
from omnidraft.learning.step.step_batch import factors_of, step_batch, step_scales
from omnidraft.runtime.bundle.train_step_entry import TERMS
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_reader import read_traces
from omnidraft.runtime.vocab.trie import ActiveTrie

LAWS = ("trie", "direct")


def run_align(vector: Vector) -> None:
    check(aligned(vector["input"]), vector["expect"])


def run_trace(vector: Vector) -> None:
    given = vector["input"]
    files = [ROOT / "learner/trace" / name for name in given["files"]]
    aligner = Aligner(trie_of(given), given["max_length"])
    traces = read_traces(files, Vocabularies.of(aligner.trie.map))
    found = list(from_traces(traces, TraceAligner(aligner, tuple(given["start"]))))
    assert len(found) == len(vector["expect"]["responses"]), f"{len(found)} responses"
    for response, wanted in zip(found, vector["expect"]["responses"], strict=True):
        check(response, wanted)


def run_calls(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    responses = [aligned(each) for each in given["responses"]]
    factors, size = factors_of(given["objective"]), given["at_once"]
    parts = [step_batch(responses[i : i + size], factors) for i in range(0, len(responses), size)]
    scales, counts = step_scales(parts, factors, TERMS)
    assert np.allclose(scales, expect["scales"], rtol=1e-6)
    assert counts.keys() == expect["counts"].keys()
    assert np.allclose([counts[name] for name in counts], [expect["counts"][name] for name in counts])
    for part, wanted in zip(parts, expect["calls"], strict=True):
        check_inputs(part.inputs, wanted)
    check_inputs(head_batch(responses), expect["head"])


def trie_of(given: dict[str, Any]) -> ActiveTrie:
    """The trie with the n-grams that a vector calls active."""
    trie = ActiveTrie(map_of(given["map"]))
    trie.activate_all(np.array([int(trie.map.leaf_of[t]) for t in given["active"]], dtype=np.int64))
    return trie


def aligned(given: dict[str, Any]) -> Aligned:
    """A response of a vector as the runtime aligns it."""
    aligner = Aligner(trie_of(given), given["max_length"], given["keep"])
    return aligner.align(
        given["prompt"], given["tokens"], rows_of(given["distributions"]), before=given["before"]
    )


def rows_of(distributions: Sequence[dict[str, Any]]) -> TargetRows:
    widest = max((len(distribution["ids"]) for distribution in distributions), default=0)
    ids = np.full((len(distributions), widest), -1, dtype=np.int32)
    probabilities = np.zeros((len(distributions), widest))
    for i, distribution in enumerate(distributions):
        ids[i, : len(distribution["ids"])], probabilities[i, : len(distribution["ids"])] = (
            distribution["ids"],
            distribution["probabilities"],
        )
    return TargetRows(
        ids,
        probabilities,
        np.array([distribution["rest"] for distribution in distributions], dtype=np.float64),
    )


def check(found: Aligned, wanted: dict[str, Any]) -> None:
    """Everything that a vector says of a response."""
    assert found.draft_ids.tolist() == wanted["draft_ids"]
    assert (found.prompt_length, found.owners.tolist()) == (wanted["prompt_length"], wanted["owners"])
    tokens = wanted["tokens"]
    for name in ("ids", "before", "rows", "lengths", "direct", "starts", "ends"):
        assert getattr(found.tokens, name).tolist() == tokens[name], name
    chances = [None if np.isnan(p) else p for p in found.tokens.probabilities.tolist()]
    assert [p is None for p in chances] == [p is None for p in tokens["probabilities"]]
    assert close([p or 0.0 for p in chances], [p or 0.0 for p in tokens["probabilities"]])
    for name, distributions in zip(LAWS, (found.trie_distributions, found.direct_distributions), strict=True):
        check_distributions(name, distributions, wanted[name])


def check_distributions(name: str, found: SparseDistributions, wanted: Sequence[dict[str, Any]]) -> None:
    assert found.rows.tolist() == [distribution["row"] for distribution in wanted], name
    for n, distribution in enumerate(wanted):
        listed = found.ids[n] >= 0
        ids, p = sorted_by_id(found.ids[n][listed], found.probabilities[n][listed])
        assert ids.tolist() == distribution["ids"], f"{name} distribution {n}"
        assert close(p, distribution["probabilities"]), f"{name} distribution {n}"
        assert close([found.other[n], found.weights[n]], [distribution["other"], distribution["weight"]]), (
            f"{name} distribution {n}"
        )


def sorted_by_id(ids: Any, values: Any) -> tuple[Any, Any]:
    """In which order a distribution lists its ids is open."""
    order = np.argsort(ids)
    return ids[order], values[order]


def check_inputs(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Names, types, shapes and values of a graph's inputs; its distributions are float32."""
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        array, expected = found[name], np.array(values)
        if name == "known":
            assert array.dtype == np.bool_
        else:
            floats = name.split(".")[-1] in ("probabilities", "other", "weights")
            assert array.dtype == (np.float32 if floats else np.int64), name
        if not expected.size:  # no place: how wide its tables are is open, 1 at least
            assert len(array) == 0 and all(array.shape[1:]), f"{name} has shape {array.shape}"
            continue
        assert array.shape == expected.shape, f"{name} has shape {array.shape} and not {expected.shape}"
        if name.endswith((".ids", ".probabilities")) and array.ndim == 2:
            continue
        assert np.allclose(array, expected, rtol=1e-6, atol=1e-7), name
    for name in LAWS:
        if f"{name}.ids" in wanted:
            pairs = zip(found[f"{name}.ids"], found[f"{name}.probabilities"], strict=True)
            rows = [pair_list(*pair) for pair in pairs]
            pairs = zip(wanted[f"{name}.ids"], wanted[f"{name}.probabilities"], strict=True)
            for row, expected_row in zip(rows, [pair_list(*pair) for pair in pairs], strict=True):
                assert [d for d, _ in row] == [d for d, _ in expected_row], f"{name}.ids"
                assert np.allclose([p for _, p in row], [p for _, p in expected_row], rtol=1e-6, atol=1e-7)


def pair_list(ids: Any, probabilities: Any) -> list[tuple[int, float]]:
    return sorted((int(d), float(p)) for d, p in zip(ids, probabilities, strict=True))
