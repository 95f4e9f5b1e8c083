"""The tensors of a GGUF file under transformers' names; a matrix stays mapped until its values are asked for.

llama.cpp permutes the rows of q and k of Llama-like models, and adds one to Gemma's norms. Both are undone:
codes lie along the columns, so permuted rows keep them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from omnidraft.checkpoints.gguf.codes import BlockCodes, read_codes
from omnidraft.checkpoints.gguf.header import GgufHeader, TensorEntry
from omnidraft.checkpoints.gguf.metadata import ROPE_TENSORS
from omnidraft.errors import CheckpointError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
_PERMUTED = ("llama", "granite")  # architectures of llama.cpp
_OFFSET_NORMS = ("gemma2", "gemma3")
FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True, eq=False)
class PackedWeight:
    """A matrix of a GGUF file, with as much of torch's interface as a mapped weight needs."""

    kind: str  # name of the type, such as Q4_K
    shape: tuple[int, int]  # (rows, columns)
    data: Bytes  # the rows as in the file, [rows, bytes]; mapped
    # the place in the file of each row; None where the rows are in order
    order: NDArray[np.int64] | None = None

    def codes(self) -> BlockCodes | None:
        """The codes of the file; None for a type whose codes a graph cannot hold."""
        return read_codes(self._rows(), self.kind)

    def numpy(self) -> Floats:
        """The values, float32 [rows, columns]."""
        return _dequantized(self._rows(), self.kind)

    def float(self) -> torch.Tensor:
        """The values as a float32 tensor."""
        import torch

        values = self.numpy()
        return torch.from_numpy(values if values.flags.writeable else values.copy())

    def t(self) -> torch.Tensor:
        """The transposed values."""
        return self.float().t()

    def __getitem__(self, ids: torch.Tensor) -> torch.Tensor:
        """The rows of some ids, float32 [..., columns]."""
        import torch

        places = ids.numpy().reshape(-1)
        places = places if self.order is None else self.order[places]
        rows = _dequantized(self.data[places], self.kind)
        return torch.from_numpy(rows).view(*ids.shape, -1)

    def __len__(self) -> int:
        return self.shape[0]

    def detach(self) -> PackedWeight:
        """The weight itself: it has no gradient."""
        return self

    def data_ptr(self) -> int:
        """Address of the bytes, by which equal weights are known."""
        return self.data.ctypes.data

    def _rows(self) -> Bytes:
        return self.data if self.order is None else self.data[self.order]


class GgufWeights(Mapping[str, Any]):
    """The weights of a GGUF file."""

    def __init__(self, header: GgufHeader, config: PreTrainedConfig, name: str) -> None:
        """

        Args:
            config: that `config_of` describes.
        """
        self._header, self._config, self._name = header, config, name
        self._data = header.data()
        self._entries = self._named(_shapes(config))

    def __iter__(self) -> Iterator[str]:
        """transformers' names of all weights, a tied LM head too."""
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, name: str) -> torch.Tensor | PackedWeight:
        """A weight by transformers' name: a matrix mapped, and what is small in float32."""
        import torch

        entry = self._entries[name]
        rows = self._data[entry.offset : entry.offset + entry.size].reshape(entry.shape[0], -1)
        order = self._order(name, entry.shape[0])
        if len(entry.shape) == 2:
            return PackedWeight(entry.kind, (entry.shape[0], entry.shape[1]), rows, order)
        values = _dequantized(rows.reshape(1, -1), entry.kind)[0]
        values = values if order is None else values[order]
        if self._header.values["general.architecture"] in _OFFSET_NORMS and name.endswith("norm.weight"):
            values = values - np.float32(1)
        return torch.from_numpy(np.array(values, np.float32))

    def _order(self, name: str, rows: int) -> NDArray[np.int64] | None:
        """Where the rows of a weight are in the file."""
        module = name.rsplit(".", 2)[-2]
        if self._header.values["general.architecture"] not in _PERMUTED or module not in ("q_proj", "k_proj"):
            return None
        config: Any = self._config
        heads = config.num_attention_heads if module == "q_proj" else config.num_key_value_heads
        halves = np.arange(rows).reshape(heads, rows // heads // 2, 2)
        places: NDArray[np.int64] = halves.swapaxes(1, 2).reshape(-1)
        return places

    def _named(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, TensorEntry]:
        """The tensor of each weight."""
        from gguf.constants import MODEL_ARCH_NAMES
        from gguf.tensor_mapping import get_tensor_name_map

        architecture = self._header.values["general.architecture"]
        number = next(key for key, value in MODEL_ARCH_NAMES.items() if value == architecture)
        places = get_tensor_name_map(number, self._config.num_hidden_layers)
        tied = bool(getattr(self._config, "tie_word_embeddings", False))
        entries = {}
        for name, shape in shapes.items():
            module, _, part = name.rpartition(".")
            module = "model.embed_tokens" if tied and module == "lm_head" else module
            tensor = f"{places.get_name(module)}.{part}"
            entry = self._header.tensors.get(tensor)
            if entry is None:
                raise CheckpointError(f"{self._name} has no {tensor}, a weight of its architecture", _AGAIN)
            if entry.shape != shape:
                raise CheckpointError(
                    f"{self._name} stores {tensor} as {entry.shape} and its sizes mean {shape}", _AGAIN
                )
            _check_kind(entry, self._name)
            entries[name] = entry
        used = {entry.name for entry in entries.values()}
        if others := [each for each in self._header.tensors if each not in used and each not in ROPE_TENSORS]:
            raise CheckpointError(
                f"{self._name} holds {len(others)} weights that a {architecture} model does not have, "
                f"{others[0]} first",
                "use another model",
            )
        return entries


_AGAIN = "download it again"


def matrix_kinds(header: GgufHeader) -> list[str]:
    """The types of the matrices of a file, those with the most bytes first."""
    sizes: dict[str, int] = {}
    for entry in header.tensors.values():
        if len(entry.shape) == 2:
            sizes[entry.kind] = sizes.get(entry.kind, 0) + entry.size
    return sorted(sizes, key=lambda kind: -sizes[kind])


def _shapes(config: PreTrainedConfig) -> dict[str, tuple[int, ...]]:
    """The shape of each weight of a model, by name; no memory is taken for values."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    return {name: tuple(each.shape) for name, each in model.named_parameters(remove_duplicate=False)}


def _check_kind(entry: TensorEntry, name: str) -> None:
    """Refuse a type that the package gguf cannot read, and codes where a file has floats."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    if len(entry.shape) == 1 and entry.kind not in FLOATS:
        raise CheckpointError(
            f"{name} stores {entry.name}, which is no matrix, as {entry.kind}",
            f"convert it again with llama.cpp, which keeps it as one of {', '.join(FLOATS)}",
        )
    block = np.zeros((1, GGML_QUANT_SIZES[GGMLQuantizationType[entry.kind]][1]), np.uint8)
    try:
        _dequantized(block, entry.kind)
    except NotImplementedError:
        raise CheckpointError(
            f"{name} stores {entry.name} as {entry.kind}, which cannot be read",
            "give a file of a usual type, such as Q4_K_M or Q8_0",
        ) from None


def _dequantized(rows: Bytes, kind: str) -> Floats:
    """Rows as in the file -> float32 [rows, columns]."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    values: Floats = dequantize(np.ascontiguousarray(rows), GGMLQuantizationType[kind])
    return np.ascontiguousarray(values, np.float32)
