"""Static graphs on the emulator of Qualcomm's HTP: whole, without the CPU, and close to fp32.

OMNIDRAFT_QNN_PYTHON is a Python with onnxruntime-qnn and omnidraft's runtime; `make qnn` makes one.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from support.places import ROOT, STARTERS

for name in ("torch", "transformers", "optimum", "onnx", "onnxscript"):
    pytest.importorskip(name, reason=f"exporting needs {name}, which this Python does not have")

import onnx  # noqa: E402

from omnidraft.errors import SettingError  # noqa: E402
from omnidraft.export.bundle import export_bundle  # noqa: E402
from omnidraft.export.npu.npu import NpuOptions  # noqa: E402
from omnidraft.export.npu.npu_providers import accelerators  # noqa: E402
from omnidraft.export.options import Options  # noqa: E402
from omnidraft.export.quantize.quantization import FP32  # noqa: E402
from omnidraft.runtime.bundle.bundle import open_bundle  # noqa: E402
from omnidraft.runtime.bundle.placement import placed  # noqa: E402
from omnidraft.runtime.models.load_graph import static_form  # noqa: E402
from omnidraft.runtime.models.static_model import StaticGraphs, StaticModel  # noqa: E402


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The drafter as its own target: the smallest possible pair."""
    out = tmp_path_factory.mktemp("qnn") / "bundle"
    drafter = str(STARTERS / "drafter")
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    npu = NpuOptions(accelerators(["all"]), chunk=16, drafted=3)
    export_bundle(drafter, drafter, out, Options(FP32, max_length=96, npu=npu))
    assert (logging.getLogger().handlers, logging.getLogger().level) == (handlers, level)
    return out


def test_the_quantised_form_is_close_to_torch(quantized: Path) -> None:
    """As computed by the CPU; the last test uses the emulator."""
    checks = open_bundle(quantized).manifest["checks"]["parity"]
    for role in ("target", "drafter"):
        assert checks[role]["npu-float"]["max_difference"] < 1e-4
        assert checks[role]["npu-qdq"]["greedy_agreement"] > 0.85
        assert 1e-4 < checks[role]["npu-qdq"]["max_difference"] < 5


def test_weights_have_a_scale_a_column_and_are_shared(quantized: Path) -> None:
    folder = quantized / "target/npu/qdq"
    graphs = [onnx.load(file, load_external_data=False).graph for file in sorted(folder.glob("*.onnx"))]
    assert len(graphs) == 3
    for graph in graphs:
        tensors = {tensor.name: tensor for tensor in graph.initializer}
        codes = [tensor for name, tensor in tensors.items() if name.endswith(".weight_quantized")]
        codes = [tensor for tensor in codes if len(tensor.dims) == 2]
        assert {tensor.data_type for tensor in codes} == {onnx.TensorProto.INT8}
        assert len(codes) == 9  # four products in each of two layers, and the head
        for tensor in codes:
            assert list(tensors[tensor.name.replace("_quantized", "_scale")].dims) == [tensor.dims[1]]
        points = [t for t in tensors.values() if t.data_type == onnx.TensorProto.UINT16]
        assert len(points) > 50
    files = sorted(file.name for file in folder.iterdir())
    assert files == ["decode_1.onnx", "prefill_16.onnx", "verify_4.onnx", "weights.bin"]


def test_rare_tokens_are_within_the_measured_ranges(quantized: Path) -> None:
    """Calibration on prompts only leaves out most of a vocabulary: the cosine was 0.9 then."""
    bundle = placed(open_bundle(quantized), target_on="qnn", drafter_on="npu")
    ids = [int(i) for i in np.random.default_rng(5).integers(3, 3000, 40)]
    actual = StaticModel(StaticGraphs(static_form(bundle, bundle.target))).score(ids)
    expected = StaticModel(StaticGraphs(static_form(bundle, bundle.drafter))).score(ids)
    norms = np.linalg.norm(actual, axis=1) * np.linalg.norm(expected, axis=1)
    cosines = (actual * expected).sum(1) / norms
    assert cosines.min() > 0.99


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["all"], ("qnn", "qnn-fp16", "coreml")),  # "all" leaves nnapi out, which is deprecated
        (["nnapi"], ("nnapi",)),
        (["coreml,qnn", "coreml"], ("coreml", "qnn", "qnn-fp16")),
        ([], ()),
    ],
)
def test_accelerators_by_name(names: list[str], expected: tuple[str, ...]) -> None:
    assert accelerators(names) == expected


def test_an_unknown_accelerator_is_refused() -> None:
    with pytest.raises(SettingError, match="--npu 'tpu' is unknown; use qnn, coreml, nnapi"):
        accelerators(["coreml,tpu"])


def test_the_emulator_takes_every_graph_whole(quantized: Path, tmp_path: Path) -> None:
    """Both forms, all block lengths, no fallback; context binaries give the same bits."""
    python = os.environ.get("OMNIDRAFT_QNN_PYTHON")
    if not python:
        pytest.skip("OMNIDRAFT_QNN_PYTHON is not set to a Python with onnxruntime-qnn; `make qnn` makes one")
    out = tmp_path / "rows.json"
    arguments = ["-m", "benchmarks.export.qnn_check", str(quantized), "--json", str(out)]
    child = subprocess.run(
        [python, *arguments, "--contexts", str(tmp_path / "contexts")],
        capture_output=True, text=True, timeout=500, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    rows = json.loads(out.read_text())
    assert [(row["role"], row["place"].partition(":")[0]) for row in rows] == [
        (role, place) for place in ("qnn", "qnn-fp16") for role in ("target", "drafter")
    ]
    for row in rows:
        assert row["cosine"] > 0.99 and row["agreement"] > 0.85, row
        assert row["contexts"] > 1e5 and row["contexts_same"], row
