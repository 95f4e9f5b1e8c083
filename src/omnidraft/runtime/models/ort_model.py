"""A model in onnxruntime on the CPU: shared-buffer KV, one binding for each block length.

The same tensors are bound as past and as present, so onnxruntime writes new keys and values in place, and a
rewind only lowers a counter. Contract of the graph: spec/03-bundle.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from omnidraft.runtime.bundle.lora_sites import LoraSites
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.decoding.model import Logits, SessionModel
from omnidraft.runtime.models.adapter import no_adapter
from omnidraft.runtime.models.engine_run import EngineRun
from omnidraft.runtime.models.graph_contract import (
    adapter_values,
    check_adapters,
    check_values,
    kv_buffers,
    lazy_zeros,
    shared_values,
)
from omnidraft.runtime.models.onnx_session import cpu_session

_PREFILL_CHUNK = 128  # positions of a long prompt in one pass
_MOST_ROWS = 65  # rows of logits of the longest usual pass, a verification of MAX_PROPOSED tokens


@dataclass(frozen=True)
class _Block:
    """A binding for passes over n tokens, and the arrays that it reads and writes."""

    binding: ort.IOBinding
    input_ids: npt.NDArray[np.int64]  # [1, n]
    logits: Logits  # float32 [1, num_logits, vocab]


class Graph:
    """The loaded weights of a model: any number of `OrtModel`s may run them, each from its own thread."""

    def __init__(self, path: Path, kv: KvShape, vocab_size: int, *, threads: int = 1) -> None:
        """
        Args:
            path: the graph; weights in a file beside it are mapped into memory, not read.
            kv: shape of its KV buffers.
            threads: of one pass.

        Raises:
            BundleError: onnxruntime cannot load the graph, or it has other inputs and outputs.
        """
        self.path = path
        self.session = cpu_session(path, threads)
        self.kv, self.vocab_size = kv, vocab_size
        self.without: Mapping[str, npt.NDArray[np.float32]] = {}  # what is fed for no adapter
        self.check()

    def check(self) -> None:
        """
        Raises:
            BundleError: the graph does not take and give what a graph of this layout does.
        """
        check_values(self.path, self.session, *shared_values(self.kv, self.vocab_size))

    def check_adapters(self, lora: LoraSites | None) -> None:
        """Check that the graph takes the adapters of a manifest, and nothing else."""
        fed, _ = shared_values(self.kv, self.vocab_size)
        check_adapters(self.path, self.session, fed, adapter_values(lora))
        self.without = {} if lora is None else no_adapter(lora)

    def new_model(self) -> SessionModel:
        """A model on these weights, with a context of its own."""
        return OrtModel(self)


class OrtModel:
    """A decoder graph with shared-buffer KV of its own on the CPU provider."""

    def __init__(self, graph: Graph) -> None:
        """A model with a context of its own on loaded weights."""
        kv = graph.kv
        self._session = graph.session
        self._engine = EngineRun(graph.session, str(graph.path))
        self.vocab_size = graph.vocab_size
        self.max_length = kv.max_length
        self.length = 0
        self.cancelled: Callable[[], bool] = never
        buffers = kv_buffers(kv)
        self._kv = {name: ort.OrtValue.ortvalue_from_numpy(buffer) for name, buffer in buffers.items()}
        self._seqlens = np.zeros(1, dtype=np.int32)
        self._total = np.zeros(1, dtype=np.int32)
        self._num_logits = np.zeros(1, dtype=np.int64)
        # Memory is used only for the rows that are written.
        self._logits = lazy_zeros((1, _MOST_ROWS, self.vocab_size))
        self._blocks: dict[tuple[int, int], _Block] = {}
        self._adapter: Mapping[str, npt.NDArray[np.float32]] = graph.without

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        count = len(tokens) if num_logits is None else num_logits
        assert 0 < count <= len(tokens) <= self.max_length - self.length, (len(tokens), self.length)
        head = len(tokens) - max(count, 1)
        # Positions whose logits are not needed go first, in chunks of one row of logits each.
        while head > _PREFILL_CHUNK:
            self._run(tokens[:_PREFILL_CHUNK], 1)
            tokens, head = tokens[_PREFILL_CHUNK:], head - _PREFILL_CHUNK
        return self._run(tokens, count)

    def interrupt(self) -> None:
        self._engine.interrupt()

    def rewind(self, length: int) -> None:
        """Forget every position from `length` on: later passes overwrite them."""
        assert 0 <= length <= self.length, (length, self.length)
        self.length = length

    def use_adapter(self, tensors: Mapping[str, npt.NDArray[np.float32]]) -> None:
        self._adapter = {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in tensors.items()}
        self._blocks = {}  # a binding cannot drop an input

    def _run(self, tokens: Sequence[int], num_logits: int) -> Logits:
        block = self._block(len(tokens), num_logits)
        block.input_ids[0] = tokens
        total = self.length + len(tokens)
        self._seqlens.fill(total - 1)
        self._total.fill(total)
        self._num_logits.fill(num_logits)
        self._engine(block.binding, self.cancelled)
        self.length = total
        logits: Logits = block.logits[0]
        return logits

    def _block(self, n: int, num_logits: int) -> _Block:
        key = (n, num_logits)
        if key in self._blocks:
            return self._blocks[key]
        binding = self._session.io_binding()
        input_ids = np.zeros((1, n), dtype=np.int64)
        logits = self._rows(num_logits)
        inputs: dict[str, npt.NDArray[Any]] = {
            "input_ids": input_ids,
            "seqlens_k": self._seqlens,
            "total_sequence_length": self._total,
            "num_logits": self._num_logits,
            **self._adapter,
        }
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        binding.bind_output("logits", "cpu", 0, np.float32, logits.shape, logits.ctypes.data)
        for name, value in self._kv.items():
            binding.bind_ortvalue_input(f"past_key_values.{name}", value)
            binding.bind_ortvalue_output(f"present.{name}", value)
        block = _Block(binding, input_ids, logits)
        if n <= _MOST_ROWS:  # prompts have many lengths: do not keep their bindings
            self._blocks[key] = block
        return block

    def _rows(self, count: int) -> Logits:
        """The buffer for the logits of a pass, float32 [1, count, vocab]; usual passes share one buffer."""
        if count > _MOST_ROWS:
            return np.zeros((1, count, self.vocab_size), dtype=np.float32)
        return self._logits[:, :count]


def never() -> bool:
    """A `cancelled` that never cancels."""
    return False
