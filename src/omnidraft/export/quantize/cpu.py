"""Checkpoint -> a quantised CPU graph, whole in memory. Large models are written by `stream` instead."""

from __future__ import annotations

import dataclasses

from onnx import ModelProto

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.checkpoints.thin_model import thin_model
from omnidraft.export.graph.contract import GraphContract
from omnidraft.export.graph.skeleton import check_length, skeleton
from omnidraft.export.graph.weights import fill
from omnidraft.export.quantize.quantize import Quantization, quantize


def export_cpu(
    checkpoint: Checkpoint, max_length: int, quantization: Quantization
) -> tuple[ModelProto, GraphContract]:
    """The graph of `checkpoint` with KV buffers of `max_length` positions, and its contract.

    Raises:
        CheckpointError: the weights do not load.
        ExportError: `max_length` is out of range.
    """
    check_length(checkpoint, max_length)
    bare = skeleton(checkpoint, thin_model(checkpoint), max_length)
    proto = quantize(fill(bare.proto, bare.weights), quantization)
    return proto, dataclasses.replace(bare.contract, quantization=quantization.name)
