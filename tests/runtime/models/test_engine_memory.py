"""The memory that the operators of a graph take has a limit, which follows from the size of the bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, save

from omnidraft.errors import SettingError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.models.engine_memory import (
    LEAST,
    TIMES,
    VARIABLE,
    bounded_by,
    engine_bytes,
    remedy_for,
)
from omnidraft.runtime.models.onnx_session import bytes_session, cpu_session

MEGABYTE = 1_000_000


def bundle_of(size: int) -> Bundle:
    empty: Any = None
    return Bundle(
        Path(), empty, empty, empty, empty, "", {"files": {"a": {"bytes": size}, "b": {"bytes": 0}}}
    )


def grower(path: Path) -> Path:
    """A graph of a few hundred bytes: zeros of as many numbers as its input says, all added up."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("ConstantOfShape", ["count"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["sum"], keepdims=0),
    ]
    inputs, outputs = [info("count", TensorProto.INT64, [1])], [info("sum", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def run(session: ort.InferenceSession, megabytes: int) -> float:
    (total,) = session.run(None, {"count": np.array([megabytes * MEGABYTE // 4])})
    return float(total)


def test_the_limit_follows_from_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert engine_bytes(bundle_of(1000)) == LEAST + TIMES * 1000
    monkeypatch.setenv(VARIABLE, "64")
    assert engine_bytes(bundle_of(1000)) == 64 * MEGABYTE


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "64M", " 64", "9" * 40, "\u0661"])
def test_a_limit_that_is_no_number_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(SettingError, match="give it a number of megabytes"):
        engine_bytes(bundle_of(1000))


def test_each_session_has_the_limit_of_its_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is made later changes nothing of an earlier one, and outside there is no limit."""
    graph, made = grower(tmp_path / "g.onnx"), []
    for limit in (20, 60):
        monkeypatch.setenv(VARIABLE, str(limit))
        with bounded_by(bundle_of(0)):
            made.append((limit, cpu_session(graph, 1)))
            made.append((limit, bytes_session(graph.read_bytes(), graph, tmp_path, 1)))
    for limit, session in made:
        assert run(session, limit // 2) == 0.0
        with pytest.raises(Exception, match="Available memory of") as caught:
            run(session, limit + 10)
        assert VARIABLE in remedy_for(caught.value)
        assert run(session, limit // 2) == 0.0, "the session goes on"
    assert run(cpu_session(graph, 1), 100) == 0.0
