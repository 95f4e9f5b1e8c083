"""A model of static graphs, which accelerators require: the host keeps the keys and values.

Each graph takes blocks of one length. A shorter block is padded with unused rows: they come last, so no other
row attends to them, and their keys and values are not kept. Contract: spec/03-bundle.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from safetensors import SafetensorError, safe_open

from omnidraft.errors import BundleError, reason
from omnidraft.runtime.bundle.lora_sites import LoraSites, a_name, b_name
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.bundle.places import Provider
from omnidraft.runtime.decoding.model import Cancelled, Logits
from omnidraft.runtime.disk.read_file import read_file
from omnidraft.runtime.models.engine_run import EngineRun
from omnidraft.runtime.models.graph_contract import (
    adapter_values,
    check_adapters,
    check_fixed,
    check_values,
    kv_buffers,
    static_values,
)
from omnidraft.runtime.models.ort_model import never
from omnidraft.runtime.models.provider import open_graph

Floats = npt.NDArray[np.float32]
MAX_HEADER_BYTES = 1 << 16  # of the file of tables


@dataclass(frozen=True)
class StaticForm:
    """The static graphs of a model, all of one form.

    Attributes:
        host: the file of embeddings [vocab, hidden] and rotary tables cos, sin [max_length, head_dim].
        kv: shape of the keys and values on the host; max_length is the past that the graphs take.
        mask: added to the score of a hidden position, so low that its weight rounds to zero.
    """

    graphs: Mapping[int, Path]
    host: Path
    kv: KvShape
    vocab_size: int
    mask: float


class StaticGraphs:
    """Loaded static graphs: any number of `StaticModel`s may run them, each from its own thread."""

    def __init__(self, form: StaticForm, provider: Provider | None = None, *, threads: int = 1) -> None:
        """
        Raises:
            BundleError: a graph or table cannot be loaded.
        """
        self.form = form
        self.kv, self.vocab_size = form.kv, form.vocab_size
        place = provider or Provider()
        self.sessions = {n: open_graph(path, place, threads) for n, path in sorted(form.graphs.items())}
        try:
            host = _open_tables(form.host)
            self.embeddings = host.get_slice("embeddings")  # rows are read from the file
            self.cos: Floats = host.get_tensor("cos")
            self.sin: Floats = host.get_tensor("sin")
            hidden = _check_tables(form, self.embeddings, self.cos, self.sin)
        except (SafetensorError, OSError, TypeError, ValueError) as error:  # TypeError: BF16
            raise BundleError(
                f"{form.host} cannot be read ({reason(error)})", "run `omnidraft export` again", fault="graph"
            ) from None
        for n, session in self.sessions.items():
            inputs, outputs = static_values(form.kv, form.vocab_size, n, hidden)
            check_fixed(form.graphs[n], session, outputs)
            check_values(form.graphs[n], session, inputs, outputs)

    def check_adapters(self, lora: LoraSites | None) -> None:
        """Check that the graphs take the adapters of a manifest, and nothing else."""
        for n, session in self.sessions.items():
            fed, _ = static_values(self.kv, self.vocab_size, n, 0)
            check_adapters(self.form.graphs[n], session, fed, adapter_values(lora))

    def new_model(self) -> "StaticModel":
        """A model with a context of its own on these weights."""
        return StaticModel(self)


def _open_tables(host: Path) -> Any:
    """The file of the host's tables; its header is bounded before the library reads it."""
    size = int.from_bytes(read_file(host, 8), "little")
    if size > MAX_HEADER_BYTES:
        raise ValueError(f"its header has {size} bytes, more than {MAX_HEADER_BYTES}")
    return safe_open(host, framework="numpy")


def _check_tables(form: StaticForm, embeddings: Any, *tables: Floats) -> int:
    """The width of the embeddings, if the host's tables have the shapes of the manifest."""
    rows, *width = embeddings.get_shape()
    if embeddings.get_dtype() not in ("F16", "F32") or rows != form.vocab_size or len(width) != 1:
        raise ValueError(f"its embeddings have shape {[rows, *width]!s:.80}")
    for table in tables:
        if table.dtype != np.float32 or table.shape != (form.kv.max_length, form.kv.head_dim):
            raise ValueError(f"its rotary tables have shape {[*table.shape]!s:.80}")
    return int(width[0])


class _Block:
    """A binding for passes over up to n tokens, and the arrays that it reads and writes."""

    def __init__(self, session: ort.InferenceSession, n: int, kept: Mapping[str, Floats]) -> None:
        self.binding = session.io_binding()
        shapes = {each.name: each.shape for each in session.get_inputs() if each.name not in kept}
        self.inputs: dict[str, Floats] = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        self.outputs: dict[str, Floats] = {
            each.name: np.zeros(each.shape, np.float32) for each in session.get_outputs()
        }
        for name, array in (*self.inputs.items(), *kept.items()):
            self.binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        for name, array in self.outputs.items():
            self.binding.bind_output(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        self.rows = np.arange(n)


class StaticModel:
    """A decoder of static graphs with a context of its own."""

    def __init__(self, graphs: StaticGraphs) -> None:
        self._graphs = graphs
        kv = graphs.kv
        self.vocab_size, self.max_length, self.length = graphs.vocab_size, kv.max_length, 0
        self.cancelled: Callable[[], bool] = never
        self._kv: dict[str, Floats] = kv_buffers(kv)
        any_inputs = graphs.sessions[1].get_inputs()
        self._lora: dict[str, Floats] = {  # zeros: no adapter
            each.name: np.zeros(each.shape, np.float32)
            for each in any_inputs
            if each.name.endswith((a_name(""), b_name("")))
        }
        kept = {f"past_key_values.{name}": array for name, array in self._kv.items()} | self._lora
        self._blocks = {n: _Block(session, n, kept) for n, session in graphs.sessions.items()}
        self._engines = {
            n: EngineRun(session, str(graphs.form.graphs[n])) for n, session in graphs.sessions.items()
        }
        for n, block in self._blocks.items():  # the tokens of a block: each row attends to those up to itself
            block.inputs["attention_mask"][..., kv.max_length :] = np.triu(
                np.full((n, n), graphs.form.mask, np.float32), 1
            )

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        count = len(tokens) if num_logits is None else num_logits
        assert 0 < count <= len(tokens) <= self.max_length - self.length, (len(tokens), self.length)
        before, longest = self.length, max(self._blocks)
        parts: list[Logits] = []
        try:
            for begin in range(0, len(tokens), longest):
                rows = self._run(tokens[begin : begin + longest])
                unread = len(tokens) - count - begin  # rows of this part that are not returned
                if unread < len(rows):
                    last = begin + longest >= len(tokens)
                    parts.append(rows[max(0, unread) :] if last else rows[max(0, unread) :].copy())
        except Cancelled:
            self.length = before
            raise
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def interrupt(self) -> None:
        for engine in self._engines.values():
            engine.interrupt()

    def rewind(self, length: int) -> None:
        """Forget every position from `length` on: the mask hides them until they are overwritten."""
        assert 0 <= length <= self.length, (length, self.length)
        self.length = length

    def use_adapter(self, tensors: Mapping[str, Floats]) -> None:
        assert tensors.keys() <= self._lora.keys(), sorted(tensors.keys() - self._lora.keys())
        for name, array in self._lora.items():
            array.fill(0.0)  # in place: the blocks are bound to this array
            if (tensor := tensors.get(name)) is not None:
                array[: tensor.shape[0], : tensor.shape[1]] = tensor

    def _run(self, tokens: Sequence[int]) -> Logits:
        """One pass over a block: logits [len(tokens), vocab]."""
        n, past = len(tokens), self.length
        block = self._fill(tokens)
        self._engines[len(block.rows)](block.binding, self.cancelled)
        for name, array in self._kv.items():
            array[:, :, past : past + n] = block.outputs[f"new.{name}"][:, :, :n]
        self.length = past + n
        logits: Logits = block.outputs["logits"][0, :n]
        return logits

    def feed(self, tokens: Sequence[int]) -> dict[str, Floats]:
        """The inputs of the graph for a block of these tokens, by name; views of the arrays."""
        past = {f"past_key_values.{name}": array for name, array in self._kv.items()}
        return {**self._fill(tokens).inputs, **past, **self._lora}

    def _fill(self, tokens: Sequence[int]) -> _Block:
        past, graphs = self.length, self._graphs
        block = self._blocks[min(size for size in self._blocks if size >= len(tokens))]
        for row, token in enumerate(tokens):
            block.inputs["inputs_embeds"][0, row] = graphs.embeddings[int(token)]
        mask = block.inputs["attention_mask"]
        mask[..., :past] = 0.0
        mask[..., past : self.max_length] = graphs.form.mask
        positions = np.minimum(block.rows + past, self.max_length - 1)
        block.inputs["cos"][0, 0], block.inputs["sin"][0, 0] = graphs.cos[positions], graphs.sin[positions]
        return block
