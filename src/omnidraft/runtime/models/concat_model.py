"""A model on a graph with concatenating KV, as Optimum exports it: a pass returns past and new together.

Two buffers take turns: a pass reads the past from one and writes its result into the other. After a rewind
the kept positions of each head are moved together, in place. Contract of the graph: spec/03-bundle.md.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.models.engine_run import EngineRun
from omnidraft.runtime.models.graph_contract import (
    ANY,
    FLOAT,
    INT64,
    Value,
    check_adapters,
    check_values,
    kv_buffers,
    kv_names,
)
from omnidraft.runtime.models.ort_model import Graph, never

CHUNK = 64  # tokens of a pass over a prompt: the graph computes logits for every token
_INTEGERS: dict[str, type[np.integer]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_TEXT_INPUTS = ("input_ids", "attention_mask", "position_ids")  # the last two only if the graph has them

Floats = npt.NDArray[np.float32]


class ConcatGraph(Graph):
    """The loaded weights of a graph with concatenating KV; each `ConcatModel` may run in its own thread."""

    def check(self) -> None:
        """
        Raises:
            BundleError: the graph does not take and give the tensors of a decoder with concatenating KV.
        """
        kinds = {i.name: i.type for i in self.session.get_inputs()}
        self.integers = {
            name: _INTEGERS[kinds[name]] for name in _TEXT_INPUTS if kinds.get(name) in _INTEGERS
        }
        texts = {name: Value(kinds[name], (ANY, ANY)) for name in self.integers}
        buffer = Value(FLOAT, (ANY, self.kv.num_kv_heads, ANY, self.kv.head_dim))
        names = kv_names(self.kv.num_layers)
        past = {f"past_key_values.{name}": buffer for name in names}
        inputs = {"input_ids": Value(INT64, (ANY, ANY)), **texts, **past}
        outputs = {f"present.{name}": buffer for name in names}
        logits = Value(FLOAT, (ANY, ANY, self.vocab_size))
        check_values(self.path, self.session, inputs, {"logits": logits, **outputs})
        check_adapters(self.path, self.session, inputs, {})

    def new_model(self) -> "ConcatModel":
        """A model with a context of its own on these weights."""
        return ConcatModel(self)


class ConcatModel:
    """A decoder graph with concatenating KV on the CPU provider (see `Model`)."""

    def __init__(self, graph: ConcatGraph) -> None:
        kv = graph.kv
        self._graph = graph
        self.vocab_size, self.max_length, self.length = graph.vocab_size, kv.max_length, 0
        self.cancelled: Callable[[], bool] = never
        self._engine = EngineRun(graph.session, str(graph.path))
        self._names = kv_names(kv.num_layers)
        self._past = [buffer.reshape(-1) for buffer in kv_buffers(kv).values()]
        self._present = [buffer.reshape(-1) for buffer in kv_buffers(kv).values()]
        self._stored = 0  # positions in the buffers of the past; those from `length` on are rewound
        self._logits = np.zeros((CHUNK + 1) * self.vocab_size, dtype=np.float32)

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        count = len(tokens) if num_logits is None else num_logits
        assert 0 < count <= len(tokens) <= self.max_length - self.length, (len(tokens), self.length)
        while len(tokens) - count >= CHUNK:  # positions whose logits are not needed
            self._run(tokens[:CHUNK])
            tokens = tokens[CHUNK:]
        return self._run(tokens)[-count:]

    def interrupt(self) -> None:
        self._engine.interrupt()

    def rewind(self, length: int) -> None:
        """Forget every position from `length` on; the next pass leaves them out of its past."""
        assert 0 <= length <= self.length, (length, self.length)
        self.length = length

    def use_adapter(self, tensors: Mapping[str, Floats]) -> None:
        """Accept no tensors: an adopted graph has no sites, and `fit` refuses adapters for it."""
        assert not tensors, sorted(tensors)

    def _run(self, tokens: Sequence[int]) -> Logits:
        self._drop_forgotten()
        n, past = len(tokens), self.length
        logits = self._rows(n)
        values: dict[str, npt.NDArray[np.integer]] = {
            "input_ids": np.array(tokens),
            "attention_mask": np.ones(past + n, dtype=np.int64),
            "position_ids": np.arange(past, past + n),
        }
        binding = self._graph.session.io_binding()
        kept = []  # onnxruntime reads these arrays while it runs
        for name, kind in self._graph.integers.items():
            kept.append(values[name].astype(kind)[None])
            binding.bind_input(name, "cpu", 0, kind, kept[-1].shape, kept[-1].ctypes.data)
        for name, old, new in zip(self._names, self._past, self._present, strict=True):
            binding.bind_input(
                f"past_key_values.{name}", "cpu", 0, np.float32, self._shape(past), old.ctypes.data
            )
            binding.bind_output(
                f"present.{name}", "cpu", 0, np.float32, self._shape(past + n), new.ctypes.data
            )
        binding.bind_output("logits", "cpu", 0, np.float32, (1, *logits.shape), logits.ctypes.data)
        self._engine(binding, self.cancelled)
        self._past, self._present = self._present, self._past
        self.length = self._stored = past + n
        return logits

    def _shape(self, length: int) -> tuple[int, int, int, int]:
        kv = self._graph.kv
        return (1, kv.num_kv_heads, length, kv.head_dim)

    def _drop_forgotten(self) -> None:
        """Move the kept positions of each head together, from the first head on, so that none is lost."""
        if self._stored == self.length:
            return
        kv = self._graph.kv
        kept, stride = self.length * kv.head_dim, self._stored * kv.head_dim
        for buffer in self._past:
            for head in range(1, kv.num_kv_heads):
                buffer[head * kept : (head + 1) * kept] = buffer[head * stride : head * stride + kept]
        self._stored = self.length

    def _rows(self, count: int) -> Floats:
        """The buffer for the logits of a pass, float32 [count, vocab]; usual passes share one buffer."""
        size = count * self.vocab_size
        flat = self._logits if size <= len(self._logits) else np.zeros(size, dtype=np.float32)
        return flat[:size].reshape(count, self.vocab_size)
