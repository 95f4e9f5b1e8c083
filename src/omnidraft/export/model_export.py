"""One model of a pair during an export: its checkpoint, its tokenizer, and what was written of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omnidraft.checkpoints.checkpoint import Checkpoint, read_checkpoint
from omnidraft.checkpoints.control_tokens import read_tokenizer
from omnidraft.export.graph.contract import GraphContract
from omnidraft.export.graph.markers import MarkedSite
from omnidraft.export.quantize.parity import StepParity
from omnidraft.runtime.bundle.lora_sites import LoraSites
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.bundle.train_step_entry import StepEntry
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.decoding.model import SessionModel
from omnidraft.runtime.models.ort_model import Graph, OrtModel
from omnidraft.runtime.models.static_model import StaticForm
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer


@dataclass
class ModelExport:
    """One model of a pair.

    `read_model` makes it; `write_model` and `finish_static` fill in the attributes that have defaults.
    """

    role: str  # "target" or "drafter"
    checkpoint: Checkpoint  # what the user named
    tokenizer: LibraryTokenizer  # its tokenizer
    # the compiled template of the target; a drafter's is empty
    prompt: PromptTemplate = field(default_factory=lambda: PromptTemplate("", ""))
    not_compiled: str = ""  # why the bundle has no compiled tokenizer, a sentence; empty where it has one
    parameters: int = 0  # number of weights
    contract: GraphContract | None = None  # inputs and outputs of the shipped graph
    # the static graphs by form, "float" and "qdq"
    static: dict[str, StaticForm] = field(default_factory=dict)
    npu: dict[str, Any] = field(default_factory=dict)  # the manifest's entry for the static graphs
    fingerprint: str | None = None  # of the checkpoint
    lora: LoraSites | None = None  # the places where adapters enter the graph
    train: StepEntry | None = None  # the manifest's entry for the training step
    # parity of the training graph with torch, by file name
    train_parity: dict[str, StepParity] = field(default_factory=dict)
    sites: Sequence[MarkedSite] = ()  # the weights of the graph and their shapes
    tied: bool = False  # whether the LM head is the embedding
    reference: str = ""  # path in the bundle of the float32 graph for comparison, which is not shipped
    reference_layers: int = 0  # number of layers of the float32 graph; all of them where memory allows
    own_text: Sequence[Sequence[int]] = ()  # what it wrote itself for GPTQ; empty before it is needed

    @property
    def graph(self) -> str:
        """Path of the shipped graph in the bundle."""
        return f"{self.role}/cpu/model.onnx"

    @property
    def kv(self) -> KvShape:
        """Shape of the KV buffers."""
        assert self.contract is not None
        c = self.contract
        return KvShape(c.num_layers, c.num_kv_heads, c.head_dim, c.max_length)

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
        return self._model(work / self.reference, replace(self.kv, num_layers=self.reference_layers))

    def _model(self, file: Path, kv: KvShape, threads: int = 1) -> SessionModel:
        return OrtModel(Graph(file, kv, self.checkpoint.shape.vocab_size, threads=threads))


def read_model(role: str, name: str) -> ModelExport:
    """Read the checkpoint that `name` names, and its tokenizer."""
    checkpoint = read_checkpoint(name)
    return ModelExport(role, checkpoint, read_tokenizer(checkpoint.directory))
