"""A bundle of the toy language with a training step for the drafter."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from transformers import LlamaConfig, LlamaForCausalLM

from omnidraft.checkpoints.checkpoint import read_checkpoint
from omnidraft.checkpoints.fingerprint import fingerprint
from omnidraft.checkpoints.thin_model import thin_model
from omnidraft.export.graph.lora_inputs import add_lora_sites, lora_sites
from omnidraft.export.graph.skeleton import skeleton
from omnidraft.export.quantize.quantization import FP32, Quantization
from omnidraft.export.quantize.stream import write_skeleton
from omnidraft.export.train_step.train_step import TrainStep, train_step, write_train_step
from omnidraft.runtime.bundle.bundle import Bundle, file_sha256
from omnidraft.runtime.bundle.model_entry import KvShape, ModelEntry
from omnidraft.runtime.bundle.train_step_entry import layout_of
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.decoding.length_state import Costs
from support.toy import DRAFT

RANK = 4
STEPS: dict[Path, TrainStep] = {}


def toy_checkpoint(path: Path) -> Path:
    """A one-layer Llama over the toy's draft tokens, in a directory; sizes that int4 blocks divide."""
    import torch

    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": len(DRAFT), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 256, "pad_token_id": 0,
        "eos_token_id": 2, "bos_token_id": 1,
    }  # fmt: skip
    model: Any = LlamaForCausalLM(LlamaConfig(**sizes))
    model.save_pretrained(path)
    (path / "tokenizer.json").write_text("{}")  # must exist and is not read
    return path


def toy_bundle(path: Path, checkpoint: Path, quantization: Quantization = FP32) -> Bundle:
    """The drafter of a bundle; the target is named and never read."""
    source = read_checkpoint(str(checkpoint))
    thin = thin_model(source)
    graph = skeleton(source, thin, 256)
    add_lora_sites(graph.proto)
    lora = lora_sites(graph.proto, graph.contract.num_kv_heads * graph.contract.head_dim)
    file = path / "drafter/cpu/model.onnx"
    file.parent.mkdir(parents=True)
    write_skeleton(graph, quantization, file, external_above=0)
    layout = layout_of(lora, RANK)
    if checkpoint not in STEPS:  # tracing is slow, and the same for every quantisation
        STEPS[checkpoint] = train_step(thin, graph, layout)
    step = deepcopy(STEPS[checkpoint])
    c = graph.contract
    entry = ModelEntry(
        source="toy", architecture="LlamaForCausalLM", graph="drafter/cpu/model.onnx", tokenizer="",
        kv=KvShape(c.num_layers, c.num_kv_heads, c.head_dim, c.max_length), vocab_size=c.vocab_size,
        quantization=quantization.name, bos_id=None, eos_ids=(), parameters=0, lora=lora,
        fingerprint=fingerprint(source), train=write_train_step(file, step, RANK),
    )  # fmt: skip
    costs = Costs((1.0,), 1.0, 0.0, 0.5)
    listed = {
        each.relative_to(path).as_posix(): {"sha256": file_sha256(each), "bytes": each.stat().st_size}
        for each in path.rglob("*")
        if each.is_file()
    }
    return Bundle(path, entry, entry, PromptTemplate("", ""), costs, "vocab_map", {"files": listed})
