"""One model of a pair on its way into a bundle: its checkpoint, its graphs, its tokenizer."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onnx import ModelProto

from omnidraft.export.checkpoint import Checkpoint, read_checkpoint
from omnidraft.export.cpu import GraphContract, Skeleton, check_length, skeleton
from omnidraft.export.memory import layers_within
from omnidraft.export.options import Options
from omnidraft.export.parity import Parity, parity_of, torch_rows
from omnidraft.export.quantize import FP32
from omnidraft.export.stream import write_skeleton
from omnidraft.export.thin_model import layer_period, thin_model
from omnidraft.runtime.ort_model import KvShape, OrtModel
from omnidraft.runtime.tokenizer import Tokenizer


@dataclass
class Side:
    """One of the two models on its way into a bundle.

    Attributes:
        reference: its float32 graph for comparison, which is not shipped, as a path in the bundle to be.
        reference_layers: how many of its layers that graph has, from the first; all where memory allows.
    """

    role: str
    checkpoint: Checkpoint
    tokenizer: Tokenizer
    parameters: int = 0
    contract: GraphContract | None = None
    reference: str = ""
    reference_layers: int = 0

    @property
    def graph(self) -> str:
        return f"{self.role}/cpu/model.onnx"

    @property
    def kv(self) -> KvShape:
        assert self.contract is not None
        c = self.contract
        return KvShape(c.num_layers, c.num_kv_heads, c.head_dim, c.max_length)

    @property
    def start(self) -> list[int]:
        """What this model's context begins with as a drafter."""
        bos = self.tokenizer.controls.get(self.tokenizer.adds_bos or "")
        return [] if bos is None else [bos.id]

    @property
    def whole_reference(self) -> bool:
        """Whether the float32 graph has all layers."""
        return self.reference_layers == self.checkpoint.shape.num_layers

    def shipped_model(self, work: Path) -> OrtModel:
        """The graph as it ships, loaded."""
        return OrtModel(work / self.graph, self.kv, self.checkpoint.shape.vocab_size)

    def reference_model(self, work: Path) -> OrtModel:
        """The float32 graph, loaded."""
        kv = replace(self.kv, num_layers=self.reference_layers)
        return OrtModel(work / self.reference, kv, self.checkpoint.shape.vocab_size)


def read_side(role: str, name: str) -> Side:
    checkpoint = read_checkpoint(name)
    return Side(role, checkpoint, Tokenizer.from_file(checkpoint.directory))


def write_side(work: Path, side: Side, max_length: int, options: Options, room: int | None) -> int:
    """Write a model's shipped graph, its tokenizer and its float32 graph for comparison.

    `room` is how many bytes of weights the latter may have, None where any number; returns how many it has.
    """
    check_length(side.checkpoint, max_length)
    (work / f"{side.role}/cpu").mkdir(parents=True, exist_ok=True)
    found = skeleton(side.checkpoint, thin_model(side.checkpoint), max_length)
    quantization = options.quantization_of(side.role)
    write_skeleton(found, quantization, work / side.graph, external_above=options.external_above)
    side.parameters = _count_parameters(found.proto, side.checkpoint)
    side.contract = replace(found.contract, quantization=quantization.name)
    shutil.copyfile(side.checkpoint.directory / "tokenizer.json", work / f"{side.role}/tokenizer.json")
    if quantization == FP32:
        side.reference, side.reference_layers = side.graph, side.checkpoint.shape.num_layers
        return 4 * side.parameters
    return _write_reference(work, side, found, options, room)


def _write_reference(work: Path, side: Side, found: Skeleton, options: Options, room: int | None) -> int:
    """The float32 graph, of the first layers alone where all of them are more than `room` bytes."""
    (work / "fp32").mkdir(exist_ok=True)
    layers = side.checkpoint.shape.num_layers
    a_layer = 4 * _count_parameters(found.proto, side.checkpoint, "layers.") // layers
    outside = 4 * side.parameters - layers * a_layer
    fitting = layers_within(room, outside, a_layer, layers, layer_period(side.checkpoint.config))
    if fitting < layers:
        part = thin_model(side.checkpoint, fitting)
        found = skeleton(side.checkpoint, part, found.contract.max_length)
    side.reference, side.reference_layers = f"fp32/{side.role}.onnx", fitting
    write_skeleton(found, FP32, work / side.reference, external_above=options.external_above)
    return outside + fitting * a_layer


def compare_side(
    work: Path, side: Side, prompts: Sequence[Sequence[int]], quantization: str
) -> dict[str, Parity]:
    """Parity with torch of a model's float32 graph, and as it ships, one model in memory at a time."""
    wanted = torch_rows(side.checkpoint, prompts)
    found = {quantization: parity_of(side.shipped_model(work), prompts, wanted)}
    if side.reference == side.graph:
        return found
    if not side.whole_reference:
        wanted = torch_rows(side.checkpoint, prompts, side.reference_layers)
    return {FP32.name: parity_of(side.reference_model(work), prompts, wanted), **found}


def limits(sides: Sequence[Side]) -> tuple[str, ...]:
    """What is checked less than wholly for want of memory, a sentence each."""
    found = []
    for side in sides:
        if side.whole_reference:
            continue
        layers, needed = side.checkpoint.shape.num_layers, 4 * side.parameters / 1e9
        found.append(
            f"the {side.role}'s float32 graph was compared with torch in its first {side.reference_layers} "
            f"of {layers} layers, and acceptance before quantisation was measured with the {side.role} as it "
            f"ships: all of its float32 weights are {needed:.1f} GB, more than the checks may hold"
        )
    return tuple(found)


def _count_parameters(proto: ModelProto, checkpoint: Checkpoint, prefix: str = "") -> int:
    """Weights of a float32 graph; rotary tables and small constants are not counted."""
    sizes = [
        math.prod(tensor.dims)
        for tensor in proto.graph.initializer
        if tensor.name.startswith(prefix) and not tensor.name.startswith("rotary.")
    ]
    return sum(size for size in sizes if size >= checkpoint.shape.hidden_size)
