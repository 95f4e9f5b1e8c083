"""A model in onnxruntime: passes of any length, cancelled and interrupted ones, and adapters between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.decoding.model import Cancelled
from omnidraft.runtime.models.ort_model import Graph, OrtModel
from support.places import ROOT

onnx = pytest.importorskip("onnx", reason="graphs are made with onnx")

FILE = ROOT / "spec/vectors/generate/target.onnx"  # its logits depend on every position that the KV holds
WIDTH, LENGTH = 13, 300
IDS = [i * 7 % WIDTH for i in range(LENGTH)]


class Asked:
    """A `cancelled` that counts how often it is asked, and is true from one time on."""

    def __init__(self, cancel_at: int = 1 << 30) -> None:
        self.count, self._cancel_at = 0, cancel_at

    def __call__(self) -> bool:
        self.count += 1
        return self.count >= self._cancel_at


def new_model(file: Path = FILE) -> OrtModel:
    return OrtModel(Graph(file, KvShape(1, 1, 1, LENGTH), WIDTH))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """The row after each position, of passes of one token."""
    model = new_model()
    return np.concatenate([model.score([token]).copy() for token in IDS])


@pytest.mark.parametrize("count", [1, 2, 64, 65, 66, 150, LENGTH])
def test_logits_of_long_passes_are_those_of_short_ones(count: int, rows: np.ndarray) -> None:
    """On both sides of what the shared buffer of logits holds; a prompt is read in pieces."""
    model = new_model()
    for begin in (0, 10, 171):
        model.rewind(begin)
        some = min(count, LENGTH - begin)
        assert np.array_equal(model.score(IDS[begin:], some), rows[-some:])
        assert model.length == LENGTH
    for some in (10, 3):  # passes of one length
        model.rewind(LENGTH - 10)
        assert np.array_equal(model.score(IDS[-10:], some), rows[-some:])


def test_a_long_prompt_is_cancelled_between_its_pieces(rows: np.ndarray) -> None:
    """Positions before the last piece need one row of logits, whatever the length of the prompt."""
    model = new_model()
    model.cancelled = whole = Asked()
    model.score(IDS, 1)
    pieces = whole.count
    assert pieces == 3
    model.rewind(0)
    model.cancelled = Asked(cancel_at=pieces)
    with pytest.raises(Cancelled):
        model.score(IDS, 1)
    assert 0 < model.length < LENGTH, "what was read before stays"
    model.cancelled = Asked()
    assert np.array_equal(model.score(IDS[model.length :], 1), rows[-1:])


def test_an_interrupted_pass_that_nobody_cancelled_is_repeated(rows: np.ndarray) -> None:
    model = new_model()
    model.cancelled = asked = Asked()
    model.interrupt()
    assert np.array_equal(model.score(IDS[:5]), rows[:5])
    assert asked.count == 2


def with_adapter(path: Path) -> Path:
    """The same graph, to whose logits the sums of the rows of an adapter's tensor are added."""
    proto = onnx.load(FILE)
    proto.graph.input.append(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [WIDTH, "r"]))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "last_axis"))
    (last,) = (node for node in proto.graph.node if "logits" in node.output)
    last.output[list(last.output).index("logits")] = "plain_logits"
    proto.graph.node.extend(
        [
            onnx.helper.make_node("ReduceSum", ["a", "last_axis"], ["added"], keepdims=0),
            onnx.helper.make_node("Add", ["plain_logits", "added"], ["logits"]),
        ]
    )
    onnx.save(proto, path)
    return path


def test_each_pass_has_the_adapter_of_now(tmp_path: Path, rows: np.ndarray) -> None:
    """Also where its numbers lie in another order, or are of another type."""
    model = new_model(with_adapter(tmp_path / "model.onnx"))
    numbers = np.arange(WIDTH * 3, dtype=np.float64).reshape(3, WIDTH).T
    for tensor in (numbers, numbers[:, :2], -numbers):
        model.use_adapter({"a": tensor})
        model.rewind(0)
        assert np.array_equal(model.score(IDS[:4]), rows[:4] + tensor.sum(axis=1).astype(np.float32))
