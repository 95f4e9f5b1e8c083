"""Checkpoint -> the graph that CPUs run: one for prefill, decode and verification, at any past.

The contract, also for the phones: the same tensor is bound as `past_key_values.{i}.key` and `present.{i}.key`
(and `.value`), onnxruntime writes into it in place, and dropping positions is lowering the count.
"""

from __future__ import annotations

from onnx import ModelProto

from omnidraft.errors import ExportError
from omnidraft.export import graph, passes
from omnidraft.export.checkpoint import Checkpoint, load_model
from omnidraft.export.contract import GraphContract, tensor_specs
from omnidraft.export.quantize import Quantization, quantize


def export_cpu(
    checkpoint: Checkpoint, max_length: int, quantization: Quantization
) -> tuple[ModelProto, GraphContract]:
    """The graph of `checkpoint` with KV buffers of `max_length` positions, and its contract.

    Raises CheckpointError when the weights do not load and ExportError when `max_length` is out of range.
    """
    shape = checkpoint.shape
    if not 1 <= max_length <= shape.max_positions:
        raise ExportError(
            f"a context of {max_length} positions does not fit {checkpoint.name};"
            f" give 1 to {shape.max_positions}"
        )
    model = load_model(checkpoint)
    proto = graph.trace(model)
    tables = graph.rotary_tables(model, max_length)
    del model  # its weights are in the graph now
    passes.name_kv(proto)
    passes.share_buffers(proto, *tables)
    passes.keep_last_rows(proto)
    passes.fix_shapes(proto, (1, shape.num_kv_heads, max_length, shape.head_dim), shape.vocab_size)
    passes.drop_dead(proto)
    passes.name_sites(proto)
    quantize(proto, quantization)
    contract = GraphContract(
        inputs=tensor_specs(proto.graph.input),
        outputs=tensor_specs(proto.graph.output),
        num_layers=shape.num_layers,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        max_length=max_length,
        vocab_size=shape.vocab_size,
        quantization=quantization.name,
    )
    return proto, contract
