"""One model of a pair on its way into a bundle: its checkpoint, its graphs, its tokenizer."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx import ModelProto

from omnidraft.checkpoints.checkpoint import Checkpoint, read_checkpoint
from omnidraft.checkpoints.fingerprint import fingerprint
from omnidraft.errors import ExportError
from omnidraft.export.adopt.adopt import adopt
from omnidraft.export.adopt.find_graph import find_graph
from omnidraft.export.adopt.optimum_directory import OptimumDirectory, read_optimum
from omnidraft.export.export_memory import layers_within
from omnidraft.export.graph.contract import GraphContract
from omnidraft.export.graph.head_output import add_head
from omnidraft.export.graph.lora_inputs import add_lora_sites, lora_sites
from omnidraft.export.graph.weights import fill
from omnidraft.export.graph.write import write_graph
from omnidraft.export.options import Options
from omnidraft.export.quantize.parity import Parity, StepParity, parity_of, torch_rows
from omnidraft.export.quantize.quantize import FP32, Calibration, quantize
from omnidraft.runtime.bundle.head import HeadShape
from omnidraft.runtime.bundle.model_entry import Layout
from omnidraft.runtime.bundle.train_step_entry import StepEntry, layout_of
from omnidraft.runtime.decoding.model import SessionModel
from omnidraft.runtime.models.adapter import LoraSites
from omnidraft.runtime.models.concat_model import ConcatGraph
from omnidraft.runtime.models.ort_model import KvShape, OrtModel
from omnidraft.runtime.models.static_model import StaticForm
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.sample_prompts import PROMPTS

NO_ADAPTERS = ("GPTNeoXForCausalLM",)  # its packed projection has q, k and v of a head side by side

if TYPE_CHECKING:
    from omnidraft.checkpoints.thin_model import ThinModel
    from omnidraft.export.quantize.cpu import Skeleton


@dataclass
class ModelExport:
    """One of the two models on its way into a bundle: a checkpoint, or a graph that is adopted as it is.

    Attributes:
        reference: its float32 graph for comparison, which is not shipped, as a path in the bundle to be; an
            adopted graph itself. reference_layers: how many layers it has; all where memory allows.
        train_parity: of its training graphs with torch, by file name.
        static: its static graphs by form, "float" and "qdq". npu: what the manifest says of them.
    """

    role: str
    checkpoint: Checkpoint | OptimumDirectory
    tokenizer: Tokenizer
    parameters: int = 0
    contract: GraphContract | None = None
    static: dict[str, StaticForm] = field(default_factory=dict)
    npu: dict[str, Any] = field(default_factory=dict)
    fingerprint: str | None = None
    lora: LoraSites | None = None
    head: HeadShape | None = None
    train: StepEntry | None = None
    train_parity: dict[str, StepParity] = field(default_factory=dict)
    reference: str = ""
    reference_layers: int = 0

    @property
    def graph(self) -> str:
        name = self.checkpoint.graph.name if isinstance(self.checkpoint, OptimumDirectory) else "model.onnx"
        return f"{self.role}/cpu/{name}"

    @property
    def layout(self) -> Layout:
        return "concat" if isinstance(self.checkpoint, OptimumDirectory) else "shared"

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

    def shipped_model(self, work: Path) -> SessionModel:
        """The graph as it ships, loaded."""
        return self._model(work / self.graph, self.kv)

    def reference_model(self, work: Path) -> SessionModel:
        """The float32 graph, loaded."""
        return self._model(work / self.reference, replace(self.kv, num_layers=self.reference_layers))

    def _model(self, file: Path, kv: KvShape) -> SessionModel:
        if self.layout == "concat":
            return ConcatGraph(file, kv, self.checkpoint.shape.vocab_size).new_model()
        return OrtModel(file, kv, self.checkpoint.shape.vocab_size)


def read_side(role: str, name: str) -> ModelExport:
    graph = find_graph(name)
    checkpoint = read_optimum(name, graph) if graph else read_checkpoint(name)
    return ModelExport(role, checkpoint, Tokenizer.from_file(checkpoint.directory))


def write_side(
    work: Path,
    side: ModelExport,
    max_length: int,
    options: Options,
    room: int | None,
    stage: Callable[[str], None] = lambda _: None,
) -> int:
    """Write a model's shipped graph, its tokenizer and its float32 graph for comparison.

    `room` is how many bytes of weights the latter may have, None where any number; returns how many it has.
    `stage` is called with what begins.
    """
    (work / side.graph).parent.mkdir(parents=True, exist_ok=True)
    if isinstance(side.checkpoint, OptimumDirectory):
        side.contract = adopt(side.checkpoint, (work / side.graph).parent, max_length)
        side.parameters = side.checkpoint.parameters
        side.reference, side.reference_layers = side.graph, side.checkpoint.shape.num_layers
        taken = 0
    else:
        taken = _export(work, side, max_length, options, room, stage)
    shutil.copyfile(side.checkpoint.directory / "tokenizer.json", work / f"{side.role}/tokenizer.json")
    return taken


def _export(
    work: Path,
    side: ModelExport,
    max_length: int,
    options: Options,
    room: int | None,
    stage: Callable[[str], None],
) -> int:
    from omnidraft.checkpoints.thin_model import thin_model
    from omnidraft.export.quantize.cpu import check_length, skeleton  # torch, which adopting does without
    from omnidraft.export.quantize.stream import write_skeleton

    checkpoint = side.checkpoint
    assert isinstance(checkpoint, Checkpoint)
    check_length(checkpoint, max_length)
    thin = thin_model(checkpoint)
    found = skeleton(checkpoint, thin, max_length)
    side.parameters = _count_parameters(found.proto, checkpoint)
    quantization = options.quantization_of(side.role)
    side.contract = replace(found.contract, quantization=quantization.name)
    side.fingerprint = fingerprint(checkpoint)
    taken = _write_reference(work, side, checkpoint, found, options, room)
    without = checkpoint.architecture in NO_ADAPTERS
    if without and side.role == "target" and options.lora_target:
        raise ExportError(
            f"{checkpoint.name} is {checkpoint.architecture}, whose graphs take no adapters yet",
            "leave --lora-target out",
        )
    if options.takes_adapters(side.role) and not without:
        add_lora_sites(found.proto)
        side.lora = lora_sites(found.proto, found.contract.num_kv_heads * found.contract.head_dim)
    if options.head_blocks is not None and side.role == "drafter":
        side.head = add_head(found.proto, checkpoint.shape.hidden_size, options.head_blocks)
    learns = side.role == "drafter" and options.train_rank is not None
    above = 0 if learns else options.external_above  # the step shares what lies in a file of its own
    if quantization.method == "gptq":  # it goes by the whole graph
        calibration = Calibration(work / side.reference, _rows(side, max_length, options))
        proto = quantize(fill(found.proto, found.weights), quantization, calibration)
        write_graph(proto, work / side.graph, external_above=above)
    else:
        write_skeleton(found, quantization, work / side.graph, external_above=above)
    if learns:
        side.train, side.train_parity = _write_step(work, side, thin, found, options, stage)
    return taken


def _write_step(
    work: Path,
    side: ModelExport,
    thin: ThinModel,
    found: Skeleton,
    options: Options,
    stage: Callable[[str], None],
) -> tuple[StepEntry, dict[str, StepParity]]:
    from omnidraft.export.train_step.train_step import step_parities, train_steps, write_train_steps

    assert options.train_rank is not None
    if side.lora is None:
        raise ExportError(
            f"{side.checkpoint.name} is {side.checkpoint.architecture}, whose graphs take no adapters yet",
            "leave --train-step out",
        )
    graph = work / side.graph
    steps = train_steps(graph, thin, found, layout_of(side.lora, options.train_rank), side.head, stage)
    entry = write_train_steps(graph, steps, options.train_rank)
    stage("compare the training step with torch")
    return entry, step_parities(graph, steps)


def _rows(side: ModelExport, max_length: int, options: Options) -> list[list[int]]:
    """Calibration texts as this model reads them.

    Raises:
        ExportError: nothing in them is a token to it.
    """
    texts = PROMPTS if options.calibration is None else options.calibration
    rows = [[*side.start, *side.tokenizer.encode(text)][:max_length] for text in texts]
    found = [row for row in rows if row]
    if not found:
        raise ExportError(
            f"the {len(texts)} calibration texts hold no token of the {side.role}", "give others"
        )
    return found


def _write_reference(
    work: Path, side: ModelExport, checkpoint: Checkpoint, found: Skeleton, options: Options, room: int | None
) -> int:
    """The float32 graph, of the first layers alone where all of them are more than `room` bytes."""
    from omnidraft.checkpoints.thin_model import layer_period, thin_model
    from omnidraft.export.quantize.cpu import skeleton
    from omnidraft.export.quantize.stream import write_skeleton

    (work / "fp32").mkdir(exist_ok=True)
    layers = checkpoint.shape.num_layers
    a_layer = 4 * _count_parameters(found.proto, checkpoint, "layers.") // layers
    outside = 4 * side.parameters - layers * a_layer
    fitting = layers_within(room, outside, a_layer, layers, layer_period(checkpoint.config))
    if fitting < layers and options.quantization_of(side.role).method == "gptq":
        raise ExportError(
            f"the method gptq needs {4 * side.parameters / 1e9:.1f} GB for the "
            f"{side.role}'s float32 weights, more than the checks may hold",
            "choose another method, or give more with --check-memory",
        )
    if fitting < layers:
        found = skeleton(checkpoint, thin_model(checkpoint, fitting), found.contract.max_length)
    side.reference, side.reference_layers = f"fp32/{side.role}.onnx", fitting
    write_skeleton(found, FP32, work / side.reference, external_above=options.external_above)
    return outside + fitting * a_layer


def compare_side(
    work: Path, side: ModelExport, prompts: Sequence[Sequence[int]], quantization: str
) -> dict[str, Parity]:
    """Parity with torch of a model's float32 graph, and as it ships, one model in memory at a time."""
    assert isinstance(side.checkpoint, Checkpoint), "an adopted graph has no checkpoint to compare with"
    wanted = torch_rows(side.checkpoint, prompts)
    found = {quantization: parity_of(side.shipped_model(work), prompts, wanted)}
    if not side.whole_reference:
        wanted = torch_rows(side.checkpoint, prompts, side.reference_layers)
    return {FP32.name: parity_of(side.reference_model(work), prompts, wanted), **found}


def limits(sides: Sequence[ModelExport]) -> tuple[str, ...]:
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
