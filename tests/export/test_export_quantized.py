"""Quantised graphs: close to the float graph, rows bitwise independent, streaming as in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
pytest.importorskip("torch")
pytest.importorskip("transformers")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from omnidraft.errors import SettingError  # noqa: E402
from omnidraft.export.graph.passes import matmuls  # noqa: E402
from omnidraft.export.quantize.quantize import INT4, INT4_B128, INT4_E8, INT8, Quantization, quantize  # noqa: E402
from omnidraft.export.quantize.stream import write_skeleton  # noqa: E402
from support.exported_graphs import QUANTIZATIONS, Export, Session, tokens  # noqa: E402


@pytest.mark.parametrize("quantization", QUANTIZATIONS, ids=lambda quantization: quantization.name)
def test_a_token_changes_no_earlier_row(exported: Export, quantization: Quantization) -> None:
    session = Session(exported("llama").quantized(quantization))
    ids = tokens(40)
    session.run(ids)
    for past, count in ((0, 9), (3, 2), (17, 6), (32, 8)):
        rows = session.at(past, ids[past : past + count])
        for place in range(1, count):
            changed = ids[past : past + count]
            changed[place:] = tokens(count - place, seed=2)
            assert np.array_equal(session.at(past, changed)[:place], rows[:place])


@pytest.mark.parametrize("quantization", QUANTIZATIONS, ids=lambda quantization: quantization.name)
def test_rewinding_leaves_no_trace(exported: Export, quantization: Quantization) -> None:
    proto = exported("llama").quantized(quantization)
    ids = tokens(20)
    fresh, used = Session(proto), Session(proto)
    fresh.run(ids[:12])
    used.run(ids[:12])
    used.run(tokens(30, seed=3))
    assert np.array_equal(used.at(12, ids[12:]), fresh.run(ids[12:]))


@pytest.mark.parametrize(
    ("quantization", "limit"), [(INT8, 0.05), (INT4, 0.5), (INT4_B128, 0.5), (INT4_E8, 0.5)]
)
@pytest.mark.parametrize("case", ["llama", "llama3-tied", "granite"])
def test_quantised_logits_stay_near(
    exported: Export, case: str, quantization: Quantization, limit: float
) -> None:
    proto = exported(case).quantized(quantization)
    assert not matmuls(proto.graph)  # the LM head too, tied or not
    ids = tokens(30)
    expected = exported(case).logits(ids)
    difference = Session(proto).run(ids) - expected
    assert np.linalg.norm(difference) < limit * np.linalg.norm(expected)


@pytest.mark.parametrize(("bits", "limit"), [(8, 0.02), (4, 0.3)])
@pytest.mark.parametrize("case", ["llama", "llama3-tied"])
def test_the_embedding_alone(exported: Export, case: str, bits: int, limit: float) -> None:
    proto = exported(case).quantized(Quantization(32, embedding_bits=bits))
    ids = tokens(30)
    expected = exported(case).logits(ids)
    difference = Session(proto).run(ids) - expected
    assert np.linalg.norm(difference) < limit * np.linalg.norm(expected)


@pytest.mark.parametrize("quantization", [INT8, INT4, INT4_B128], ids=lambda quantization: quantization.name)
@pytest.mark.parametrize("rows", [128, 160, 40])
def test_weights_of_any_height(quantization: Quantization, rows: int) -> None:
    """If the block size does not divide the rows, blocks of 32 are used, padded if necessary."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((rows, 24)).astype(np.float32)
    weight[:, 5] = 0
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
            "one",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", rows])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 24])],
            [numpy_helper.from_array(weight, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)],
        ir_version=10,
    )
    (node,) = quantize(proto, quantization).graph.node
    block = next(attribute.i for attribute in node.attribute if attribute.name == "block_size")
    assert block == (quantization.block if rows % quantization.block == 0 else 32)
    x = rng.standard_normal((3, rows)).astype(np.float32)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    error = np.linalg.norm(session.run(None, {"x": x})[0] - x @ weight) / np.linalg.norm(x @ weight)
    assert error < (0.02 if quantization.bits == 8 else 0.15)


@pytest.mark.parametrize("quantization", QUANTIZATIONS, ids=lambda quantization: quantization.name)
@pytest.mark.parametrize("case", ["llama", "llama3-tied", "gpt-neox"])
def test_streamed_is_what_memory_gives(
    exported: Export, tmp_path: Path, case: str, quantization: Quantization
) -> None:
    path = tmp_path / "model.onnx"
    written = write_skeleton(exported(case).skeleton, quantization, path, external_above=1000)
    assert sorted(tmp_path.iterdir()) == written
    assert len(written) == 2
    streamed, whole = Session(path), Session(exported(case).quantized(quantization))
    ids = tokens(20)
    assert np.array_equal(streamed.run(ids), whole.run(ids))
    assert all(
        tensor.data_location == TensorProto.DEFAULT
        for tensor in exported(case).skeleton.proto.graph.initializer
    )


@pytest.mark.parametrize(("bits", "block", "embedding"), [(3, 32, 32), (16, 32, 32), (4, 64, 32), (4, 32, 2)])
def test_a_quantization_that_is_not_there(bits: int, block: int, embedding: int) -> None:
    with pytest.raises(SettingError, match=r"are not supported; use"):
        Quantization(bits, block, embedding)
