"""The sites where a low-rank adapter enters a graph: y = x W + (x A) B at the products of a layer.

A [in, rank] and B [rank, out] are inputs of the graph; the scale alpha / rank is folded into B. With an open
rank they are *overridable initializers* of rank zero: feeding them is optional, any rank may be fed, and
without an adapter the sum adds nothing. With a fixed rank, for accelerators, they are plain inputs.

The passes work on products named by `markers.place_weights`, before quantisation, which leaves A and B in
float.
"""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from omnidraft.export.graph.passes import SITES, matmuls
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site, a_name, b_name

_PARTS = {
    "qkv": ("q", "k", "v"),
    "gate_up": ("gate", "up"),
}  # the packed products, in the order of their columns


def add_lora_sites(model: ModelProto, rank: int | None = None) -> ModelProto:
    """Add inputs `{site}.lora_a` and `{site}.lora_b` to the products of the layers, `layers.{i}.{site}`.

    Args:
        rank: None for an open rank. Otherwise the rank of each packed part, of inputs that must be fed; the
            inputs of `qkv` have three times that rank.
    """
    graph, dims = model.graph, _dims(model.graph)
    if rank is None:
        model.ir_version = max(model.ir_version, 4)  # since version 4 an initializer may be an input too
    for node in [node for node in matmuls(graph) if node.name.rpartition(".")[2] in SITES]:
        assert node.op_type == "MatMul", f"{node.name} is a {node.op_type}; LoRA enters plain products"
        fixed = None if rank is None else rank * len(_parts(node.name))
        _add_inputs(graph, node.name, dims[node.input[1]], fixed)
        _add_sum(graph, node)
    return model


def _add_inputs(graph: GraphProto, site: str, shape: tuple[int, ...], rank: int | None) -> None:
    open_rank = f"{site}.rank"  # each site has its own name: sites may differ in rank
    for name, of_input, of_default in (
        (a_name(site), [shape[0], rank or open_rank], (shape[0], 0)),
        (b_name(site), [rank or open_rank, shape[1]], (0, shape[1])),
    ):
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, of_input))
        if rank is None:
            graph.initializer.append(numpy_helper.from_array(np.zeros(of_default, np.float32), name))


def _add_sum(graph: GraphProto, product: NodeProto) -> None:
    """Add the adapter's part to a product; the sum takes the name of the product's output."""
    site, out = product.name, product.output[0]
    product.output[0] = f"{site}.base"
    rows, delta = f"{site}.lora_rows", f"{site}.lora_delta"
    added = (
        helper.make_node("MatMul", [product.input[0], a_name(site)], [rows], rows),
        helper.make_node("MatMul", [rows, b_name(site)], [delta], delta),
        helper.make_node("Add", [f"{site}.base", delta], [out], f"{site}.sum"),
    )
    place = list(graph.node).index(product) + 1
    for offset, node in enumerate(added):
        graph.node.insert(place + offset, node)


def lora_sites(model: ModelProto, kv_columns: int) -> LoraSites:
    """The sites that `add_lora_sites` made, and how their columns are packed.

    Args:
        kv_columns: width of the keys of one layer, num_kv_heads * head_dim; the values have the same width.
    """
    graph = model.graph
    dims = _dims(graph)
    ranks = {
        site: value.type.tensor_type.shape.dim[1].dim_value // len(_parts(site)) or None
        for value in graph.input
        if (site := value.name.removesuffix(".lora_a")) != value.name
    }
    sites = {
        node.name: _site(node.name, dims[node.input[1]], kv_columns)
        for node in matmuls(graph)
        if node.name in ranks
    }
    assert sites.keys() == ranks.keys() and len(set(ranks.values())) == 1, ranks
    return LoraSites(next(iter(ranks.values())), sites)


def _site(name: str, shape: tuple[int, ...], kv_columns: int) -> Site:
    kind, parts = name.rpartition(".")[2], _parts(name)
    widths = [shape[1] // len(parts)] * len(parts)
    if kind == "qkv":
        widths = [shape[1] - 2 * kv_columns, kv_columns, kv_columns]
    assert sum(widths) == shape[1] and min(widths) > 0, (name, shape, kv_columns)
    return Site(shape[0], tuple(zip(parts, widths, strict=True)))


def _parts(name: str) -> tuple[str, ...]:
    kind = name.rpartition(".")[2]
    return _PARTS.get(kind, (kind,))


def _dims(graph: GraphProto) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
