"""Checkpoint -> static graphs for accelerators, with one file of weights and one of the host's tables.

Under `ROLE/npu`: `prefill_C.onnx`, `decode_1.onnx` and `verify_{K + 1}.onnx`, which differ in their shapes
alone, `weights.bin` that they share, and `host.safetensors`. Contract: spec/bundle.md.
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
from omnidraft.export.graph.shared_weights import SharedWeights
from omnidraft.export.graph.write import write_graph
from omnidraft.export.npu.npu_providers import ACCELERATORS
from omnidraft.export.npu.static_graph import Decoder, static_graph
from omnidraft.export.npu.static_weights import embeddings, read_decoder, refuse_static, static_weights
from omnidraft.runtime.bundle.lora_sites import MAX_RANK
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.models.static_model import StaticForm
from omnidraft.sample_prompts import PROMPTS

MASK = -1e4  # e^-10000 is zero in float32 and float16, and float16 holds it
WEIGHTS, HOST = "weights.bin", "host.safetensors"
_MOST_LORA = MAX_RANK // 3  # three packed parts are one product


@dataclass(frozen=True)
class NpuOptions:
    """What to export for accelerators.

    Attributes:
        accelerators: entries of `npu_providers.ACCELERATORS`.
        kv_length: positions of the past; the bundle's own when None.
        chunk: tokens of a prompt in one pass; 64, or the past where that is less, when None.
        drafted: draft tokens in one verification.
        calibration: prompts that the ranges of quantised values are measured on.
        lora_rank: of adapters, for each packed part, that the float graphs of models that take adapters are
            made for; None for none.

    Raises:
        SettingError: a rank that no adapter has.
    """

    accelerators: tuple[str, ...]
    kv_length: int | None = None
    chunk: int | None = None
    drafted: int = 4
    calibration: tuple[str, ...] = PROMPTS
    lora_rank: int | None = None

    def __post_init__(self) -> None:
        if self.lora_rank is not None and not 1 <= self.lora_rank <= _MOST_LORA:
            raise SettingError(
                f"--npu-lora-rank {self.lora_rank} is not within 1 to {_MOST_LORA}",
                "give the rank of your adapters, or leave it out for graphs without them",
            )

    def shapes(self, max_length: int) -> StaticShapes:
        """Lengths for a bundle with a context of `max_length` positions."""
        kv_length = max_length if self.kv_length is None else self.kv_length
        return StaticShapes(kv_length, min(64, kv_length) if self.chunk is None else self.chunk, self.drafted)

    @property
    def quantized(self) -> bool:
        """Whether any of the accelerators takes the quantised form."""
        return any(ACCELERATORS[name].form == "qdq" for name in self.accelerators)


@dataclass(frozen=True)
class StaticShapes:
    """Lengths of the static graphs.

    Attributes:
        kv_length: positions of the past. chunk: tokens of a prompt in one pass.
        drafted: draft tokens in one verification, which takes one token more.
    """

    kv_length: int
    chunk: int
    drafted: int

    def __post_init__(self) -> None:
        if not 2 <= self.chunk <= self.kv_length:
            raise ExportError(
                f"--prefill-chunk {self.chunk} is not within 2 to {self.kv_length}, the KV length"
            )
        if not 1 <= self.drafted < min(65, self.kv_length):
            raise ExportError(
                f"{self.drafted} draft tokens in a static verification are not within 1 to "
                f"{min(64, self.kv_length - 1)}"
            )

    @property
    def blocks(self) -> dict[int, str]:
        """Names of the graphs by the tokens of their blocks; equal lengths are one graph."""
        verify = self.drafted + 1
        return {self.chunk: f"prefill_{self.chunk}", verify: f"verify_{verify}", 1: "decode_1"}


def write_static(checkpoint: Checkpoint, folder: Path, shapes: StaticShapes) -> StaticForm:
    """Write the static graphs of a checkpoint in float32.

    Raises:
        ExportError: the static form does not have what the checkpoint needs, or the lengths do not fit.
    """
    from omnidraft.export.graph.trace import rotary_tables  # torch, which adopting a graph does without

    refuse_static(checkpoint)
    most = checkpoint.shape.max_positions
    if shapes.kv_length > most:
        raise ExportError(
            f"--kv-length {shapes.kv_length} does not fit {checkpoint.name}", f"give at most {most}"
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
    (folder / HOST).chmod(0o644)  # safetensors lets its owner alone read it
    decoder = read_decoder(checkpoint)
    for block, name in shapes.blocks.items():
        write_graph(static_graph(decoder, weights.tensors, block, shapes.kv_length), folder / f"{name}.onnx")
    return form_in(folder, decoder, shapes)


def let_adapters_in(form: StaticForm, rank: int) -> None:
    """Give the float graphs of a form inputs for adapters of a fixed rank, for each packed part.

    After quantisation, which would round A and B to the ranges of some adapter.
    """
    for path in form.graphs.values():
        write_graph(add_lora_sites(onnx.load(path, load_external_data=False), rank=rank), path)


def form_in(folder: Path, decoder: Decoder, shapes: StaticShapes) -> StaticForm:
    """What `write_static` wrote into a folder."""
    kv = KvShape(decoder.num_layers, decoder.num_kv_heads, decoder.head_dim, shapes.kv_length)
    graphs = {block: folder / f"{name}.onnx" for block, name in shapes.blocks.items()}
    return StaticForm(graphs, folder / HOST, kv, decoder.vocab_size, MASK)
