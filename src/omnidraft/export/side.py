"""One model of a pair on its way into a bundle: its checkpoint, its graphs, its tokenizer."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from omnidraft.export.adopt import adopt
from omnidraft.export.checkpoint import Checkpoint, read_checkpoint
from omnidraft.export.contract import GraphContract
from omnidraft.export.find_graph import find_graph
from omnidraft.export.optimum_directory import OptimumDirectory, read_optimum
from omnidraft.export.options import Options
from omnidraft.export.quantize import FP32, quantize
from omnidraft.export.write import write_graph
from omnidraft.runtime.bundle import Layout
from omnidraft.runtime.concat_model import ConcatGraph
from omnidraft.runtime.model import SessionModel
from omnidraft.runtime.ort_model import KvShape, OrtModel
from omnidraft.runtime.tokenizer import Tokenizer


@dataclass
class Side:
    """One of the two models on its way into a bundle: a checkpoint, or a graph that is adopted as it is."""

    role: str
    checkpoint: Checkpoint | OptimumDirectory
    tokenizer: Tokenizer
    parameters: int = 0
    contract: GraphContract | None = None

    @property
    def graph(self) -> str:
        name = self.checkpoint.graph.name if isinstance(self.checkpoint, OptimumDirectory) else "model.onnx"
        return f"{self.role}/cpu/{name}"

    @property
    def reference(self) -> str:
        """The graph before quantisation; an adopted one stays as it is."""
        return self.graph if self.layout == "concat" else f"fp32/{self.role}.onnx"

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

    def model(self, file: Path) -> SessionModel:
        if self.layout == "concat":
            return ConcatGraph(file, self.kv, self.checkpoint.shape.vocab_size).new_model()
        return OrtModel(file, self.kv, self.checkpoint.shape.vocab_size)


def read_side(role: str, name: str) -> Side:
    graph = find_graph(name)
    checkpoint = read_optimum(name, graph) if graph else read_checkpoint(name)
    return Side(role, checkpoint, Tokenizer.from_file(checkpoint.directory))


def write_side(work: Path, side: Side, max_length: int, options: Options) -> None:
    """Write a model's float32 graph for comparison, its shipped graph and its tokenizer."""
    if isinstance(side.checkpoint, OptimumDirectory):
        side.contract = adopt(side.checkpoint, (work / side.graph).parent, max_length)
        side.parameters = side.checkpoint.parameters
    else:
        _export(work, side, side.checkpoint, max_length, options)
    shutil.copyfile(side.checkpoint.directory / "tokenizer.json", work / f"{side.role}/tokenizer.json")


def _export(work: Path, side: Side, checkpoint: Checkpoint, max_length: int, options: Options) -> None:
    from omnidraft.export.cpu import export_cpu  # torch, which adopting does without

    proto, contract = export_cpu(checkpoint, max_length, FP32)
    side.parameters = _count_parameters(proto, checkpoint)
    for file in (side.reference, side.graph):
        (work / file).parent.mkdir(parents=True, exist_ok=True)
    write_graph(proto, work / side.reference, external_above=options.external_above)
    quantization = options.quantization_of(side.role)
    quantize(proto, quantization)
    write_graph(proto, work / side.graph, external_above=options.external_above)
    side.contract = replace(contract, quantization=quantization.name)


def _count_parameters(proto: onnx.ModelProto, checkpoint: Checkpoint) -> int:
    """Weights of a float32 graph; rotary tables and small constants are not counted."""
    sizes = [
        int(onnx.numpy_helper.to_array(t).size)
        for t in proto.graph.initializer
        if "rot" not in t.name.lower()
    ]
    return sum(size for size in sizes if size >= checkpoint.shape.hidden_size)
