"""Runners of `learner/align`, `trace` and `calls`: training positions, and the inputs of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformance.vectors import ROOT, Vector, close, map_of
from omnidraft.learning.positions.alignment import Aligned, Aligner
from omnidraft.learning.positions.from_traces import TraceAligner, from_traces
from omnidraft.learning.positions.target_rows import TargetRows
from omnidraft.learning.step.step_batch import step_batch, step_scale
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_reader import read_traces
from omnidraft.runtime.vocab.trie import ActiveTrie


def run_align(vector: Vector) -> None:
    check(aligned(vector["input"]), vector["expect"])


def run_trace(vector: Vector) -> None:
    given = vector["input"]
    files = [ROOT / "learner/trace" / name for name in given["files"]]
    aligner = Aligner(trie_of(given), given["max_length"])
    traces = read_traces(files, Vocabularies.of(aligner.trie.map))
    responses = list(from_traces(traces, TraceAligner(aligner, tuple(given["start"]))))
    assert len(responses) == len(vector["expect"]["responses"]), f"{len(responses)} responses"
    for response, expected in zip(responses, vector["expect"]["responses"], strict=True):
        check(response, expected)


def run_calls(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    responses = [aligned(each) for each in given["responses"]]
    size = given["at_once"]
    parts = [step_batch(responses[i : i + size]) for i in range(0, len(responses), size)]
    assert np.isclose(step_scale(parts), expect["scale"], rtol=1e-6)
    for part, expected in zip(parts, expect["calls"], strict=True):
        check_inputs(part.inputs, expected)


def trie_of(given: dict[str, Any]) -> ActiveTrie:
    """The trie with the active n-grams of a vector."""
    trie = ActiveTrie(map_of(given["map"]))
    trie.activate_all(np.array([int(trie.map.leaf_of[t]) for t in given["active"]], dtype=np.int64))
    return trie


def aligned(given: dict[str, Any]) -> Aligned:
    """A response of a vector, aligned by the runtime."""
    aligner = Aligner(trie_of(given), given["max_length"], given["keep"])
    return aligner.align(given["prompt"], given["tokens"], rows_of(given["distributions"]))


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


def check(response: Aligned, expected: dict[str, Any]) -> None:
    """Compare a response with all fields of a vector."""
    assert response.draft_ids.tolist() == expected["draft_ids"]
    assert response.prompt_length == expected["prompt_length"]
    assert response.tokens.tolist() == expected["tokens"]
    assert response.rows.tolist() == expected["rows"]
    actual = response.trie_distributions
    assert actual.rows.tolist() == [distribution["row"] for distribution in expected["trie"]]
    for n, distribution in enumerate(expected["trie"]):
        listed = actual.ids[n] >= 0
        ids, p = sorted_by_id(actual.ids[n][listed], actual.probabilities[n][listed])
        assert ids.tolist() == distribution["ids"], f"distribution {n}"
        assert close(p, distribution["probabilities"]), f"distribution {n}"
        assert close([actual.other[n], actual.weights[n]], [distribution["other"], distribution["weight"]]), (
            f"distribution {n}"
        )


def sorted_by_id(ids: Any, values: Any) -> tuple[Any, Any]:
    """Sorted by id, because the order of the ids is open."""
    order = np.argsort(ids)
    return ids[order], values[order]


def check_inputs(inputs: dict[str, Any], expected: dict[str, Any]) -> None:
    """Names, types, shapes and values of a graph's inputs; its distributions are float32."""
    assert inputs.keys() == expected.keys()
    for name, values in expected.items():
        array, values_array = inputs[name], np.array(values)
        floats = name.split(".")[-1] in ("probabilities", "other", "weights")
        assert array.dtype == (np.float32 if floats else np.int64), name
        if not values_array.size:  # no place: the width of its tables is open, at least 1
            assert len(array) == 0 and all(array.shape[1:]), f"{name} has shape {array.shape}"
            continue
        assert array.shape == values_array.shape, (
            f"{name} has shape {array.shape} and not {values_array.shape}"
        )
        if name.endswith((".ids", ".probabilities")) and array.ndim == 2:
            continue
        assert np.allclose(array, values_array, rtol=1e-6, atol=1e-7), name
    pairs = zip(inputs["trie.ids"], inputs["trie.probabilities"], strict=True)
    rows = [pair_list(*pair) for pair in pairs]
    pairs = zip(expected["trie.ids"], expected["trie.probabilities"], strict=True)
    for row, expected_row in zip(rows, [pair_list(*pair) for pair in pairs], strict=True):
        assert [d for d, _ in row] == [d for d, _ in expected_row], "trie.ids"
        assert np.allclose([p for _, p in row], [p for _, p in expected_row], rtol=1e-6, atol=1e-7)


def pair_list(ids: Any, probabilities: Any) -> list[tuple[int, float]]:
    return sorted((int(d), float(p)) for d, p in zip(ids, probabilities, strict=True))
