"""The quantised form of static graphs: 16-bit activations and 8-bit weights, as Qualcomm's HTP computes.

Ranges are measured once, on real text in the float graph for prompts, and used for every block length, so the
graphs share their weights. onnxruntime's quantiser holds several copies of the model in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from omnidraft.export.graph.write import SharedWeights, write_graph
from omnidraft.export.npu.npu import WEIGHTS
from omnidraft.export.quantize.grids import quietly
from omnidraft.runtime.models.static_model import Floats, StaticForm, StaticGraphs, StaticModel

MASK = -100.0  # e^-100 is zero in 16 bits; a lower mask would cost the scores their resolution
_CONTINUED = 16  # tokens that follow a prompt in the calibration
_RARE = 4  # texts of random tokens in the calibration


def write_quantized(form: StaticForm, folder: Path, texts: Sequence[Sequence[int]]) -> StaticForm:
    """Quantise static graphs, and write them into `folder` with one file of weights.

    Args:
        texts: token ids that the ranges are measured on; a text is cut to the context, and the model's own
            continuation is measured too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    measured = replace(form, mask=MASK)
    graphs = {block: folder / path.name for block, path in form.graphs.items()}
    with tempfile.TemporaryDirectory(dir=folder) as scratch, SharedWeights(folder / WEIGHTS) as weights:
        ranges = Path(scratch) / "ranges.json"
        for block in sorted(form.graphs, reverse=True):  # the longest is first: it is measured
            feeds = _feeds(measured, texts) if not ranges.exists() else iter(())
            quantized = Path(scratch) / f"{block}.onnx"
            _quantize(form.graphs[block], quantized, feeds, ranges)
            write_graph(_shared(onnx.load(quantized), weights), graphs[block])
            for file in Path(scratch).glob(f"{block}.onnx*"):
                file.unlink()
    return replace(measured, graphs=graphs)


def _feeds(form: StaticForm, texts: Sequence[Sequence[int]]) -> Iterator[dict[str, Floats]]:
    """The inputs of the longest graph while it reads the texts and the model's continuations."""
    longest = max(form.graphs)
    model = StaticModel(StaticGraphs(form))
    for text in (*texts, *_rare(form)):
        model.rewind(0)
        ids = list(text[: max(1, form.kv.max_length - _CONTINUED)])
        row = model.score(ids, 1)[-1]
        while len(ids) < min(len(text) + _CONTINUED, form.kv.max_length):
            ids.append(int(row.argmax()))
            row = model.score(ids[-1:])[-1]
        model.rewind(0)
        for begin in range(0, len(ids), longest):
            part = ids[begin : begin + longest]
            yield model.feed(
                (part * longest)[:longest]
            )  # always a whole block: a short rest of the text is repeated
            model.score(part)


def _rare(form: StaticForm) -> list[list[int]]:
    """Texts of ids drawn from the whole vocabulary.

    The values of rare tokens must not be clipped, and 16 bits are enough for both ranges.
    """
    draw = np.random.default_rng(0)
    size = form.kv.max_length - _CONTINUED
    return [[int(i) for i in draw.integers(0, form.vocab_size, max(1, size))] for _ in range(_RARE)]


def _quantize(graph: Path, out: Path, feeds: Iterator[dict[str, Floats]], ranges: Path) -> None:
    """Quantise one graph; the ranges are read from a file, or measured on `feeds` and written to it."""
    with quietly():
        from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
        from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config

        class Reader(CalibrationDataReader):  # type: ignore[misc] # untyped
            def get_next(self) -> dict[str, Floats] | None:
                return next(feeds, None)

        config = get_qnn_qdq_config(
            str(graph),
            Reader(),
            activation_type=QuantType.QUInt16,
            weight_type=QuantType.QInt8,
            init_overrides=_per_channel(graph, QuantType.QInt8),
        )
        quantize_static(
            str(graph),
            str(out),
            Reader(),
            activation_type=config.activation_type,
            weight_type=config.weight_type,
            op_types_to_quantize=config.op_types_to_quantize,
            per_channel=config.per_channel,
            use_external_data_format=True,
            calibrate_method=config.calibrate_method,
            extra_options=config.extra_options,
            calibration_cache_path=str(ranges),
        )


def _per_channel(graph: Path, kind: Any) -> dict[str, list[dict[str, Any]]]:
    """A scale for each column of every weight of a product."""
    proto = onnx.load(graph, load_external_data=False).graph
    weights = {tensor.name for tensor in proto.initializer}
    products = [node.input[1] for node in proto.node if node.op_type == "MatMul" and node.input[1] in weights]
    return {name: [{"quant_type": kind, "axis": 1, "symmetric": True}] for name in products}


def _shared(model: onnx.ModelProto, weights: SharedWeights) -> onnx.ModelProto:
    """The model with its weights in the shared file."""
    initializers = model.graph.initializer
    tensors = [weights.add(tensor.name, numpy_helper.to_array(tensor)) for tensor in initializers]
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)
    return model
