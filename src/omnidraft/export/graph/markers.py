"""Turn markers into onnxruntime's operators: products with named weights, attention over shared KV buffers.

Each pass is a function from model to model, as in `passes`. Weights are named here and filled in later (see
`weights`), so a graph stays small for a model of any size. This module does not know torch or checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from omnidraft.export.graph.passes import consumers, initializer, replace

Table = NDArray[np.float32]

_SITES = {
    "qkv": ("q_proj", "k_proj", "v_proj", "qkv_proj", "query_key_value"),
    "o": ("o_proj", "dense"),
    "gate_up": ("gate_proj", "up_proj", "gate_up_proj", "dense_h_to_4h"),
    "down": ("down_proj", "dense_4h_to_h"),
}
_SITE_OF = {module: site for site, modules in _SITES.items() for module in modules}
_FLAT = ("MatMul", "Add", "Split", "Slice")  # their outputs are [1, n, width]
DOMAIN = "omnidraft"  # the ONNX domain of the markers
EMBEDDING, HEAD = "embedding.weight", "lm_head.weight"


@dataclass(frozen=True)
class Part:
    """A module that is traced as a marker."""

    name: str  # name of the module in the torch model
    shape: tuple[int, int]  # shape of its weight, [out, in] of a product, [vocab, hidden] of an embedding
    bias: bool = False  # whether it has a bias


@dataclass(frozen=True)
class MarkedSite:
    """A weight of the graph: the name of the initializer, and the modules that are packed in it in order."""

    name: str
    parts: tuple[Part, ...]


def place_weights(model: ModelProto, parts: Mapping[str, Part], tied: bool) -> list[MarkedSite]:
    """Turn Product markers into MatMuls and the Rows marker into a Gather; return the weights that they name.

    The MatMuls are named by their site, `layers.{i}.qkv` to `lm_head`, with weights `{name}.weight` and
    biases `{name}.bias`, both still without values. The products of one site become one product. A
    tied LM head reads the embedding.
    """
    graph = model.graph
    sites = []
    for node in [node for node in graph.node if node.op_type == "Rows"]:
        part = parts[_text(node, "site")]
        node.CopyFrom(helper.make_node("Gather", [EMBEDDING, node.input[0]], list(node.output), "embedding"))
        sites.append(MarkedSite(EMBEDDING, (part,)))
        _declare(graph, EMBEDDING, part.shape)
    for name, nodes in _groups(graph).items():
        packed = tuple(parts[_text(node, "site")] for node in nodes)
        sites.append(MarkedSite(f"{name}.weight", packed))
        if name == "lm_head" and tied:
            names = [nodes[0].input[0], EMBEDDING], list(nodes[0].output)
            tied_head = helper.make_node("FusedMatMul", *names, "lm_head", domain="com.microsoft", transB=1)
            nodes[0].CopyFrom(tied_head)
            continue
        _pack(graph, name, nodes, packed)
    return sites


def _groups(graph: GraphProto) -> dict[str, list[NodeProto]]:
    """The Product markers by the name of their site; all markers of a site read the same value."""
    groups: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        if node.op_type == "Product":
            groups.setdefault(_site(_text(node, "site")), []).append(node)
    for name, nodes in groups.items():
        assert len({node.input[0] for node in nodes}) == 1, f"the products of {name} read different values"
    return groups


def _site(module: str) -> str:
    """`model.layers.3.self_attn.k_proj` -> `layers.3.qkv`."""
    match = re.search(r"layers\.(\d+)\.(?:.*\.)?(\w+)$", module)
    return f"layers.{match[1]}.{_SITE_OF[match[2]]}" if match else "lm_head"


def _declare(graph: GraphProto, name: str, shape: Sequence[int]) -> None:
    """Add an initializer without its values."""
    graph.initializer.append(TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape))


def _pack(graph: GraphProto, name: str, nodes: list[NodeProto], parts: tuple[Part, ...]) -> None:
    """Replace the markers of a site by one MatMul (and Add), followed by a Split if there are several."""
    rows, sizes = parts[0].shape[1], [part.shape[0] for part in parts]
    biased = {part.bias for part in parts}
    assert len(biased) == 1, f"some products of {name} have a bias and some do not"
    _declare(graph, f"{name}.weight", (rows, sum(sizes)))
    outputs = [node.output[0] for node in nodes]
    end = outputs[0] if len(nodes) == 1 else f"{name}.packed"
    product = f"{name}.product" if biased == {True} else end
    made = [helper.make_node("MatMul", [nodes[0].input[0], f"{name}.weight"], [product], name)]
    if biased == {True}:
        # Three axes: a flat bias is fused into its product, and an adapter between them would change bits.
        _declare(graph, f"{name}.bias", (1, 1, sum(sizes)))
        made.append(helper.make_node("Add", [product, f"{name}.bias"], [end], f"{name}.add"))
    if len(nodes) > 1:
        graph.initializer.append(numpy_helper.from_array(np.array(sizes, np.int64), f"{name}.sizes"))
        made.append(helper.make_node("Split", [end, f"{name}.sizes"], outputs, f"{name}.split", axis=-1))
    place = list(graph.node).index(nodes[0])
    for node in nodes:
        graph.node.remove(node)
    for offset, node in enumerate(made):
        graph.node.insert(place + offset, node)


def share_buffers(
    model: ModelProto, tables: Mapping[str, tuple[Table, Table]], max_length: int
) -> ModelProto:
    """Turn Attention markers into GroupQueryAttention, which writes into its past buffers.

    Two inputs count positions; the rotary tables are constants. Attention is causal and sees the first
    `total_sequence_length` rows, of these the last `window`: there is no mask and there are no position ids.

    Args:
        tables: cos and sin by kind of layer, see `trace.rotary_tables`.
    """
    graph = model.graph
    for kind, (cos, sin) in tables.items():
        for table, name in ((cos, "cos"), (sin, "sin")):
            graph.initializer.append(numpy_helper.from_array(table, _table(name, kind)))
    for layer, node in enumerate([node for node in graph.node if node.op_type == "Attention"]):
        node.CopyFrom(_attention(graph, layer, node, max_length))
    return model


def forget_domain(model: ModelProto) -> ModelProto:
    """Keep only the domains that the nodes use; no marker may be left."""
    domains = {node.domain for node in model.graph.node}
    assert DOMAIN not in domains, "a marker is left"
    known = {opset.domain: opset.version for opset in model.opset_import} | {"com.microsoft": 1}
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(d, v) for d, v in known.items() if d in {"", *domains})
    return model


def _table(name: str, kind: str) -> str:
    return f"rotary.{kind}.{name}" if kind else f"rotary.{name}"


def _attention(graph: GraphProto, layer: int, marker: NodeProto, max_length: int) -> NodeProto:
    settings: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in marker.attribute}
    kind = settings["rotary"].decode()
    window = settings["window"]
    limits: dict[str, Any] = {}
    if 0 < window < max_length:
        limits["local_window_size"] = window
    if settings["softcap"]:
        limits["softcap"] = settings["softcap"]
    states = [_flat(graph, value) for value in marker.input]
    output = _readers_take(graph, marker.output[0])
    inputs = [
        *(_packed(graph, states) or states),
        *(f"past_key_values.{layer}.{part}" for part in ("key", "value")),
        "seqlens_k",
        "total_sequence_length",
        _table("cos", kind),
        _table("sin", kind),
    ]
    return helper.make_node(
        "GroupQueryAttention",
        inputs,
        [output, f"present.{layer}.key", f"present.{layer}.value"],
        f"layers.{layer}.attention",
        domain="com.microsoft",
        do_rotary=1,
        num_heads=settings["num_heads"],
        kv_num_heads=settings["kv_num_heads"],
        scale=settings["scale"],
        **limits,
    )


def _flat(graph: GraphProto, value: str) -> str:
    """The input of a Reshape to [1, n, width] if it has that shape already, else the value itself."""
    node = _producer(graph, value)
    if node is None or node.op_type != "Reshape":
        return value
    before = _producer(graph, node.input[0])  # after a Transpose the heads are on an axis of their own
    return node.input[0] if before is not None and before.op_type in _FLAT else value


def _readers_take(graph: GraphProto, output: str) -> str:
    """Connect nodes that read attention through a Reshape to [1, n, width], which is its shape, directly."""
    for node in consumers(graph, output):
        if node.op_type == "Reshape":
            for reader in consumers(graph, node.output[0]):
                replace(reader.input, node.output[0], output)
    return output


def _packed(graph: GraphProto, states: Sequence[str]) -> list[str] | None:
    """The inputs of attention if query, key and value are cut in this order from one packed projection."""
    nodes = [_producer(graph, value) for value in states]
    first = nodes[0]
    if first is None or any(node is None or node.op_type != first.op_type for node in nodes):
        return None
    if first.op_type == "Split" and list(first.output) == list(states):
        return [first.input[0], "", ""]
    if first.op_type == "Slice" and _is_cut(graph, [node for node in nodes if node is not None]):
        return [first.input[0], "", ""]
    return None


def _is_cut(graph: GraphProto, slices: Sequence[NodeProto]) -> bool:
    """Whether the Slices cut the whole last axis of one value in order."""
    if len({node.input[0] for node in slices}) != 1:
        return False
    bounds = [
        [int(numpy_helper.to_array(initializer(graph, name))[0]) for name in n.input[1:4]] for n in slices
    ]
    ends = [0, *(end for _, end, _ in bounds)]
    return [start for start, _, _ in bounds] == ends[:-1] and {axis for *_, axis in bounds} <= {-1, 2}


def _producer(graph: GraphProto, value: str) -> NodeProto | None:
    return next((node for node in graph.node if value in node.output), None)


def _text(node: NodeProto, name: str) -> str:
    (value,) = (a.s.decode() for a in node.attribute if a.name == name)
    return str(value)
