"""The metadata of a GGUF file: keys read with their limits, and compared with the tensors.

What would change the model and has no place in a config.json is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from omnidraft.checkpoints.gguf.header import GgufHeader
from omnidraft.errors import CheckpointError

# llama.cpp's name of the architecture: transformers' name, and the class of the model.
ARCHITECTURES = {
    "llama": ("llama", "LlamaForCausalLM"),
    "qwen2": ("qwen2", "Qwen2ForCausalLM"),
    "qwen3": ("qwen3", "Qwen3ForCausalLM"),
    "phi3": ("phi3", "Phi3ForCausalLM"),
    "granite": ("granite", "GraniteForCausalLM"),
    "olmo2": ("olmo2", "Olmo2ForCausalLM"),
    "gemma2": ("gemma2", "Gemma2ForCausalLM"),
    "gemma3": ("gemma3_text", "Gemma3ForCausalLM"),
}
ROPE_TENSORS = ("rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight")
# Keys that change the model, and the architectures that have them; elsewhere another value than 0 is refused.
_SPECIAL = {
    "attention.scale": ("granite",), "embedding_scale": ("granite",), "residual_scale": ("granite",),
    "logit_scale": ("granite",), "attention.sliding_window": ("llama", "phi3", "gemma2", "gemma3"),
    "attention.sliding_window_pattern": ("gemma2", "gemma3"), "rope.freq_base_swa": ("gemma3",),
    "attn_logit_softcapping": ("gemma2",), "final_logit_softcapping": ("gemma2", "gemma3"),
    "expert_count": (), "attention.clamp_kqv": (), "attention.max_alibi_bias": (), "swin_norm": (),
    "attention.temperature_scale": (), "attention.temperature_length": (), "attention.key_length_swa": (),
    "attention.shared_kv_layers": (), "attention.output_scale": (), "rope.scaling.alpha": (),
    "rope.scaling.yarn_log_multiplier": (), "nextn_predict_layers": (), "altup.num_inputs": (),
    "attention.kv_lora_rank": (), "rope.dimension_sections": (),
}  # fmt: skip
_LAYERS_27B = {"gemma2": 46, "gemma3": 62}  # these scale scores by the width of a head of the hidden state
_MOST = 1 << 24  # of any size: positions, rows, heads
_LAYER = re.compile(r"blk\.(\d+)\.")


class GgufMetadata:
    """The keys of one architecture, read with their limits."""

    def __init__(self, header: GgufHeader, name: str) -> None:
        self._values, self._tensors, self.name = header.values, header.tensors, name
        self.architecture = _architecture(header, name)
        self._factors = {
            key: self._read_factors(header, key) for key in ROPE_TENSORS if key in header.tensors
        }

    def config(self) -> dict[str, Any]:
        """The values of config.json that every architecture has."""
        self._refuse_special()
        model_type, class_name = ARCHITECTURES[self.architecture]
        layers, (vocab, hidden) = self._layers(), self._table()
        heads = self.size("attention.head_count")
        positions = self.size("context_length")
        values = {
            "architectures": [class_name],
            "model_type": model_type,
            "vocab_size": vocab,
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": self.size("attention.head_count_kv", heads),
            "intermediate_size": self.size("feed_forward_length"),
            "max_position_embeddings": positions,
            "rms_norm_eps": self.number("attention.layer_norm_rms_epsilon"),
            "head_dim": self._head_dim(hidden, heads),
            "tie_word_embeddings": "output.weight" not in self._tensors,
        }
        self._check_sizes(values)
        rope = {"rope_theta": self.number("rope.freq_base", 10000.0), **self._scaling(positions)}
        values["rope_parameters"] = rope
        for role, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding")):
            values[f"{role}_token_id"] = self.token_id(key, vocab)
        return values

    def size(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 1; a list of one number for all layers counts as that number."""
        value = self.get(key, default)
        if isinstance(value, np.ndarray) and len(value) and (value == value[0]).all():
            value = value[0].item()
        if type(value) is not int or not 1 <= value <= _MOST:
            raise self.wrong(key, value, f"a whole number from 1 to {_MOST}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number; the float32 of the file as the shortest decimal of that float32."""
        value = self.get(key, default)
        if type(value) not in (int, float) or not 0 < value < 1e30:
            raise self.wrong(key, value, "a positive number")
        return float(str(np.float32(value)))

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key of the architecture."""
        return self._values.get(f"{self.architecture}.{key}", default)

    def one(self, key: str, default: Any = None) -> Any:
        """The value of a key that is no array."""
        value = self.get(key, default)
        if isinstance(value, list | np.ndarray):
            raise self.wrong(key, value, "one value")
        return value

    def has(self, tensor: str) -> bool:
        """Whether the file has a tensor."""
        return tensor in self._tensors

    def token_id(self, role: str, vocab: int) -> int | None:
        """The id of a special token, if the file names one."""
        value = self._values.get(f"tokenizer.ggml.{role}_token_id")
        if value is not None and (type(value) is not int or not 0 <= value < vocab):
            raise self.wrong(f"tokenizer.ggml.{role}_token_id", value, f"an id from 0 to {vocab - 1}")
        return value

    def wrong(self, key: str, value: object, meant: str) -> CheckpointError:
        """The refusal of a value."""
        stated = f"states {key} as {value!r:.60}, and it must be {meant}"
        said = f"does not state {key}, {meant}" if value is None else stated
        return CheckpointError(f"{self.name} {said}", "convert it again with llama.cpp")

    def damaged(self, what: str) -> CheckpointError:
        """The refusal of a file that is not whole."""
        return CheckpointError(f"{self.name} {what}", "download it again")

    def layer_types(self, layers: int, period: int) -> list[str]:
        """Which layers attend through a window: the pattern of the file, or all but each `period`-th."""
        pattern = self.get("attention.sliding_window_pattern", period)
        if isinstance(pattern, np.ndarray):
            if len(pattern) != layers:
                raise self.wrong("attention.sliding_window_pattern", len(pattern), f"{layers} values")
            windows = [bool(each) for each in pattern]
        else:
            every = self.size("attention.sliding_window_pattern", period)
            windows = [(layer + 1) % every != 0 for layer in range(layers)]
        return ["sliding_attention" if window else "full_attention" for window in windows]

    def scalar_of_queries(self, values: Mapping[str, Any]) -> int:
        """The number whose inverse square root scales Gemma's scores, by llama.cpp's rule."""
        large = values["num_hidden_layers"] == _LAYERS_27B[self.architecture]
        return int(values["hidden_size"] // values["num_attention_heads"] if large else values["head_dim"])

    def _refuse_special(self) -> None:
        for key, architectures in _SPECIAL.items():
            value = self.get(key)
            if self.architecture not in architectures and value is not None and np.any(value):
                raise CheckpointError(
                    f"{self.name} is a {self.architecture} model with {key} {value!r:.60}, which is unknown",
                    "use another model",
                )

    def _layers(self) -> int:
        """The number of layers, which must be that of the tensors."""
        layers = self.size("block_count")
        found = {int(match[1]) for tensor in self._tensors if (match := _LAYER.match(tensor))}
        if len(found) != layers or found != set(range(layers)):  # a set of many layers is not made
            raise self.damaged(f"states {layers} layers and holds tensors of {len(found)}")
        return layers

    def _table(self) -> tuple[int, int]:
        """Rows and columns of the embedding."""
        entry = self._tensors.get("token_embd.weight")
        if entry is None or len(entry.shape) != 2:
            raise self.damaged("has no embedding (token_embd.weight)")
        if (hidden := self.size("embedding_length")) != entry.shape[1]:
            raise self.wrong("embedding_length", hidden, f"{entry.shape[1]}, the width of the embedding")
        return entry.shape[0], entry.shape[1]

    def _head_dim(self, hidden: int, heads: int) -> int:
        width = self.size("attention.key_length", self.size("rope.dimension_count", max(1, hidden // heads)))
        if self.architecture == "phi3":
            width = hidden // heads
        if (values := self.size("attention.value_length", width)) != width:
            raise self.wrong("attention.value_length", values, f"{width}, the width of the keys")
        rotated = self.size("rope.dimension_count", width)
        if rotated != width and self.architecture != "phi3":
            raise self.wrong("rope.dimension_count", rotated, f"{width}, the width of a head")
        for key, factors in self._factors.items():
            if 2 * len(factors) != rotated:
                raise self.damaged(f"holds {len(factors)} factors in {key} for {rotated} rotated dimensions")
        return width

    def _check_sizes(self, values: Mapping[str, Any]) -> None:
        """Compare the sizes with tensors, before memory is asked for."""
        for tensor, axis, size in (
            ("ffn_down", 1, values["intermediate_size"]),
            ("attn_output", 1, values["num_attention_heads"] * values["head_dim"]),
        ):
            entry = self._tensors.get(f"blk.0.{tensor}.weight")
            if entry is None or len(entry.shape) != 2 or entry.shape[axis] != size:
                held = "none" if entry is None else " x ".join(map(str, entry.shape))
                raise self.damaged(
                    f"holds blk.0.{tensor}.weight of {held}, and its sizes mean {size} columns"
                )
        heads, kv_heads = values["num_attention_heads"], values["num_key_value_heads"]
        if heads % kv_heads:
            raise self.wrong("attention.head_count_kv", kv_heads, f"a divisor of {heads}, the heads")

    def _scaling(self, positions: int) -> dict[str, Any]:
        """How positions are scaled, as transformers' `rope_parameters`."""
        kind = self.one("rope.scaling.type", "none")
        factor = self.one("rope.scaling.factor", self.one("rope.scale_linear"))
        if self._factors:
            return self._longrope(positions)
        if kind == "none" and (factor is None or factor in (0, 1)):
            return {"rope_type": "default"}
        if kind in ("none", "linear") and factor is not None:
            return {"rope_type": "linear", "factor": self.number("rope.scaling.factor", factor)}
        if kind == "yarn":
            return self._yarn()
        raise self.wrong("rope.scaling.type", kind, "none, linear or yarn, or longrope with its factors")

    def _yarn(self) -> dict[str, Any]:
        scaling = {
            "rope_type": "yarn",
            "factor": self.number("rope.scaling.factor"),
            "original_max_position_embeddings": self.size("rope.scaling.original_context_length"),
            "beta_fast": self.number("rope.scaling.yarn_beta_fast", 32.0),
            "beta_slow": self.number("rope.scaling.yarn_beta_slow", 1.0),
        }
        for factor in ("attn_factor", "yarn_attn_factor", "yarn_ext_factor"):
            key = f"rope.scaling.{factor}"
            if self.number(key, 1.0) != 1.0:
                raise self.wrong(key, self.get(key), "1")
        return scaling

    def _longrope(self, positions: int) -> dict[str, Any]:
        """Factors that the file states for every frequency; llama.cpp holds those of Llama 3 so, too."""
        both = self._factors.get("rope_freqs.weight")
        short, long = (self._factors.get(f"rope_factors_{kind}.weight", both) for kind in ("short", "long"))
        if short is None or long is None:
            raise self.damaged("holds only one of rope_factors_short and rope_factors_long")
        scaling: dict[str, Any] = {"rope_type": "longrope", "short_factor": short, "long_factor": long}
        if both is not None:  # the same factors at every length, and unscaled scores
            original, factor = positions, 1.0
            scaling["attention_factor"] = 1.0
        else:
            original = self.size("rope.scaling.original_context_length", positions)
            factor = positions / original
            if self.get("rope.scaling.attn_factor") is not None:
                scaling["attention_factor"] = self.number("rope.scaling.attn_factor")
        return scaling | {"factor": factor, "original_max_position_embeddings": original}

    def _read_factors(self, header: GgufHeader, key: str) -> list[float]:
        """The factors of the rotary frequencies in a tensor."""
        entry = header.tensors[key]
        if entry.kind != "F32" or len(entry.shape) != 1 or entry.shape[0] > 1024:
            raise self.damaged(f"holds {key} as {entry.kind} of {entry.shape}")
        values = header.data()[entry.offset : entry.offset + entry.size].view("<f4").tolist()
        if not all(math.isfinite(value) and value > 0 for value in values):
            raise self.damaged(f"holds factors in {key} that are not positive")
        return [float(value) for value in values]


def _architecture(header: GgufHeader, name: str) -> str:
    values = header.values
    kind = values.get("general.type", "model")
    if not isinstance(kind, str) or kind != "model":  # an array is compared value by value
        raise CheckpointError(f"{name} is a GGUF file of type {kind!r:.40}", "give the file of the model")
    parts = values.get("split.count", 0)
    if not isinstance(parts, int) or parts not in (0, 1):
        raise CheckpointError(
            f"{name} is one of {parts!r:.20} files of a model",
            "join them with `llama-gguf-split --merge FIRST WHOLE` and give WHOLE",
        )
    architecture = values.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"{name} is a GGUF file of the architecture {architecture!r:.40}, which is not supported",
            f"use one of {', '.join(ARCHITECTURES)}",
        )
    return architecture
