"""The static form of a decoder: one graph for each block length, for any accelerator.

Every shape is fixed and every operator is a plain ONNX operator. The host looks embeddings up, makes the
additive attention mask and the rows of the rotary tables, and keeps the keys and values; the graph returns
only the new ones. This module does not know torch, checkpoints, accelerators or quantisation. Contract:
spec/03-bundle.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from omnidraft.export.npu.static_net import Net


@dataclass(frozen=True)
class Decoder:
    """The sizes and constants of a decoder; the names of its weights decide which norms and biases it has.

    Weights of layer i, under `layers.{i}.`: the products `qkv`, `o`, `gate_up` and `down`, each with
    `.weight` [in, out] and optionally `.bias`; the norms `attention_norm` and `mlp_norm` before a block,
    `attention_post_norm` and `mlp_post_norm` after a block, `q_norm` and `k_norm` over one head or all heads,
    each with `.weight`. Weights of the model: `norm` and `lm_head`.
    """

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    vocab_size: int
    epsilon: float
    attention_scale: float
    residual_multiplier: float = 1.0
    logits_scaling: float = 1.0

    @property
    def group(self) -> int:
        """Number of query heads that share a key head."""
        return self.num_heads // self.num_kv_heads


def static_graph(
    decoder: Decoder, weights: Mapping[str, TensorProto], block: int, kv_length: int
) -> ModelProto:
    """The graph for blocks of `block` tokens after up to `kv_length` earlier ones."""
    net = Net(weights)
    hidden, mask = "inputs_embeds", "attention_mask"
    if decoder.group > 1:  # the query heads of a key head are folded into rows
        mask = net.op("Concat", [mask] * decoder.group, "mask", axis=2)
    for i in range(decoder.num_layers):
        name = f"layers.{i}"
        rows = net.norm(hidden, f"{name}.attention_norm", decoder.epsilon)
        rows = _attention(net, decoder, i, rows, mask, block)
        rows = net.norm(rows, f"{name}.attention_post_norm", decoder.epsilon)
        rows = net.times(rows, decoder.residual_multiplier, f"{name}.attention.scaled")
        hidden = net.op("Add", [hidden, rows], f"{name}.attention.added")
        rows = _mlp(net, name, net.norm(hidden, f"{name}.mlp_norm", decoder.epsilon))
        rows = net.norm(rows, f"{name}.mlp_post_norm", decoder.epsilon)
        rows = net.times(rows, decoder.residual_multiplier, f"{name}.mlp.scaled")
        hidden = net.op("Add", [hidden, rows], f"{name}.mlp.added")
    logits = net.linear(net.norm(hidden, "norm", decoder.epsilon), "lm_head")
    logits = net.times(logits, 1.0 / decoder.logits_scaling, "lm_head.scaled")
    net.rename(logits, "logits")
    return net.model(f"block_{block}", _inputs(decoder, block, kv_length), _outputs(decoder, block))


def _attention(net: Net, decoder: Decoder, layer: int, rows: str, mask: str, block: int) -> str:
    """Attention of `block` rows over the past and themselves, up to the product with `o`."""
    name, heads, kv_heads, dim = f"layers.{layer}", decoder.num_heads, decoder.num_kv_heads, decoder.head_dim
    q, k, v = _split(net, decoder, net.linear(rows, f"{name}.qkv"), name)
    q = _rotate(net, _heads(net, decoder, q, heads, f"{name}.q", block), f"{name}.q")
    k = _rotate(net, _heads(net, decoder, k, kv_heads, f"{name}.k", block), f"{name}.k")
    v = _turn(net, v, (block, kv_heads, dim), f"{name}.v")
    q = net.times(q, decoder.attention_scale, f"{name}.q.scaled")
    if decoder.group > 1:  # the query heads of a key head become its rows: keys are not repeated
        q = net.reshape(q, [1, kv_heads, decoder.group * block, dim], f"{name}.q.folded")
    past, new_k, new_v = f"past_key_values.{layer}", f"new.{layer}.key", f"new.{layer}.value"
    net.rename(k, new_k)
    net.rename(v, new_v)
    # keys, values: [1, kv_heads, past + block, dim]
    keys = net.op("Concat", [f"{past}.key", new_k], f"{name}.keys", axis=2)
    values = net.op("Concat", [f"{past}.value", new_v], f"{name}.values", axis=2)
    keys = net.op("Transpose", [keys], f"{name}.keys.turned", perm=[0, 1, 3, 2])
    scores = net.op("MatMul", [q, keys], f"{name}.scores")  # [1, kv_heads, group * block, past + block]
    scores = net.op("Add", [scores, mask], f"{name}.scores.masked")
    shares = net.op("Softmax", [scores], f"{name}.shares", axis=-1)
    mixed = net.op("MatMul", [shares, values], f"{name}.mixed")
    if decoder.group > 1:
        mixed = net.reshape(mixed, [1, heads, block, dim], f"{name}.mixed.unfolded")
    mixed = net.op("Transpose", [mixed], f"{name}.mixed.turned", perm=[0, 2, 1, 3])
    return net.linear(net.reshape(mixed, [1, block, heads * dim], f"{name}.mixed.rows"), f"{name}.o")


def _split(net: Net, decoder: Decoder, packed: str, name: str) -> tuple[str, str, str]:
    """Cut queries, keys and values from one product."""
    q, kv = decoder.num_heads * decoder.head_dim, decoder.num_kv_heads * decoder.head_dim
    bounds = pairwise((0, q, q + kv, q + 2 * kv))
    first, second, third = (net.part(packed, *at, f"{name}.{x}") for x, at in zip("qkv", bounds, strict=True))
    return first, second, third


def _heads(net: Net, decoder: Decoder, rows: str, heads: int, name: str, block: int) -> str:
    """[1, block, heads * head_dim] -> [1, heads, block, head_dim], normed over all heads or each head."""
    weight = net.weights.get(f"{name}_norm.weight")
    over_all = weight is not None and list(weight.dims) != [decoder.head_dim]
    if over_all:
        rows = net.norm(rows, f"{name}_norm", decoder.epsilon)
    turned = _turn(net, rows, (block, heads, decoder.head_dim), name)
    return turned if over_all else net.norm(turned, f"{name}_norm", decoder.epsilon)


def _turn(net: Net, rows: str, shape: tuple[int, int, int], name: str) -> str:
    """[1, block, heads * head_dim] -> [1, heads, block, head_dim]."""
    apart = net.reshape(rows, [1, *shape], f"{name}.apart")
    return net.op("Transpose", [apart], f"{name}.heads", perm=[0, 2, 1, 3])


def _rotate(net: Net, heads: str, name: str) -> str:
    """x cos + swapped(x) sin, where `sin` is negative in its first half (RoFormer, eq. 34)."""
    first, second = net.halves(heads, f"{name}.half")
    swapped = net.op("Concat", [second, first], f"{name}.swapped", axis=-1)
    straight = net.op("Mul", [heads, "cos"], f"{name}.straight")
    turned = net.op("Mul", [swapped, "sin"], f"{name}.turned")
    return net.op("Add", [straight, turned], f"{name}.rotated")


def _mlp(net: Net, name: str, rows: str) -> str:
    """down(silu(gate) up)."""
    gate, up = net.halves(net.linear(rows, f"{name}.gate_up"), f"{name}.gate_up.half")
    silu = net.op("Mul", [gate, net.op("Sigmoid", [gate], f"{name}.gate.sigmoid")], f"{name}.gate")
    return net.linear(net.op("Mul", [silu, up], f"{name}.gated"), f"{name}.down")


def _inputs(decoder: Decoder, block: int, kv_length: int) -> list[ValueInfoProto]:
    past = [1, decoder.num_kv_heads, kv_length, decoder.head_dim]
    return [
        _info("inputs_embeds", [1, block, decoder.hidden_size]),
        _info("attention_mask", [1, 1, block, kv_length + block]),
        _info("cos", [1, 1, block, decoder.head_dim]),
        _info("sin", [1, 1, block, decoder.head_dim]),
        *(_info(name, past) for name in kv_names("past_key_values", decoder.num_layers)),
    ]


def _outputs(decoder: Decoder, block: int) -> list[ValueInfoProto]:
    new = [1, decoder.num_kv_heads, block, decoder.head_dim]
    return [
        _info("logits", [1, block, decoder.vocab_size]),
        *(_info(name, new) for name in kv_names("new", decoder.num_layers)),
    ]


def kv_names(prefix: str, num_layers: int) -> list[str]:
    """The names of the keys and values of every layer, `{prefix}.{i}.key` and `.value`."""
    return [f"{prefix}.{i}.{kind}" for i in range(num_layers) for kind in ("key", "value")]


def _info(name: str, shape: list[int]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
