"""The metadata of a GGUF file -> the config.json of transformers, for the architectures that are exported.

transformers' own reading leaves out how positions are scaled, windows and head sizes, so a model could be
exported as another one without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from omnidraft.checkpoints.gguf.header import GgufHeader
from omnidraft.checkpoints.gguf.metadata import GgufMetadata


def config_of(header: GgufHeader, name: str) -> dict[str, Any]:
    """The values of config.json."""
    file = GgufMetadata(header, name)
    values, own = file.config(), _OWN.get(file.architecture)
    return values | own(file, values) if own else values


def _llama(file: GgufMetadata, _: Mapping[str, Any]) -> dict[str, Any]:
    own = {"attention_bias": file.has("blk.0.attn_q.bias"), "mlp_bias": file.has("blk.0.ffn_up.bias")}
    if not np.any(file.get("attention.sliding_window", 0)):
        return own
    window = file.size("attention.sliding_window")  # Mistral has the architecture "llama", too
    return {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": window}


def _phi3(file: GgufMetadata, values: Mapping[str, Any]) -> dict[str, Any]:
    rotated = file.size("rope.dimension_count", values["head_dim"])
    rope = values["rope_parameters"] | {"partial_rotary_factor": rotated / values["head_dim"]}
    window = file.get("attention.sliding_window", 0)
    original = "original_max_position_embeddings"
    return {
        "sliding_window": file.size("attention.sliding_window") if np.any(window) else None,
        original: rope.get(original, values["max_position_embeddings"]),
        "rope_parameters": rope,
    }


def _granite(file: GgufMetadata, values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "attention_bias": file.has("blk.0.attn_q.bias"),
        "attention_multiplier": file.number("attention.scale", values["head_dim"] ** -0.5),
        "embedding_multiplier": file.number("embedding_scale", 1.0),
        "residual_multiplier": file.number("residual_scale", 1.0),
        "logits_scaling": file.number("logit_scale", 1.0),
    }


def _gemma2(file: GgufMetadata, values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "query_pre_attn_scalar": file.scalar_of_queries(values),
        "sliding_window": file.size("attention.sliding_window", 4096),
        "layer_types": file.layer_types(values["num_hidden_layers"], 2),
        "attn_logit_softcapping": file.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": file.number("final_logit_softcapping", 30.0),
    }


def _gemma3(file: GgufMetadata, values: Mapping[str, Any]) -> dict[str, Any]:
    near = {"rope_type": "default", "rope_theta": file.number("rope.freq_base_swa", 10000.0)}
    softcap = file.one("final_logit_softcapping")
    return {
        "query_pre_attn_scalar": file.scalar_of_queries(values),
        "sliding_window": file.size("attention.sliding_window"),
        "layer_types": file.layer_types(values["num_hidden_layers"], 6),
        "final_logit_softcapping": file.number("final_logit_softcapping") if softcap else None,
        "rope_parameters": {"full_attention": values["rope_parameters"], "sliding_attention": near},
    }


_OWN: dict[str, Callable[[GgufMetadata, Mapping[str, Any]], dict[str, Any]]] = {
    "llama": _llama, "phi3": _phi3, "granite": _granite, "gemma2": _gemma2, "gemma3": _gemma3,
}  # fmt: skip
