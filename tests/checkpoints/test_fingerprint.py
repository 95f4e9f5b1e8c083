"""The fingerprint of a checkpoint depends on the values of the weights, not on how they are stored."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import save_file

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.checkpoints.fingerprint import fingerprint
from omnidraft.errors import CheckpointError

Tensors = dict[str, torch.Tensor]


def weights() -> Tensors:
    """Values that half precision represents exactly."""
    values = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 8
    return {
        "model.embed_tokens.weight": values,
        "model.norm.weight": values[0] + 1,
        "lm_head.weight": values + 2,
    }


def of(directory: Path, *, tied: bool = False) -> str:
    config = cast(Any, SimpleNamespace(tie_word_embeddings=tied))
    return fingerprint(Checkpoint(directory.name, directory, config, "LlamaForCausalLM", cast(Any, None)))


def saved(place: Path, tensors: Tensors) -> Path:
    place.mkdir()
    save_file(tensors, place / "model.safetensors")
    return place


def sharded(place: Path, tensors: Tensors) -> Path:
    place.mkdir()
    where = {}
    for i, (name, tensor) in enumerate(tensors.items()):
        where[name] = f"model-{3 - i}.safetensors"
        save_file({name: tensor}, place / where[name])
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return place


def test_it_does_not_matter_how_weights_are_stored(tmp_path: Path) -> None:
    expected = of(saved(tmp_path / "whole", weights()))
    assert len(expected) == 64 and int(expected, 16)
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        assert of(saved(tmp_path / str(dtype), {n: t.to(dtype) for n, t in weights().items()})) == expected
    assert of(sharded(tmp_path / "shards", weights())) == expected
    old = tmp_path / "old"
    old.mkdir()
    torch.save(weights(), old / "pytorch_model.bin")
    assert of(old) == expected


def test_what_is_no_weight_is_left_out(tmp_path: Path) -> None:
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2), "steps": torch.tensor([3])}
    assert of(saved(tmp_path / "a", {**weights(), **extra})) == of(saved(tmp_path / "b", weights()))
    tied = {n: t for n, t in weights().items() if n != "lm_head.weight"}
    assert of(tmp_path / "b", tied=True) == of(saved(tmp_path / "c", tied), tied=True) != of(tmp_path / "b")


@pytest.mark.parametrize("name", sorted(weights()))
def test_every_weight_counts(tmp_path: Path, name: str) -> None:
    expected = of(saved(tmp_path / "whole", weights()))
    changed = weights()
    changed[name] = changed[name].clone()
    changed[name].view(-1)[-1] += 0.125
    assert of(saved(tmp_path / "changed", changed)) != expected
    renamed = weights()
    renamed[f"{name}.other"] = renamed.pop(name)
    assert of(saved(tmp_path / "renamed", renamed)) != expected
    reshaped = {n: t.reshape(-1, 2) if n == name else t for n, t in weights().items()}
    assert of(saved(tmp_path / "reshaped", reshaped)) != expected


def test_no_weights(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no weights to take a fingerprint of; download it again"):
        of(tmp_path)
