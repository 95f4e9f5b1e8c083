"""Tiny models of all architectures, their exported graphs, and a session that uses only the contract."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import onnx  # noqa: E402
from onnx import ModelProto  # noqa: E402

from omnidraft.checkpoints.checkpoint import read_checkpoint  # noqa: E402
from omnidraft.checkpoints.thin_model import thin_model  # noqa: E402
from omnidraft.export.graph.contract import GraphContract  # noqa: E402
from omnidraft.export.graph.skeleton import Skeleton, skeleton  # noqa: E402
from omnidraft.export.quantize.coded import Factors  # noqa: E402
from omnidraft.export.quantize.quantization import FP32, INT4, INT8, Quantization  # noqa: E402
from omnidraft.export.quantize.stream import write_skeleton  # noqa: E402
from support.made_once import MadeOnce  # noqa: E402

Rows = NDArray[np.float32]
MAX_LENGTH = 64
VOCAB = 300
SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": VOCAB,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
GRANITE = {"logits_scaling": 4.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2}
GEMMA2 = {
    "head_dim": 32,
    "query_pre_attn_scalar": 24,
    "sliding_window": 10,
    "attn_logit_softcapping": 3.0,
    "final_logit_softcapping": 5.0,
}
GEMMA3 = {
    "hidden_size": 96,  # the square root scales the embedding; bfloat16 cannot represent it
    "head_dim": 32,
    "query_pre_attn_scalar": 24,
    "sliding_window": 10,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
    },
}
NEOX = {
    "head_dim": 32,
    "num_attention_heads": 2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0 + 0.1 * place for place in range(8)],
    "long_factor": [2.0 + 0.1 * place for place in range(8)],
}
WINDOW = {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama3-tied": ("llama", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama-yarn-bias": ("llama", {"rope_parameters": YARN, "attention_bias": True, "mlp_bias": True}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2-window-dynamic": ("qwen2", {**WINDOW, "rope_parameters": DYNAMIC}),
    "qwen3": ("qwen3", {"head_dim": 32, "tie_word_embeddings": False}),
    "mistral": ("mistral", {"sliding_window": None, "head_dim": 16}),
    "mistral-window-linear": ("mistral", {"sliding_window": 11, "head_dim": 16, "rope_parameters": LINEAR}),
    "phi3": ("phi3", {"sliding_window": None}),
    "phi3-window-longrope": (
        "phi3",
        {"sliding_window": 12, "rope_parameters": LONGROPE, "original_max_position_embeddings": MAX_LENGTH},
    ),
    "granite": ("granite", {**GRANITE, "tie_word_embeddings": True}),
    "olmo2": ("olmo2", {}),
    "gemma2": ("gemma2", GEMMA2),
    "gemma3": ("gemma3_text", GEMMA3),
    "gpt-neox": ("gpt_neox", NEOX),
    "gpt-neox-serial": ("gpt_neox", {**NEOX, "use_parallel_residual": False, "attention_bias": False}),
}
EXPORTED = "exported.pickle"
KV_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
STORED = {"gemma3": "bfloat16", "qwen2": "float16"}  # the others are float32 on disk
QUANTIZATIONS = (FP32, INT8, INT4, Quantization(4, "k-quant"))


@dataclass(frozen=True)
class Exported:
    """A torch model and its exported graph, in float32."""

    model: Any
    proto: ModelProto
    contract: GraphContract
    skeleton: Skeleton

    def quantized(self, quantization: Quantization) -> ModelProto:
        return graph_in(self.skeleton, quantization)

    def logits(self, ids: list[int]) -> Rows:
        with torch.no_grad():
            rows: Rows = self.model(torch.tensor([ids])).logits[0].numpy()
        return rows


Export = Callable[[str], Exported]


def exporter(made_once: MadeOnce) -> Export:
    """A function that makes, saves, reads and exports a case, once for each case because it takes seconds."""

    @cache
    def export(case: str) -> Exported:
        directory = made_once(f"graph-{case}", lambda place: write_case(case, place))
        with (directory / EXPORTED).open("rb") as file:
            bare: Skeleton = pickle.load(file)  # written by a worker of this test run
        return Exported(load(directory), graph_in(bare, FP32), bare.contract, bare)

    return export


def graph_in(bare: Skeleton, form: Quantization, factors: Factors | None = None) -> ModelProto:
    """A graph with its weights in a form, in memory."""
    with TemporaryDirectory() as place:
        write_skeleton(bare, form, Path(place) / "model.onnx", factors=factors, external_above=1 << 40)
        return onnx.load(Path(place) / "model.onnx")


def graph_of(place: Path, max_length: int) -> tuple[ModelProto, GraphContract]:
    """The float32 graph of a checkpoint, in memory."""
    checkpoint = read_checkpoint(str(place))
    bare = skeleton(checkpoint, thin_model(checkpoint), max_length)
    return graph_in(bare, FP32), bare.contract


def write_case(case: str, directory: Path) -> None:
    """Write a model and what was exported of it."""
    save(case, directory)
    checkpoint = read_checkpoint(str(directory))
    with (directory / EXPORTED).open("wb") as file:
        pickle.dump(skeleton(checkpoint, thin_model(checkpoint), MAX_LENGTH), file)


def save(case: str, directory: Path) -> None:
    model_type, extra = CASES[case]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(model_type, **{**SIZES, **extra})
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # new norms are all ones and would hide a mistake
            parameter.add_(torch.randn_like(parameter) * 0.1)
    transformers.utils.logging.disable_progress_bar()
    model.to(getattr(torch, STORED.get(case, "float32")))
    model.save_pretrained(directory)
    (directory / "tokenizer.json").write_text("{}")


def load(directory: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    ).eval()


class GraphSession:
    """Binds one tensor as past and present, filled with 1000 so that a stale entry changes the logits."""

    def __init__(self, model: ModelProto | Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        source = str(model) if isinstance(model, Path) else model.SerializeToString()
        self.session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self.buffers = {
            spec.name: ort.OrtValue.ortvalue_from_numpy(np.full(spec.shape, 1000, KV_TYPES[spec.type]))
            for spec in self.session.get_inputs()
            if spec.name.startswith("past_key_values.")
        }
        self.past = 0
        self.adapter: dict[str, Rows] = {}

    def run(self, ids: list[int], num_logits: int | None = None) -> Rows:
        binding = self.session.io_binding()
        total = self.past + len(ids)
        binding.bind_cpu_input("input_ids", np.array([ids], np.int64))
        binding.bind_cpu_input("seqlens_k", np.array([total - 1], np.int32))
        binding.bind_cpu_input("total_sequence_length", np.array([total], np.int32))
        binding.bind_cpu_input("num_logits", np.array([num_logits or len(ids)], np.int64))
        binding.bind_output("logits")
        for name, tensor in self.adapter.items():  # bind_cpu_input does not support overridable initializers
            binding.bind_input(name, "cpu", 0, np.float32, tensor.shape, tensor.ctypes.data)
        for name, value in self.buffers.items():
            binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output(name.replace("past_key_values", "present"), value)
        self.session.run_with_iobinding(binding)
        self.past = total
        rows: Rows = binding.get_outputs()[0].numpy()[0]
        return rows

    def at(self, past: int, ids: list[int], num_logits: int | None = None) -> Rows:
        self.past = past
        return self.run(ids, num_logits)


def tokens(count: int, seed: int = 0) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(3, VOCAB, count)]


def copy_of(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy
