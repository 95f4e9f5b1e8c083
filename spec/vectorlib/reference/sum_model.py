"""A language model whose logits depend on all that its KV holds, as a rule and as an ONNX graph.

README.md, "The vectors of generate", has the rule. All numbers are small integers or multiples of 1/16, so
float32 holds every sum without rounding, and the rule and the graph give equal rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from vectorlib.reference.random_source import uniforms_of

MODULUS, PERIOD = 37, 35  # of the sum, and of the positions; 37 is prime, so no token and no position is lost
Rows = list[list[float]]


@dataclass(frozen=True)
class SumModel:
    """The tables of a model.

    Attributes:
        codes: a number of each token, 1 to 36; its key is this number.
        by_token: logits by the last token, [vocab, vocab].
        by_sum: logits by the sum over all held positions, [MODULUS, vocab].
    """

    codes: list[int]
    by_token: Rows
    by_sum: Rows

    @classmethod
    def made(cls, seed: int, size: int, follows: dict[int, int], spread: float) -> "SumModel":
        """Random tables of multiples of 1/16; `follows`: the likeliest token after a token, by `by_token`."""
        numbers = uniforms_of(seed)
        by_token = [[round(64 * u) / 16 - 2.0 for u in islice(numbers, size)] for _ in range(size)]
        for before, after in follows.items():
            by_token[before][after] = 4.0
        by_sum = [
            [round((2 * u - 1) * spread * 16) / 16 for u in islice(numbers, size)] for _ in range(MODULUS)
        ]
        return cls([1 + 5 * t % 36 for t in range(size)], by_token, by_sum)

    def row(self, held: Sequence[int]) -> list[float]:
        """Logits after the last of the held tokens."""
        total = sum(self.codes[t] * (1 + j % PERIOD + 2) for j, t in enumerate(held)) % MODULUS
        return [a + b for a, b in zip(self.by_token[held[-1]], self.by_sum[total], strict=True)]

    def as_json(self) -> dict[str, Any]:
        """The content of *.table.json."""
        return {"codes": self.codes, "by_token": self.by_token, "by_sum": self.by_sum}

    def graph(self, lora_rank: int | None = None) -> bytes:
        """The ONNX graph, with the inputs and outputs of spec/03-bundle.md and any number of KV positions.

        Args:
            lora_rank: of adapters of the logits, which must be fed; None for a graph that takes none.
        """
        inputs = [
            _value("input_ids", TensorProto.INT64, [1, "n"]),
            _value("seqlens_k", TensorProto.INT32, [1]),
            _value("total_sequence_length", TensorProto.INT32, [1]),
            _value("num_logits", TensorProto.INT64, [1]),
            *(_value(f"past_key_values.0.{p}", TensorProto.FLOAT, _KV) for p in ("key", "value")),
        ]
        outputs = [
            _value("logits", TensorProto.FLOAT, [1, "num", len(self.codes)]),
            *(_value(f"present.0.{p}", TensorProto.FLOAT, _KV) for p in ("key", "value")),
        ]
        nodes = [*_store(), *_sums(), *_logits()]
        if lora_rank is not None:
            width = len(self.codes)
            inputs.append(_value("layers.0.o.lora_a", TensorProto.FLOAT, [width, lora_rank]))
            inputs.append(_value("layers.0.o.lora_b", TensorProto.FLOAT, [lora_rank, width]))
            nodes[-1:] = _adapted()
        graph = helper.make_graph(nodes, "sums", inputs, outputs, self._constants())
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, producer_name="omnidraft", ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        data: bytes = model.SerializeToString(deterministic=True)
        return data

    def _constants(self) -> list[onnx.TensorProto]:
        tables = {"codes": self.codes, "by_token": self.by_token, "by_sum": self.by_sum}
        numbers = {"zero_64": 0, "one": 1, "modulus": MODULUS, "period": PERIOD}
        return [
            *(_floats(name, np.array(rows, dtype=np.float32)) for name, rows in tables.items()),
            *(_floats(name, np.float32(x)) for name, x in (("nothing", 0.0), ("two", 2.0))),
            *(helper.make_tensor(name, TensorProto.INT64, [], [x]) for name, x in numbers.items()),
            *(helper.make_tensor(f"axis_{i}", TensorProto.INT64, [1], [i]) for i in (0, 1)),
            helper.make_tensor("end", TensorProto.INT64, [1], [np.iinfo(np.int64).max]),
            helper.make_tensor("column", TensorProto.INT64, [4], [1, 1, -1, 1]),
            helper.make_tensor("flat", TensorProto.INT64, [1], [-1]),
        ]


_KV = [1, 1, "max_length", 1]


def _store() -> list[onnx.NodeProto]:
    """Keys are codes, values are positions; they are written from past on, which follows from seqlens_k."""
    node, scatter = helper.make_node, "ScatterElements"
    return [
        node("Cast", ["seqlens_k"], ["last"], to=TensorProto.INT64),
        node("Squeeze", ["last"], ["last_position"]),
        node("Add", ["last_position", "one"], ["stop"]),
        node("Size", ["input_ids"], ["n"]),
        node("Sub", ["stop", "n"], ["past"]),
        node("Range", ["past", "stop", "one"], ["positions"]),
        node("Reshape", ["positions", "column"], ["places"]),
        node("Gather", ["codes", "input_ids"], ["new_codes"]),
        node("Reshape", ["new_codes", "column"], ["new_keys"]),
        node("Mod", ["places", "period"], ["phases"]),
        node("Add", ["phases", "one"], ["new_numbers"]),
        node("Cast", ["new_numbers"], ["new_values"], to=TensorProto.FLOAT),
        node(scatter, ["past_key_values.0.key", "places", "new_keys"], ["present.0.key"], axis=2),
        node(scatter, ["past_key_values.0.value", "places", "new_values"], ["present.0.value"], axis=2),
    ]


def _sums() -> list[onnx.NodeProto]:
    """The sum of key (value + 2) up to each row's position, which follows from total_sequence_length."""
    node = helper.make_node
    return [
        node("Cast", ["total_sequence_length"], ["total_64"], to=TensorProto.INT64),
        node("Squeeze", ["total_64"], ["total"]),
        node("Squeeze", ["num_logits"], ["num"]),
        node("Sub", ["total", "num"], ["first_row"]),
        node("Range", ["first_row", "total", "one"], ["rows"]),
        node("Unsqueeze", ["rows", "axis_1"], ["row_column"]),
        node("Add", ["present.0.value", "two"], ["factors"]),
        node("Mul", ["present.0.key", "factors"], ["products"]),
        node("Reshape", ["products", "flat"], ["terms"]),
        node("Size", ["terms"], ["length"]),
        node("Range", ["zero_64", "length", "one"], ["all_positions"]),
        node("LessOrEqual", ["all_positions", "row_column"], ["seen"]),
        node("Where", ["seen", "terms", "nothing"], ["counted"]),
        node("ReduceSum", ["counted", "axis_1"], ["sums"], keepdims=0),
    ]


def _logits() -> list[onnx.NodeProto]:
    """by_token[last ids] + by_sum[sums modulo 37]; a sum that is NaN makes its row NaN."""
    node = helper.make_node
    return [
        node("Cast", ["sums"], ["whole_sums"], to=TensorProto.INT64),
        node("Mod", ["whole_sums", "modulus"], ["remainders"]),
        node("Gather", ["by_sum", "remainders"], ["by_sums"]),
        node("Neg", ["num_logits"], ["from"]),
        node("Slice", ["input_ids", "from", "end", "axis_1"], ["last_ids"]),
        node("Gather", ["by_token", "last_ids"], ["by_tokens"]),
        node("Add", ["by_tokens", "by_sums"], ["exact"]),
        node("Sub", ["sums", "sums"], ["nan_or_nothing"]),
        node("Unsqueeze", ["nan_or_nothing", "axis_1"], ["nan_column"]),
        node("Add", ["exact", "nan_column"], ["logits"]),
    ]


def _adapted() -> list[onnx.NodeProto]:
    """The last of `_logits`, with an adapter of what it adds to."""
    node = helper.make_node
    return [
        node("MatMul", ["exact", "layers.0.o.lora_a"], ["low"]),
        node("MatMul", ["low", "layers.0.o.lora_b"], ["change"]),
        node("Add", ["exact", "change"], ["adapted"]),
        node("Add", ["adapted", "nan_column"], ["logits"]),
    ]


def _floats(name: str, values: Any) -> onnx.TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT, values.shape, values.tobytes(), raw=True)


def _value(name: str, kind: int, shape: list[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@dataclass
class Held:
    """The tokens whose keys and values a model holds."""

    tokens: list[int] = field(default_factory=list)

    def read(self, text: Sequence[int], proposed: Sequence[int] = ()) -> list[int]:
        """Forget what differs from a text; read the rest of it, at least its last token, and the proposal.

        Returns:
            positions that the pass begins with, and tokens that it reads.
        """
        past = 0
        while past < min(len(self.tokens), len(text) - 1) and self.tokens[past] == text[past]:
            past += 1
        self.tokens = [*text, *proposed]
        return [past, len(self.tokens) - past]

    def keep(self, text: Sequence[int]) -> None:
        """Forget what differs from a text, and its last token."""
        past, _ = self.read(text)
        del self.tokens[past:]
