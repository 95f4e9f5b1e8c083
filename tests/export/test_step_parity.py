"""Training graphs against torch: softplus keeps its digits, and the parity judges what is learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="exporting needs torch, which this Python does not have")

import onnxruntime as ort  # noqa: E402

from omnidraft.errors import ExportError  # noqa: E402
from omnidraft.export.quantize.parity import StepParity  # noqa: E402
from omnidraft.export.train_step.step_onnx import to_onnx  # noqa: E402
from omnidraft.export.train_step.step_parity import _refuse  # noqa: E402


def test_softplus_keeps_its_digits_where_its_value_is_small() -> None:
    """Log-odds of -10 are those of a drafter with random weights over some ten thousand tokens."""
    values = torch.linspace(-30.0, 30.0, 241)
    graph = to_onnx(lambda inputs: {"y": torch.nn.functional.softplus(inputs["x"])}, {}, {"x": values})
    session = ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    (actual,) = session.run(["y"], {"x": values.numpy()})
    expected = np.log1p(np.exp(values.numpy().astype(np.float64)))
    assert np.abs(np.asarray(actual) / expected - 1.0).max() < 1e-6


def test_the_gradient_of_softplus_is_the_sigmoid() -> None:
    values = torch.linspace(-20.0, 20.0, 41)

    def gradient(inputs: dict[str, Any]) -> dict[str, Any]:
        x = inputs["x"].detach().requires_grad_()
        return {"y": torch.autograd.grad(torch.nn.functional.softplus(x).sum(), [x])[0]}

    graph = to_onnx(gradient, {}, {"x": values})
    session = ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    (actual,) = session.run(["y"], {"x": values.numpy()})
    expected = 1.0 / (1.0 + np.exp(-values.numpy().astype(np.float64)))
    assert np.abs(np.asarray(actual) / expected - 1.0).max() < 1e-5


@pytest.mark.parametrize(
    ("parity", "refused"),
    [
        (StepParity(loss=1e-2, gradient=1e-6, tensors=1e-6), False),
        (StepParity(loss=1e-6, gradient=1e-3, tensors=1e-6), True),
        (StepParity(loss=1e-6, gradient=1e-6, tensors=1e-3), True),
        (StepParity(loss=float("nan"), gradient=1e-6, tensors=1e-6), True),
    ],
)
def test_gradient_and_tensors_are_judged(parity: StepParity, refused: bool) -> None:
    if not refused:
        assert _refuse(Path("step.onnx"), parity) is parity
        return
    with pytest.raises(ExportError, match="leave --train-step out"):
        _refuse(Path("step.onnx"), parity)
