"""A graph quantised and written weight by weight: memory holds one weight of the model at a time.

A weight and the nodes that read it are cut out as a graph of their own, quantised as any graph is, written,
and put back: there is one quantisation, for models of every size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from omnidraft.export.cpu import Skeleton
from omnidraft.export.markers import EMBEDDING
from omnidraft.export.passes import consumers
from omnidraft.export.quantize import Quantization, quantize
from omnidraft.export.weights import Weights, give
from omnidraft.export.write import EXTERNAL_ABOVE, GraphWriter, shell_of


def write_skeleton(
    skeleton: Skeleton, quantization: Quantization, path: Path, *, external_above: int = EXTERNAL_ABOVE
) -> list[Path]:
    """Fill, quantise and write a graph; the skeleton itself stays as it is.

    Returns the files written, as `write.write_graph` does, and raises what it raises.
    """
    shell, weights = shell_of(skeleton.proto), skeleton.weights
    with GraphWriter(path, external_above) as writer:
        for tensor in skeleton.proto.graph.initializer:
            if tensor.name not in weights:
                writer.add(tensor)
        for names in _together(skeleton.proto, quantization):
            nodes = [node for name in names for node in consumers(skeleton.proto.graph, name)]
            nodes = [node for at, node in enumerate(nodes) if node not in nodes[:at]]
            if _as_it_is(nodes, quantization):
                for name in names:
                    writer.add_values(name, weights.read(name))
                continue
            piece = _piece(names, nodes, weights)
            quantize(piece, _of(nodes, quantization))
            for tensor in piece.graph.initializer:
                writer.add(tensor)
            _put_back(shell.graph, nodes, list(piece.graph.node))
        return writer.finish(shell)


def _together(model: ModelProto, quantization: Quantization) -> list[list[str]]:
    """The names of the weights, those that are quantised at once in one list."""
    names = [tensor.name for tensor in model.graph.initializer if _is_open(tensor)]
    ends = [name for name in names if name in (EMBEDDING, "lm_head.weight")]
    rest = [[name] for name in names if name not in ends]
    return [*rest, ends] if quantization.embedding_bits < 32 else [*rest, *([name] for name in ends)]


def _is_open(tensor: TensorProto) -> bool:
    """Whether an initializer has no values yet."""
    fields = {field.name for field, _ in tensor.ListFields()}
    return fields <= {"name", "dims", "data_type"}


def _as_it_is(nodes: Sequence[NodeProto], quantization: Quantization) -> bool:
    """Whether a quantisation leaves all that these nodes read alone."""
    bits = {quantization.embedding_bits if node.op_type == "Gather" else quantization.bits for node in nodes}
    return bits == {32}


def _of(nodes: Sequence[NodeProto], quantization: Quantization) -> Quantization:
    """The quantisation of a piece: an embedding that is not in it cannot be looked for."""
    if any(node.op_type == "Gather" for node in nodes):
        return quantization
    return replace(quantization, embedding_bits=32)


def _piece(names: Sequence[str], nodes: Sequence[NodeProto], weights: Weights) -> ModelProto:
    """The nodes that read some weights, as a model with these weights."""
    model = ModelProto()
    model.graph.node.extend(nodes)
    model.graph.output.extend(ValueInfoProto(name=name) for node in nodes for name in node.output)
    for name in names:
        values = weights.read(name)
        tensor = model.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=values.shape)
        give(tensor, values)
    return model


def _put_back(graph: GraphProto, nodes: Sequence[NodeProto], made: Sequence[NodeProto]) -> None:
    """Puts what a piece became in the places of its nodes, each up to what gives the node's output."""
    rest = list(made)
    for node in nodes:
        place = next(at for at, each in enumerate(graph.node) if each.output == node.output)
        del graph.node[place]
        end = next(at for at, each in enumerate(rest) if node.output[0] in each.output)
        for offset, each in enumerate(rest[: end + 1]):
            graph.node.insert(place + offset, each)
        rest = rest[end + 1 :]
    assert not rest, "a piece gives more than its nodes did"
