"""A checkpoint's weights under the names of the static form, one tensor at a time.

Only this module knows the names of transformers' modules. Unknown architectures are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.checkpoints.refusals import ropes
from omnidraft.errors import ExportError
from omnidraft.export.npu.static_graph import Decoder

if TYPE_CHECKING:
    from torch import Tensor

Named = tuple[str, NDArray[np.float32]]

ARCHITECTURES = (
    "LlamaForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "MistralForCausalLM",
    "Phi3ForCausalLM",
    "GraniteForCausalLM",
    "Olmo2ForCausalLM",
)
_POST_NORMS = ("Olmo2ForCausalLM",)  # these norm the output of a block, not its input


def refuse_static(checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint that the static form does not support, before any work is done."""
    name, config = checkpoint.name, checkpoint.config
    if checkpoint.architecture not in ARCHITECTURES:
        raise ExportError(
            f"{name} is {checkpoint.architecture}, which has no NPU graphs",
            f"leave --npu out, or use one of {', '.join(ARCHITECTURES)}",
        )
    activation = getattr(config, "hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ExportError(f"{name} uses {activation}, and NPU graphs have silu only", "leave --npu out")
    for rope in ropes(config):
        if (factor := rope.get("partial_rotary_factor", 1.0)) != 1.0:
            raise ExportError(
                f"{name} rotates {factor} of each head, and NPU graphs rotate whole heads", "leave --npu out"
            )
    window, most = getattr(config, "sliding_window", None), checkpoint.shape.max_positions
    if window is not None and window < most:
        raise ExportError(
            f"{name} attends through a window of {window} of its {most} positions, which NPU graphs do not",
            "leave --npu out",
        )


def read_decoder(checkpoint: Checkpoint) -> Decoder:
    """The sizes and constants of a checkpoint's decoder."""
    config: Any = checkpoint.config
    shape = checkpoint.shape
    granite = checkpoint.architecture == "GraniteForCausalLM"
    return Decoder(
        num_layers=shape.num_layers,
        num_heads=config.num_attention_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        hidden_size=shape.hidden_size,
        vocab_size=shape.vocab_size,
        epsilon=config.rms_norm_eps,
        attention_scale=config.attention_multiplier if granite else shape.head_dim**-0.5,
        residual_multiplier=config.residual_multiplier if granite else 1.0,
        logits_scaling=config.logits_scaling if granite else 1.0,
    )


def embeddings(checkpoint: Checkpoint, model: Any) -> NDArray[np.float32]:
    """The table of the host, [vocab, hidden]; the embedding multiplier of some models is applied."""
    factor = getattr(checkpoint.config, "embedding_multiplier", 1.0)
    table = _array(model.get_input_embeddings().weight)
    return table if factor == 1.0 else table * np.float32(factor)


def static_weights(checkpoint: Checkpoint, model: Any) -> Iterator[Named]:
    """Every weight of a torch model, matrices as [in, out]; one weight at a time is in memory twice."""
    post = checkpoint.architecture in _POST_NORMS
    for i, layer in enumerate(model.base_model.layers):
        attention, mlp, name = layer.self_attn, layer.mlp, f"layers.{i}"
        for kind in ("q_norm", "k_norm"):
            if hasattr(attention, kind):
                yield f"{name}.{kind}.weight", _array(getattr(attention, kind).weight)
        if post:
            yield f"{name}.attention_post_norm.weight", _array(layer.post_attention_layernorm.weight)
            yield f"{name}.mlp_post_norm.weight", _array(layer.post_feedforward_layernorm.weight)
        else:
            yield f"{name}.attention_norm.weight", _array(layer.input_layernorm.weight)
            yield f"{name}.mlp_norm.weight", _array(layer.post_attention_layernorm.weight)
        yield from _linear(f"{name}.qkv", _packed(attention, "qkv_proj", ("q_proj", "k_proj", "v_proj")))
        yield from _linear(f"{name}.o", [attention.o_proj])
        yield from _linear(f"{name}.gate_up", _packed(mlp, "gate_up_proj", ("gate_proj", "up_proj")))
        yield from _linear(f"{name}.down", [mlp.down_proj])
    yield "norm.weight", _array(model.base_model.norm.weight)
    yield from _linear("lm_head", [model.get_output_embeddings()])


def _packed(module: Any, whole: str, parts: tuple[str, ...]) -> list[Any]:
    """The linear layer that is packed in the checkpoint, or the layers to be packed."""
    return [getattr(module, whole)] if hasattr(module, whole) else [getattr(module, part) for part in parts]


def _linear(name: str, layers: list[Any]) -> Iterator[Named]:
    """Linear layers side by side as one layer: weight [in, out], and bias [out] if they have biases."""
    yield f"{name}.weight", np.concatenate([_array(layer.weight).T for layer in layers], axis=1)
    if any(layer.bias is not None for layer in layers):
        yield f"{name}.bias", np.concatenate([_array(layer.bias) for layer in layers])


def _array(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().numpy()
    return array
