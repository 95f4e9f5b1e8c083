"""Weight-only quantisation: each product with a constant weight becomes a MatMulNBits of 8 or 4 bits.

Activations are rounded row by row inside the kernel, so a token changes only its own row. Dynamic int8 shares
one activation scale between the rows of a block: there a refused draft token changes the logits of the
accepted ones, and speculation is no longer exact. It is not offered.

Rounded here and not by onnxruntime's quantiser, whose module sets the root logger to INFO when imported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper, numpy_helper

from omnidraft.errors import SettingError
from omnidraft.export.passes import drop_dead, initializer, matmuls, untie_head

Floats = NDArray[np.float32]

_INT8_ACTIVATIONS = 4  # accuracy_level; at 0 two tokens cost as much as in fp32
_SHRINK, _SHRINKS = np.float32(0.93), 3  # how far a 4-bit scale may come down: to 0.93, 0.86, 0.80
_COLUMNS = 4096
_EMBEDDING_BLOCK = 32


@dataclass(frozen=True)
class Quantization:
    """How weights are stored: `bits` 32 (as they are), 8 or 4, in blocks of `block` rows that share a scale.

    A product whose number of rows `block` does not divide takes blocks of 32, the last padded with zeros.
    `embedding_bits`, 32, 8 or 4, is for the embedding table, in blocks of 32 values of a token: most of the
    bytes of a small drafter, read one row a token, so it is a matter of size and not of speed.
    """

    bits: int
    block: int = 32
    embedding_bits: int = 32

    def __post_init__(self) -> None:
        for bits in (self.bits, self.embedding_bits):
            if bits not in (32, 8, 4):
                raise SettingError(f"weights of {bits} bits are not supported; use 32, 8 or 4")
        if self.block not in (32, 128):
            raise SettingError(f"blocks of {self.block} are not supported; use 32 or 128")

    @property
    def name(self) -> str:
        weights = "fp32" if self.bits == 32 else f"int{self.bits}"
        block = "" if self.bits == 32 or self.block == 32 else f"-b{self.block}"
        return weights + block + ("" if self.embedding_bits == 32 else f"-e{self.embedding_bits}")

    def block_for(self, rows: int) -> int:
        """The block size of a weight of `rows` rows."""
        return self.block if rows % self.block == 0 else 32


FP32, INT8, INT4, INT4_B128 = Quantization(32), Quantization(8), Quantization(4), Quantization(4, 128)
INT4_E8 = Quantization(4, embedding_bits=8)
QUANTIZATIONS = {each.name: each for each in (FP32, INT8, INT4, INT4_B128, INT4_E8)}


def quantize(model: ModelProto, quantization: Quantization) -> ModelProto:
    """Quantises every product with a constant weight, LM head included, and the embedding if asked."""
    if (quantization.bits, quantization.embedding_bits) == (32, 32):
        return model
    untie_head(model)
    if quantization.bits < 32:
        _quantize_products(model, quantization)
    if quantization.embedding_bits < 32:
        _quantize_embedding(model, quantization.embedding_bits)
    return drop_dead(model)


def _quantize_products(model: ModelProto, quantization: Quantization) -> None:
    graph = model.graph
    for node in matmuls(graph):
        name = node.input[1]
        weight = numpy_helper.to_array(initializer(graph, name))
        block = quantization.block_for(len(weight))
        if not any(tensor.name == f"{name}.q" for tensor in graph.initializer):  # equal weights are one
            codes, scales = _round(weight, quantization.bits, block)
            graph.initializer.append(numpy_helper.from_array(codes, f"{name}.q"))
            graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scales"))
        node.CopyFrom(_product(node, weight.shape, quantization.bits, block))


def _quantize_embedding(model: ModelProto, bits: int) -> None:
    graph = model.graph
    node = next(node for node in graph.node if node.op_type == "Gather" and node.input[1] == "input_ids")
    table = numpy_helper.to_array(initializer(graph, node.input[0]))  # [vocab, hidden]
    codes, scales = _round(table.T, bits, _EMBEDDING_BLOCK)
    codes = codes.reshape(len(table), -1)[:, : table.shape[1] * bits // 8]  # this one is not padded
    graph.initializer.append(numpy_helper.from_array(codes, "embedding.q"))
    graph.initializer.append(numpy_helper.from_array(scales, "embedding.scales"))
    node.CopyFrom(
        helper.make_node(
            "GatherBlockQuantized",
            ["embedding.q", "input_ids", "embedding.scales"],
            list(node.output),
            "embedding",
            domain="com.microsoft",
            bits=bits,
            block_size=_EMBEDDING_BLOCK,
            gather_axis=0,
            quantize_axis=1,
        )
    )


def _round(weight: Floats, bits: int, block: int) -> tuple[NDArray[np.uint8], Floats]:
    """`_round_columns`, a few thousand columns at a time for the memory that a large LM head takes."""
    places = range(0, weight.shape[1], _COLUMNS)
    parts = [_round_columns(weight[:, at : at + _COLUMNS], bits, block) for at in places]
    return np.concatenate([codes for codes, _ in parts]), np.concatenate([scales for _, scales in parts])


def _round_columns(weight: Floats, bits: int, block: int) -> tuple[NDArray[np.uint8], Floats]:
    """Codes [n, blocks, block * bits / 8] and scales [n, blocks] of `weight` [k, n]; the middle code is zero.

    The value of largest size in a block has the lowest code, which has no positive counterpart. With 4 bits a
    smaller scale, which clips that value, is taken where it brings the block closer (4 to 7 % less error).
    """
    middle = 1 << (bits - 1)
    k, n = weight.shape
    padded = np.pad(weight.T, ((0, 0), (0, -k % block))).reshape(n, -1, block)
    largest = np.take_along_axis(padded, np.abs(padded).argmax(axis=2, keepdims=True), axis=2)
    scales = largest / np.float32(-middle)
    steps = _steps(padded, scales, middle)
    for _ in range(_SHRINKS if bits == 4 else 0):
        smaller = scales * _SHRINK
        fewer = _steps(padded, smaller, middle)
        closer = _error(padded, fewer * smaller) < _error(padded, steps * scales)
        steps, scales = np.where(closer, fewer, steps), np.where(closer, smaller, scales)
    codes = (steps + middle).astype(np.uint8)
    if bits == 4:
        codes = codes[..., ::2] | codes[..., 1::2] * np.uint8(16)
    return codes, scales[..., 0]


def _steps(values: Floats, scales: Floats, middle: int) -> Floats:
    steps = np.divide(values, scales, out=np.zeros_like(values), where=scales != 0)
    return np.rint(steps).clip(-middle, middle - 1)


def _error(values: Floats, rounded: Floats) -> Floats:
    squares: Floats = np.square(values - rounded).sum(axis=2, keepdims=True)
    return squares


def _product(node: NodeProto, shape: tuple[int, ...], bits: int, block: int) -> NodeProto:
    return helper.make_node(
        "MatMulNBits",
        [node.input[0], f"{node.input[1]}.q", f"{node.input[1]}.scales"],
        list(node.output),
        node.name,
        domain="com.microsoft",
        K=shape[0],
        N=shape[1],
        bits=bits,
        block_size=block,
        accuracy_level=_INT8_ACTIVATIONS,
    )
