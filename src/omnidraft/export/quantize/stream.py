"""Quantise and write a graph weight by weight: memory holds one weight of the model at a time.

A weight and the node that reads it are cut out as a small graph, which is quantised like any graph, written,
and put back: models of all sizes use the same quantisation code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from omnidraft.export.graph.markers import untie
from omnidraft.export.graph.passes import consumers
from omnidraft.export.graph.skeleton import Skeleton
from omnidraft.export.graph.weights import GraphWeights, give
from omnidraft.export.graph.write import EXTERNAL_ABOVE, GraphWriter, shell_of
from omnidraft.export.quantize.embedding import shares_table
from omnidraft.export.quantize.quantize import Quantization, quantize
from omnidraft.export.quantize.stored import write_stored


def write_skeleton(
    skeleton: Skeleton,
    quantization: Quantization,
    path: Path,
    *,
    external_above: int = EXTERNAL_ABOVE,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[Path]:
    """Fill, quantise and write a graph; the skeleton is not changed.

    Args:
        skeleton: the graph, and the weights that it names.
        quantization: how to store the weights; any method but gptq.
        path: the file of the graph.
        external_above: bytes above which the weights go to a file beside the graph.
        progress: called with (weights written, all weights).

    Returns:
        The files written.

    Raises:
        ExportError: the disk is full.
    """
    model = ModelProto()
    model.CopyFrom(skeleton.proto)
    if (quantization.bits, quantization.embedding_bits) != (32, 32) and not shares_table(
        model.graph, quantization
    ):
        untie(model)
    shell = shell_of(model)
    done, total = 0, sum(tensor.name in skeleton.weights for tensor in model.graph.initializer)
    with GraphWriter(path, external_above) as writer:
        for tensor in model.graph.initializer:
            if tensor.name in skeleton.weights:
                progress(done, total)
                done += 1
                _write_weight(writer, shell.graph, tensor.name, skeleton.weights, quantization)
            else:
                writer.add(tensor)
        return writer.finish(shell)


def _write_weight(
    writer: GraphWriter, graph: GraphProto, name: str, weights: GraphWeights, quantization: Quantization
) -> None:
    """Quantise and write one weight, and replace the nodes of `graph` that read it."""
    if quantization.stored and (constants := write_stored(graph, name, weights)) is not None:
        for constant, values in constants.items():
            writer.add_values(constant, values)
        return
    nodes = consumers(graph, name)  # two, if the LM head reads the embedding
    bits = {quantization.embedding_bits if node.op_type == "Gather" else quantization.bits for node in nodes}
    if bits == {32}:
        writer.add_values(name, weights.read(name))
        return
    piece = _piece(name, nodes, weights)
    # quantize() looks for the embedding if embedding_bits ask for it, and only one piece has the embedding.
    embeds = any(node.op_type == "Gather" for node in nodes)
    quantize(piece, quantization if embeds else replace(quantization, embedding_bits=32))
    for tensor in piece.graph.initializer:
        writer.add(tensor)
    for node in reversed(nodes):
        own = [each for each in piece.graph.node if (each.name == "lm_head") == (node.name == "lm_head")]
        place = list(graph.node).index(node)
        del graph.node[place]
        for offset, quantized in enumerate(own):
            graph.node.insert(place + offset, quantized)


def _piece(name: str, nodes: Sequence[NodeProto], weights: GraphWeights) -> ModelProto:
    """A model of the nodes that read a weight, and the weight."""
    model = ModelProto()
    model.graph.node.extend(nodes)
    model.graph.output.extend(ValueInfoProto(name=output) for node in nodes for output in node.output)
    values = weights.read(name)
    give(model.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=values.shape), values)
    return model
