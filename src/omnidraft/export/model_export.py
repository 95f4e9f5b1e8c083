"""One model of a pair during an export: its checkpoint, its tokenizer, and what was written of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omnidraft.checkpoints.checkpoint import Checkpoint, check_name, read_checkpoint
from omnidraft.checkpoints.control_tokens import read_tokenizer
from omnidraft.export.adopt.find_graph import find_graph
from omnidraft.export.adopt.optimum_directory import OptimumDirectory, read_optimum
from omnidraft.export.graph.contract import GraphContract
from omnidraft.export.graph.markers import MarkedSite
from omnidraft.export.quantize.parity import StepParity
from omnidraft.runtime.bundle.lora_sites import LoraSites
from omnidraft.runtime.bundle.model_entry import KvShape, KvType, Layout
from omnidraft.runtime.bundle.train_step_entry import StepEntry
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.decoding.model import SessionModel
from omnidraft.runtime.models.concat_model import ConcatGraph
from omnidraft.runtime.models.ort_model import Graph, OrtModel
from omnidraft.runtime.models.static_model import StaticForm
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer


@dataclass
class ModelExport:
    """One model of a pair: a checkpoint that is exported, or a graph that is adopted unchanged.

    `read_model` makes it; `write_model` and `finish_static` fill in the attributes that have defaults.
    """

    role: str  # "target" or "drafter"
    checkpoint: Checkpoint | OptimumDirectory  # what the user named
    tokenizer: LibraryTokenizer  # its tokenizer
    # the compiled template of the target; a drafter's is empty
    prompt: PromptTemplate = field(default_factory=lambda: PromptTemplate("", ""))
    not_compiled: str = ""  # why the bundle has no compiled tokenizer, a sentence; empty where it has one
    parameters: int = 0  # number of weights
    contract: GraphContract | None = None  # inputs and outputs of the shipped graph
    # the static graphs by form, "float" and "qdq"
    static: dict[str, StaticForm] = field(default_factory=dict)
    npu: dict[str, Any] = field(default_factory=dict)  # the manifest's entry for the static graphs
    fingerprint: str | None = None  # of the checkpoint; None for an adopted graph
    lora: LoraSites | None = None  # the places where adapters enter the graph
    train: StepEntry | None = None  # the manifest's entry for the training step
    # parity of the training graph with torch, by file name
    train_parity: dict[str, StepParity] = field(default_factory=dict)
    sites: Sequence[MarkedSite] = ()  # the weights of the graph and their shapes; empty for an adopted graph
    tied: bool = False  # whether the LM head is the embedding
    # path in the bundle of the float32 graph for comparison. It is not shipped; for an adopted graph it is
    # the graph itself.
    reference: str = ""
    reference_layers: int = 0  # number of layers of the float32 graph; all of them where memory allows
    own_text: Sequence[Sequence[int]] = ()  # what it wrote itself for GPTQ; empty before it is needed

    @property
    def graph(self) -> str:
        """Path of the shipped graph in the bundle."""
        name = self.checkpoint.graph.name if isinstance(self.checkpoint, OptimumDirectory) else "model.onnx"
        return f"{self.role}/cpu/{name}"

    @property
    def layout(self) -> Layout:
        """How the graph keeps its keys and values."""
        return "concat" if isinstance(self.checkpoint, OptimumDirectory) else "shared"

    @property
    def kv(self) -> KvShape:
        """Shape of the KV buffers."""
        assert self.contract is not None
        c = self.contract
        kind: KvType = "float16" if c.half_kv else "float32"
        return KvShape(c.num_layers, c.num_kv_heads, c.head_dim, c.max_length, kind)

    @property
    def start(self) -> list[int]:
        """The ids that begin this model's context as a drafter: its bos token, or none."""
        bos = self.tokenizer.controls.get(self.tokenizer.adds_bos or "")
        return [] if bos is None else [bos.id]

    @property
    def whole_reference(self) -> bool:
        """Whether the float32 graph has all layers."""
        return self.reference_layers == self.checkpoint.shape.num_layers

    def shipped_model(self, work: Path, threads: int = 1) -> SessionModel:
        """Load the shipped graph, on a given number of threads."""
        return self._model(work / self.graph, self.kv, threads)

    def reference_model(self, work: Path) -> SessionModel:
        """Load the float32 graph."""
        kv = replace(self.kv, num_layers=self.reference_layers, type="float32")
        return self._model(work / self.reference, kv)

    def _model(self, file: Path, kv: KvShape, threads: int = 1) -> SessionModel:
        if self.layout == "concat":
            return ConcatGraph(file, kv, self.checkpoint.shape.vocab_size, threads=threads).new_model()
        return OrtModel(Graph(file, kv, self.checkpoint.shape.vocab_size, threads=threads))


def check_model(name: str) -> None:
    """Refuse what names no model, by its path and its config.json alone: reading a model may take long."""
    if find_graph(name) is None:
        check_name(name)


def read_model(role: str, name: str) -> ModelExport:
    """Read the checkpoint or the graph that `name` names, and its tokenizer."""
    graph = find_graph(name)
    checkpoint = read_optimum(name, graph) if graph else read_checkpoint(name)
    return ModelExport(role, checkpoint, read_tokenizer(checkpoint.directory))
