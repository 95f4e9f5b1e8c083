"""The weights of an adopted graph: their files, how they are stored, how many there are."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from omnidraft.errors import CheckpointError
from omnidraft.runtime.bundle.bundle_limits import MAX_NAME

_QUANTIZED = re.compile(r"MatMulNBits|GatherBlockQuantized|DequantizeLinear|.*(Integer|Dynamic|QLinear).*")


def weight_files(name: str, graph: Path, proto: ModelProto) -> tuple[str, ...]:
    """Names of the files beside a graph that hold its weights; each exists and is long enough."""
    ends = _ends(proto)
    for location, end in sorted(ends.items()):
        # A bundle finds the weights of a graph by its name.
        if (
            "/" in location
            or "\\" in location
            or not location.startswith(graph.name)
            or location == graph.name
        ):
            raise CheckpointError(
                f"{name} keeps weights in {location!r}, which is not a file beside "
                f"{graph.name} whose name begins with {graph.name}",
                f"save it with location={graph.name + '_data'!r} of onnx.save_model",
            )
        file = graph.with_name(location)
        if not file.is_file():
            raise CheckpointError(f"{name} lacks {location}, which holds its weights", "copy that file too")
        if file.stat().st_size < end:
            raise CheckpointError(
                f"{name}: {location} was cut short ({file.stat().st_size} bytes of {end})",
                "copy that file again",
            )
    return tuple(sorted(ends))


def _ends(proto: ModelProto) -> dict[str, int]:
    """The files of external weights, and the least size of each in bytes."""
    ends: dict[str, int] = {}
    for tensor in _tensors(proto.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            numbers = [entries.get(key, "0") for key in ("offset", "length")]
            end = sum(int(number) for number in numbers if number.isdecimal())
            location = entries.get("location", "")
            ends[location] = max(ends.get(location, 0), end)
    return ends


def quantization_of(proto: ModelProto) -> str:
    """How the weights are stored: fp32, fp16, or the operators that hold them quantised."""
    operators = {node.op_type for node in _nodes(proto.graph) if _QUANTIZED.fullmatch(node.op_type)}
    half = any(t.data_type == TensorProto.FLOAT16 and len(t.dims) > 1 for t in _tensors(proto.graph))
    kinds = sorted(operators)
    named = ", ".join(kinds) or ("fp16" if half else "fp32")
    data = named.encode()
    return named if len(data) <= MAX_NAME else data[: MAX_NAME - 4].decode(errors="ignore") + " ..."


_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8)


def count_parameters(proto: ModelProto) -> int:
    """Number of weights; small constants are not counted."""
    sizes: list[int] = [math.prod(t.dims) for t in _tensors(proto.graph) if t.data_type in _FLOATS]
    packed = [{a.name: a.i for a in n.attribute} for n in _nodes(proto.graph) if n.op_type == "MatMulNBits"]
    plain = sum(size for size in sizes if size >= 64)
    return plain + sum(int(each.get("K", 0)) * int(each.get("N", 0)) for each in packed)


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of its subgraphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from _nodes(inner)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """The initializers of a graph and of its subgraphs, and the constants in its nodes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from _tensors(inner)
