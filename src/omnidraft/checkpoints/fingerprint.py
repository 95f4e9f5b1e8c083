"""The fingerprint of a checkpoint: it identifies the weights that an adapter was trained on.

SHA-256 over the float weights in order of their names, each as name, shape and float32 values. So an adapter
fits the fp32, int8 and int4 graphs of a checkpoint, and a checkpoint that was saved again without loss.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import safe_open

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor

_SLICE = 1 << 24  # values converted to float32 at a time
_NO_WEIGHT = ".rotary_emb.inv_freq"  # a table that old checkpoints store


def fingerprint(checkpoint: Checkpoint) -> str:
    """The fingerprint of a checkpoint whose weights are on the disk, 64 hexadecimal digits."""
    tied = bool(getattr(checkpoint.config, "tie_word_embeddings", False))
    digest = hashlib.sha256()
    for name, tensor in _all_weights(checkpoint):
        if not tensor.is_floating_point() or name.endswith(_NO_WEIGHT) or (tied and name == "lm_head.weight"):
            continue
        digest.update(f"\0{name}\0{','.join(map(str, tensor.shape))}\0".encode())
        for piece in tensor.reshape(-1).split(_SLICE):  # type: ignore[no-untyped-call]
            digest.update(piece.float().numpy().astype("<f4", copy=False).tobytes())
    return digest.hexdigest()


def _all_weights(checkpoint: Checkpoint) -> Iterator[tuple[str, Tensor]]:
    if checkpoint.gguf is None:
        yield from _weights(checkpoint.directory, checkpoint.name)
        return
    weights = checkpoint.gguf.weights
    for name in sorted(weights):
        yield name, weights[name].float()


def _weights(directory: Path, name: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in order of the names, read lazily where the format allows."""
    files = _files(directory, name)
    if files[0].suffix == ".bin":
        import torch

        whole: dict[str, Tensor] = {}
        for file in files:
            whole |= torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        yield from sorted(whole.items())
        return
    where: dict[str, Path] = {}
    for file in files:
        with safe_open(file, framework="pt") as opened:
            where |= dict.fromkeys(opened.keys(), file)
    for key, file in sorted(where.items()):
        with safe_open(file, framework="pt") as opened:
            yield key, opened.get_tensor(key)


def _files(directory: Path, name: str) -> list[Path]:
    """The weight files that transformers would load, by its order of preference."""
    for single in ("model.safetensors", "pytorch_model.bin"):
        index = directory / f"{single}.index.json"
        if (directory / single).is_file():
            return [directory / single]
        if index.is_file():
            shards: Mapping[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            return [directory / shard for shard in sorted(set(shards.values()))]
    raise CheckpointError(f"{name} has no weights to take a fingerprint of", "download it again")
