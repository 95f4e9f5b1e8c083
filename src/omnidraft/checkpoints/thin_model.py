"""A checkpoint as a float32 model whose large weights stay mapped from their files, in the stored type.

Norms and buffers are float32; a product or an embedding converts its weight to float32 when it runs. So a
forward pass is torch's own in float32 and needs the memory of one weight. This module does not know ONNX.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from omnidraft.checkpoints.checkpoint import Checkpoint, stored_parameters
from omnidraft.checkpoints.gguf.weights import PackedWeight

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Stored:
    """The weight [out, in] (of an embedding [vocab, hidden]) and the bias [out] of one module, as stored."""

    weight: Tensor | PackedWeight
    bias: Tensor | None = None


@dataclass(frozen=True)
class ThinModel:
    """A model whose products and embeddings are empty."""

    model: PreTrainedModel  # the model
    stored: Mapping[str, Stored]  # weight and bias of each product and embedding, by module name

    @property
    def tied(self) -> bool:
        """Whether the LM head is the embedding."""
        pointers = [
            held.weight.data_ptr()
            for name, held in self.stored.items()
            if name == "lm_head" or isinstance(self.model.get_submodule(name), nn.Embedding)
        ]
        return len(pointers) == 2 and pointers[0] == pointers[1]


def thin_model(checkpoint: Checkpoint, layers: int | None = None) -> ThinModel:
    """The checkpoint for inference, or only its first `layers` layers."""
    source = stored_parameters(checkpoint)
    config = copy.deepcopy(checkpoint.config)
    config.use_cache = False
    if layers is not None:
        shorten(config, layers)
    with _weights_nowhere():
        model: Any = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            config, dtype=torch.float32, attn_implementation="eager"
        )
    stored = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            bias: Any = source.get(f"{name}.bias")
            stored[name] = Stored(source[f"{name}.weight"].detach(), None if bias is None else bias.detach())
            _empty(module, name)
        else:
            for key, parameter in list(module.named_parameters(recurse=False)):
                value = source[f"{name}.{key}"].detach().float()
                assert value.shape == parameter.shape, (name, key)
                setattr(module, key, nn.Parameter(value, requires_grad=False))
    return ThinModel(model.eval(), stored)


def unpacked(thin: ThinModel, room: int | None) -> ThinModel:
    """The same model with the codes of a GGUF file as float32 in memory, for many passes.

    Args:
        room: bytes that the values may take; products that do not fit stay codes. None for no limit.
    """
    left = math.inf if room is None else room
    values: dict[int, Tensor] = {}  # by address: an embedding may be the LM head
    for name, held in thin.stored.items():
        weight = held.weight
        if isinstance(weight, PackedWeight) and not isinstance(thin.model.get_submodule(name), nn.Embedding):
            size = 4 * math.prod(weight.shape)
            if size <= left:
                values[weight.data_ptr()] = weight.float()
                left -= size
    stored = {
        name: Stored(values.get(held.weight.data_ptr(), held.weight), held.bias)
        for name, held in thin.stored.items()
    }
    return ThinModel(thin.model, stored)


def shorten(config: PreTrainedConfig, layers: int) -> None:
    """Cut a configuration to its first `layers` layers."""
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]


def layer_period(config: PreTrainedConfig) -> int:
    """The least number of first layers that contains every kind of layer."""
    kinds = getattr(config, "layer_types", None) or [""]
    return 1 + max(kinds.index(kind) for kind in set(kinds))


def logits_of(thin: ThinModel, ids: list[int]) -> Floats:
    """torch's logits of every position of a text, float32 [len(ids), vocab]."""
    with reading(thin), torch.no_grad():
        rows: Floats = thin.model(input_ids=torch.tensor([ids])).logits[0].float().numpy()
    return rows


def _empty(module: nn.Module, name: str) -> None:
    """Remove the weight of a module; one float32 number stays, so the model's type is float32."""
    module.weight = nn.Parameter(torch.zeros(1), requires_grad=False)
    module.register_parameter("bias", None)
    module.__dict__["site"] = name


@contextmanager
def reading(thin: ThinModel) -> Iterator[None]:
    """Within it products and embeddings compute in float32 with the weights as stored."""

    def linear(module: Any, x: Tensor) -> Tensor:
        stored = thin.stored[module.site]
        bias = None if stored.bias is None else stored.bias.float()
        return nn.functional.linear(x, stored.weight.float(), bias)

    def embedding(module: Any, ids: Tensor) -> Tensor:
        return thin.stored[module.site].weight[ids].float()

    with patched(nn.Linear, "forward", linear), patched(nn.Embedding, "forward", embedding):
        yield


@contextmanager
def _weights_nowhere() -> Iterator[None]:
    """Within this context new modules get parameters without memory; buffers are computed as usual."""
    register = nn.Module.register_parameter

    def nowhere(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None:
            parameter = nn.Parameter(parameter.to("meta"), requires_grad=False)
        register(module, name, parameter)

    with patched(nn.Module, "register_parameter", nowhere):
        yield


_INHERITED = object()


@contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set `owner.name` to `value` inside the context, and restore it afterwards."""
    before = vars(owner).get(name, _INHERITED)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
