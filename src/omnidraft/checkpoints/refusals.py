"""The checks of a checkpoint before it is loaded; each refusal has the value and the remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnidraft.errors import CheckpointError, reason, shown
from omnidraft.runtime.disk.read_file import read_whole

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

SUPPORTED = (
    "LlamaForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "MistralForCausalLM",
    "Phi3ForCausalLM",
    "GraniteForCausalLM",
    "Olmo2ForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "GPTNeoXForCausalLM",
)
# Frequencies that do not depend on the length of the text, or not within `max_positions`.
ROPE_TYPES = ("default", "linear", "llama3", "yarn", "dynamic", "longrope")
HEAD_DIM_MULTIPLE = 16  # onnxruntime's rotary attention supports multiples of this
ROTATED_MULTIPLE = 16
MOST_JSON = 1 << 24  # bytes of a file of JSON; an index of 90,000 tensors has 9 MB

WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


def refuse_adapter(directory: Path, name: str) -> None:
    """Refuse a directory of a LoRA adapter, which holds no model."""
    config = optional_json(directory / "adapter_config.json", name)
    if config:
        base = config.get("base_model_name_or_path")
        model = shown(f"{base}") if isinstance(base, str) and base else "the model that it was trained on"
        raise CheckpointError(
            f"{name} is a LoRA adapter of {model}, and holds no model",
            "export that model with lora_target, and `omnidraft adapter convert` makes the adapter fit it",
        )


def check_architecture(raw: Mapping[str, Any], name: str) -> str:
    """The architecture that config.json names."""
    listed = raw.get("architectures")
    architecture = (
        str(listed[0]) if isinstance(listed, list) and listed else "a model without an architecture"
    )
    if raw.get("is_encoder_decoder"):
        raise CheckpointError(
            f"{name} is {architecture}, an encoder-decoder", f"use a decoder, one of {', '.join(SUPPORTED)}"
        )
    if architecture not in SUPPORTED:
        raise CheckpointError(
            f"{name} is {architecture}, which is not supported", f"use one of {', '.join(SUPPORTED)}"
        )
    if quantized := raw.get("quantization_config"):
        known = isinstance(quantized, dict)
        method = str(quantized.get("quant_method", "unknown method") if known else quantized)[:80]
        raise CheckpointError(
            f"{name} is already quantised ({method})", "give the original checkpoint, which export quantises"
        )
    return architecture


def check_attention(config: PreTrainedConfig, name: str) -> None:
    """Check head sizes, rotary embeddings and the direction of attention."""
    if head_dim(config) % HEAD_DIM_MULTIPLE:
        raise CheckpointError(
            f"{name} has heads of {head_dim(config)} values and onnxruntime takes "
            f"multiples of {HEAD_DIM_MULTIPLE}",
            "use another checkpoint",
        )
    for rope in ropes(config):
        rope_type = rope.get("rope_type", "default")
        if rope_type not in ROPE_TYPES:
            raise CheckpointError(
                f"{name} scales its positions by {rope_type}, which is not supported",
                f"use a checkpoint with one of {', '.join(ROPE_TYPES)}",
            )
        rotated = head_dim(config) * rope.get("partial_rotary_factor", 1.0)
        if rotated % ROTATED_MULTIPLE:
            raise CheckpointError(
                f"{name} rotates {rotated:g} of the {head_dim(config)} values of each "
                f"head and onnxruntime takes multiples of {ROTATED_MULTIPLE}",
                "use another checkpoint",
            )
    if getattr(config, "use_bidirectional_attention", False):
        raise CheckpointError(
            f"{name} lets tokens see later ones (use_bidirectional_attention), so it does not write text",
            "use a decoder",
        )


def ropes(config: PreTrainedConfig) -> list[dict[str, Any]]:
    """The settings of the rotary embedding, for each kind of layer."""
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [each for each in rope.values() if isinstance(each, dict)]
    return kinds or [rope]


def max_positions(config: PreTrainedConfig) -> int:
    """Positions that the model supports; with longrope only those that have the short factors."""
    most = int(config.max_position_embeddings)
    for rope in ropes(config):
        if rope.get("rope_type") == "longrope":
            most = min(most, int(rope.get("original_max_position_embeddings") or most))
    return most


def check_weights(directory: Path, name: str) -> None:
    """Check that the weight files exist and are complete."""
    if not any((directory / file).is_file() for file in WEIGHTS):
        raise CheckpointError(f"{name} has no weights", f"it needs one of {', '.join(WEIGHTS)}")
    index = directory / "model.safetensors.index.json"
    weight_map = optional_json(index, name).get("weight_map", {})
    if not isinstance(weight_map, dict):
        raise CheckpointError(f"{name}: weight_map of {index.name} is no object", "download it again")
    shards = set(map(str, weight_map.values()))
    for shard in sorted(shards):
        if not (directory / shard).is_file():
            raise CheckpointError(
                f"{name} lacks {shard}, one of its {len(shards)} weight files", "download it again"
            )
    for file in sorted(directory.glob("*.safetensors")):
        _check_safetensors(file)


def stored_types(directory: Path) -> set[str]:
    """The types of the tensors in a directory's safetensors files, such as "BF16"."""
    from safetensors import safe_open

    types = set()
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, framework="numpy") as file:
            types |= {file.get_slice(key).get_dtype() for key in file.keys()}  # noqa: SIM118, not a mapping
    return types


def weight_bytes(directory: Path) -> int:
    """Bytes of the weights in a checkpoint's directory; those of safetensors where it has other files too."""
    for pattern in ("*.safetensors", "pytorch_model*.bin"):
        if sizes := [path.stat().st_size for path in directory.glob(pattern)]:
            return sum(sizes)
    return 0


def _check_safetensors(file: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy"):
            pass  # opening reads the header and compares it with the length of the file
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{file} is not a whole safetensors file ({file.stat().st_size} bytes: {reason(error)})",
            "download it again",
        ) from error


def special_ids(value: Any, role: str, vocab_size: int, name: str) -> tuple[int, ...]:
    """The ids that a configuration names for eos or bos; a negative one, which no token has, is left out."""
    ids = value if isinstance(value, list | tuple) else () if value is None else (value,)
    for each in ids:
        if type(each) is not int or each >= vocab_size:
            raise CheckpointError(
                f"{name}: {role}_token_id is {each!r:.80}, which is no id of its {vocab_size} tokens",
                "correct it in generation_config.json and config.json",
            )
    return tuple(each for each in ids if each >= 0)


def optional_json(path: Path, name: str) -> dict[str, Any]:
    """The JSON object in a file; empty if there is none. A file above `MOST_JSON` bytes is refused."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(read_whole(path, MOST_JSON))
    except OSError as error:
        raise CheckpointError(
            f"{name}: {path.name} cannot be read ({reason(error)})", "download it again"
        ) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{name}: {path.name} is not JSON ({reason(error)})", "download it again"
        ) from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{name}: {path.name} is not a JSON object", "download it again")
    return value


def head_dim(config: PreTrainedConfig) -> int:
    """Values of one attention head."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
