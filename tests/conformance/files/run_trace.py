"""Runners of `trace/...`: what a trace keeps of a row, good and bad files."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.vectors import ROOT, Vector, map_of
from omnidraft.commands.inspect.inspect_trace import as_json
from omnidraft.errors import TraceFileError
from omnidraft.runtime.traces.trace import TOP, Vocabularies
from omnidraft.runtime.traces.trace_file import encode
from omnidraft.runtime.traces.trace_reader import read_segments, read_traces
from omnidraft.runtime.traces.tracer import Tracer, largest


def run_rows(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    if "numbers" in given:
        kept = largest(np.array(given["numbers"], dtype=np.float32), 1.0, 1.0, TOP)
        assert [f"{bits:04x}" for bits in kept.probabilities.view(np.uint16)] == expect["float16"]
        return
    tracer = Tracer(map_of(given["map"]))
    row = tracer.row(np.array(given["logits"]))
    assert row is not None
    roots, unspelled = tracer.roots(row)
    surprisals = [row.surprisal(token) for token in range(len(given["logits"]))]
    # Rows are float32, kept probabilities float16.
    assert np.allclose(surprisals, expect["surprisals"], rtol=1e-6, atol=1e-6)
    assert unspelled == pytest.approx(expect["unspelled"], abs=1e-6)
    for kept, expected in ((row.largest(TOP), expect["distribution"]), (roots, expect["roots"])):
        assert kept.ids.tolist() == expected["ids"]
        assert np.allclose(kept.probabilities, expected["probabilities"], rtol=2.0**-11)
        assert kept.rest == pytest.approx(expected["rest"], abs=1e-6)


def run_valid(vector: Vector) -> None:
    path = ROOT / "trace/valid" / vector["input"]["file"]
    ((_, segment),) = read_segments(path)
    expected, v = vector["expect"]["segment"], segment.header.vocabularies
    records = [
        {"start": as_json(t.start), "rounds": [as_json(r) for r in t.rounds]} for t in segment.generations()
    ]
    assert {**vars(v), "number": segment.header.number, "records": records} == expected
    assert segment.torn == vector["expect"]["torn"]
    data = path.read_bytes()
    assert encode(segment) == data[: len(data) - segment.torn], "written again, the file is another one"


def run_invalid(vector: Vector) -> None:
    given = vector["input"]
    pair = Vocabularies.of(map_of(given["map"])) if given["map"] else None
    with pytest.raises(TraceFileError) as refused:
        list(read_traces(ROOT / "trace/invalid" / given["file"], pair))
    assert refused.value.fault == vector["expect"]["fault"]
