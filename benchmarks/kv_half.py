"""KV buffers of float16 beside those of float32: time of a pass, memory, and agreement with torch.

    python -m benchmarks.kv_half [--repeat N] [--json]

A random Llama (8 layers, 512 wide) is exported with float32 and with 4-bit weights. The float16 arm is the
same graph with a Cast around each GroupQueryAttention, whose CPU kernel wants queries, keys, values and
buffers of one type. The arms take turns on one thread. A time is the CPU time of the fastest pass; the
difference is the largest of a logit to torch in float32, over one text.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from omnidraft.checkpoints.checkpoint import Checkpoint, read_checkpoint
from omnidraft.export.graph.passes import attention_nodes, initializer
from omnidraft.export.quantize.cpu import export_cpu
from omnidraft.export.quantize.parity import torch_rows
from omnidraft.export.quantize.quantization import FP32, INT4, Quantization
from omnidraft.runtime.models.onnx_session import session_options

LENGTH = 2048  # positions
POSITIONS = (128, 1024, 1984)
TOKENS = (1, 5)
TEXT = 96  # tokens that are compared with torch
_MODEL: dict[str, Any] = {
    "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8,
    "num_key_value_heads": 8, "vocab_size": 8192, "max_position_embeddings": LENGTH,
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """One arm.

    Attributes:
        weights: fp32 or int4.
        kv: float32 or float16.
        megabytes: of the buffers.
        difference: of a logit, to torch in float32.
        agreement: share of positions with torch's argmax.
        block: largest difference of a logit between one pass over the text and passes over single tokens.
        milliseconds: by "tokens after positions".
    """

    weights: str
    kv: str
    megabytes: float
    difference: float
    agreement: float
    block: float
    milliseconds: dict[str, float]


class Arm:
    """A graph with buffers of one type."""

    def __init__(self, model: ModelProto, kv: type[np.generic], shape: Sequence[int], layers: int) -> None:
        self.session = ort.InferenceSession(
            model.SerializeToString(), session_options(1), providers=["CPUExecutionProvider"]
        )
        self.buffers = {
            f"{layer}.{part}": ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, kv))
            for layer in range(layers)
            for part in ("key", "value")
        }
        self.vocab_size = model.graph.output[0].type.tensor_type.shape.dim[2].dim_value
        self.bytes = 2 * layers * int(np.prod(shape)) * np.dtype(kv).itemsize

    def score(self, tokens: Sequence[int], past: int) -> NDArray[np.float32]:
        """Logits [n, vocab] of tokens after `past` positions."""
        binding, n = self.session.io_binding(), len(tokens)
        feeds: dict[str, NDArray[Any]] = {
            "input_ids": np.array([tokens]),
            "seqlens_k": np.array([past + n - 1], np.int32),
            "total_sequence_length": np.array([past + n], np.int32),
            "num_logits": np.array([n]),
        }
        for name, value in feeds.items():
            binding.bind_cpu_input(name, value)
        rows = np.zeros((1, n, self.vocab_size), np.float32)
        binding.bind_output("logits", "cpu", 0, np.float32, rows.shape, rows.ctypes.data)
        for name, buffer in self.buffers.items():
            binding.bind_ortvalue_input(f"past_key_values.{name}", buffer)
            binding.bind_ortvalue_output(f"present.{name}", buffer)
        self.session.run_with_iobinding(binding)
        logits: NDArray[np.float32] = rows[0]
        return logits

    def milliseconds(self, n: int, past: int, repeat: int) -> float:
        """CPU time of the fastest pass over n tokens."""
        taken = []
        for _ in range(repeat):
            started = time.thread_time()
            self.score([1] * n, past)
            taken.append(time.thread_time() - started)
        return 1000 * min(taken)


def with_half_kv(model: ModelProto) -> ModelProto:
    """The graph with float16 buffers: a Cast before and after each attention, and float16 rotary tables."""
    half = ModelProto()
    half.CopyFrom(model)
    graph = half.graph
    for table in {name for node in attention_nodes(graph) for name in node.input[7:9]}:
        tensor = initializer(graph, table)
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), table))
    for node in attention_nodes(graph):
        place = list(graph.node).index(node)
        states = [name for name in node.input[:3] if name]
        before = [helper.make_node("Cast", [s], [f"{s}.half"], to=TensorProto.FLOAT16) for s in states]
        for i, state in enumerate(states):
            node.input[i] = f"{state}.half"
        out = node.output[0]
        node.output[0] = f"{out}.half"
        graph.node.insert(place + 1, helper.make_node("Cast", [f"{out}.half"], [out], to=TensorProto.FLOAT))
        for each in reversed(before):
            graph.node.insert(place, each)
    for value in (*graph.input, *graph.output):
        if value.name.startswith(("past_key_values.", "present.")):
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return half


def arms(checkpoint: Checkpoint, quantization: Quantization) -> dict[str, Arm]:
    """The graph with buffers of either type."""
    proto, c = export_cpu(checkpoint, LENGTH, quantization)
    shape = (1, c.num_kv_heads, c.max_length, c.head_dim)
    return {
        "float32": Arm(proto, np.float32, shape, c.num_layers),
        "float16": Arm(with_half_kv(proto), np.float16, shape, c.num_layers),
    }


def measure(checkpoint: Checkpoint, quantization: Quantization, repeat: int) -> list[Figure]:
    """Both arms of one form of weights, in turns."""
    pair = arms(checkpoint, quantization)
    ids = [int(i) for i in np.random.default_rng(0).integers(3, 8000, TEXT)]
    (expected,) = torch_rows(checkpoint, [ids])
    rows = {name: arm.score(ids, 0) for name, arm in pair.items()}
    single = {name: [arm.score([t], i)[0] for i, t in enumerate(ids)] for name, arm in pair.items()}
    times: dict[str, dict[str, float]] = {name: {} for name in pair}
    for past in POSITIONS:
        for n in TOKENS:
            for _ in range(3):  # in turns, so that a drift of the machine affects both
                for name, arm in pair.items():
                    key = f"{n} after {past}"
                    taken = arm.milliseconds(n, past, repeat)
                    times[name][key] = min(taken, times[name].get(key, taken))
    return [
        Figure(
            quantization.name,
            name,
            arm.bytes / 1e6,
            float(np.abs(rows[name] - expected).max()),
            float((rows[name].argmax(axis=1) == expected.argmax(axis=1)).mean()),
            float(np.abs(rows[name] - np.array(single[name])).max()),
            times[name],
        )
        for name, arm in pair.items()
    ]


def random_checkpoint(place: Path) -> Checkpoint:
    """A random Llama whose logits are spread as those of a trained model."""
    import torch
    import transformers

    torch.manual_seed(0)
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    config = transformers.LlamaConfig(**_MODEL, initializer_range=0.05)
    transformers.LlamaForCausalLM(config).save_pretrained(place)
    (place / "tokenizer.json").write_text("{}")
    return read_checkpoint(str(place))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        checkpoint = random_checkpoint(Path(place))
        figures = [f for q in (FP32, INT4) for f in measure(checkpoint, q, options.repeat)]
    if options.json:
        sys.stdout.write(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")
        return
    keys = list(figures[0].milliseconds)
    head = ["weights", "KV", "MB of KV", "to torch", "same argmax", "block to single"]
    print(f"| {' | '.join(head + [f'{key}, ms' for key in keys])} |")
    print("|" + "---|" * (6 + len(keys)))
    for f in figures:
        cells = [f"{f.milliseconds[key]:.2f}" for key in keys]
        print(
            f"| {f.weights} | {f.kv} | {f.megabytes:.1f} | {f.difference:.1e} | {f.agreement:.1%} "
            f"| {f.block:.1e} | {' | '.join(cells)} |"
        )


if __name__ == "__main__":
    main()
