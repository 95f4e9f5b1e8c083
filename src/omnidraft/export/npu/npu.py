"""Checkpoint -> static graphs for accelerators, with a file of weights and a file of the host's tables.

The files under `ROLE/npu`: `prefill_C.onnx`, `decode_1.onnx` and `verify_{K + 1}.onnx`, which differ only in
their shapes, `weights.bin`, which they share, and `host.safetensors`. Contract: spec/03-bundle.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from safetensors.numpy import save_file

from omnidraft.checkpoints.checkpoint import Checkpoint, load_model
from omnidraft.errors import ExportError, SettingError
from omnidraft.export.graph.lora_inputs import add_lora_sites
from omnidraft.export.graph.write import SharedWeights, write_graph
from omnidraft.export.npu.npu_providers import ACCELERATORS
from omnidraft.export.npu.static_graph import Decoder, static_graph
from omnidraft.export.npu.static_weights import embeddings, read_decoder, refuse_static, static_weights
from omnidraft.runtime.bundle.lora_sites import MAX_RANK
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.models.static_model import StaticForm
from omnidraft.sample_prompts import PROMPTS

MASK = -1e4  # float16 holds it, and e^-10000 is zero in float32 and float16
WEIGHTS, HOST = "weights.bin", "host.safetensors"
USUAL_KV = 2048  # positions of the past by default, at most: a static pass computes all of them, full or not
_MOST_LORA = MAX_RANK // 3  # one product has up to three packed parts


@dataclass(frozen=True)
class NpuOptions:
    """What to export for accelerators.

    Raises:
        SettingError: the rank is out of range.
    """

    accelerators: tuple[str, ...]  # entries of `npu_providers.ACCELERATORS`.
    kv_length: int | None = None  # positions of the past; None for those of the bundle, at most USUAL_KV
    # tokens of a prompt in one pass; None for 64, or for `kv_length` if that is less
    chunk: int | None = None
    drafted: int = 4  # draft tokens in one verification
    calibration: tuple[str, ...] = PROMPTS  # prompts that the ranges of quantised values are measured on
    # the float graphs of models that take adapters get inputs of this rank for each packed part; None for no
    # such inputs
    lora_rank: int | None = None

    def __post_init__(self) -> None:
        if self.lora_rank is not None and not 1 <= self.lora_rank <= _MOST_LORA:
            raise SettingError(
                f"npu_lora_rank {self.lora_rank} is not within 1 to {_MOST_LORA}",
                "give the rank of your adapters, or leave it out for graphs without adapters",
            )

    def shapes(self, max_length: int, role: str) -> StaticShapes:
        """The lengths for a model of `max_length` positions; those of a drafter fit its own positions."""
        kv_length = min(max_length, USUAL_KV) if self.kv_length is None else self.kv_length
        chunk, drafted = self.chunk, self.drafted
        if role == "drafter":
            kv_length = min(kv_length, max_length)
            chunk, drafted = min(64 if chunk is None else chunk, kv_length), min(drafted, kv_length - 1)
        return StaticShapes(kv_length, min(64, kv_length) if chunk is None else chunk, drafted)

    @property
    def quantized(self) -> bool:
        """Whether one of the accelerators needs the quantised form."""
        return any(ACCELERATORS[name].form == "qdq" for name in self.accelerators)


@dataclass(frozen=True)
class StaticShapes:
    """Lengths of the static graphs.

    Raises:
        ExportError: a length is out of range.
    """

    kv_length: int  # positions of the past
    chunk: int  # tokens of a prompt in one pass
    drafted: int  # draft tokens in one verification; its block has one token more

    def __post_init__(self) -> None:
        if not 2 <= self.chunk <= self.kv_length:
            raise ExportError(
                f"prefill_chunk {self.chunk} is not within 2 to {self.kv_length}, the KV length",
                "give a length in that range",
            )
        if not 1 <= self.drafted < min(65, self.kv_length):
            raise ExportError(
                f"{self.drafted} draft tokens in a static verification are not within 1 to "
                f"{min(64, self.kv_length - 1)}",
                "give a number in that range",
            )

    @property
    def blocks(self) -> dict[int, str]:
        """The names of the graphs by block length; equal lengths share a graph."""
        verify = self.drafted + 1
        return {self.chunk: f"prefill_{self.chunk}", verify: f"verify_{verify}", 1: "decode_1"}


def write_static(checkpoint: Checkpoint, folder: Path, shapes: StaticShapes) -> StaticForm:
    """Write the static graphs of a checkpoint in float32."""
    from omnidraft.export.graph.trace import rotary_tables  # adopting works without torch

    refuse_static(checkpoint)
    most = checkpoint.shape.max_positions
    if shapes.kv_length > most:
        raise ExportError(
            f"kv_length {shapes.kv_length} does not fit {checkpoint.name}", f"give at most {most}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    model = load_model(checkpoint)
    with SharedWeights(folder / WEIGHTS) as weights:
        for name, value in static_weights(checkpoint, model):
            weights.add(name, value)
    cos, sin = rotary_tables(model, shapes.kv_length)[""]
    tables = {
        "embeddings": embeddings(checkpoint, model),
        "cos": np.concatenate([cos, cos], axis=1),
        "sin": np.concatenate([-sin, sin], axis=1),
    }
    save_file(tables, folder / HOST)
    (folder / HOST).chmod(0o644)  # safetensors makes the file readable by its owner only
    decoder = read_decoder(checkpoint)
    for block, name in shapes.blocks.items():
        write_graph(static_graph(decoder, weights.tensors, block, shapes.kv_length), folder / f"{name}.onnx")
    return form_in(folder, decoder, shapes)


def let_adapters_in(form: StaticForm, rank: int) -> None:
    """Add inputs for adapters to the float graphs of a form, of a fixed rank for each packed part.

    Call this after quantisation, which would otherwise round A and B to the ranges of one adapter.
    """
    for path in form.graphs.values():
        write_graph(add_lora_sites(onnx.load(path, load_external_data=False), rank=rank), path)


def form_in(folder: Path, decoder: Decoder, shapes: StaticShapes) -> StaticForm:
    """The form that `write_static` wrote into a folder."""
    kv = KvShape(decoder.num_layers, decoder.num_kv_heads, decoder.head_dim, shapes.kv_length)
    graphs = {block: folder / f"{name}.onnx" for block, name in shapes.blocks.items()}
    return StaticForm(graphs, folder / HOST, kv, decoder.vocab_size, MASK)
