"""A Hugging Face checkpoint, read and judged before anything heavy runs.

Whatever could not be exported exactly is refused here, by name and with a remedy. It does not know ONNX.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnidraft.errors import CheckpointError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

SUPPORTED = (
    "LlamaForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "MistralForCausalLM",
    "Phi3ForCausalLM",
    "GraniteForCausalLM",
    "Olmo2ForCausalLM",
)
ROPE_TYPES = ("default", "linear", "llama3")  # frequencies that do not depend on the length of the text
HEAD_DIM_MULTIPLE = 16  # what onnxruntime's rotary attention takes

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
_DESCRIPTION = ["*.json", "tokenizer.model"]
_WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


@dataclass(frozen=True)
class Shape:
    """The sizes and special ids of a decoder; `vocab_size` is the width of its logits."""

    vocab_size: int
    num_layers: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    max_positions: int
    eos_ids: tuple[int, ...]
    bos_id: int | None
    pad_id: int | None


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that can be exported: the name the user gave and the directory its files are in."""

    name: str
    directory: Path
    config: PreTrainedConfig
    architecture: str
    shape: Shape


def read_checkpoint(name: str) -> Checkpoint:
    """The checkpoint in directory `name` or of hub id `name`; CheckpointError if it cannot be exported."""
    directory = _directory(name)
    raw = _read_json(directory / "config.json", name)
    architecture = _check_architecture(raw, name)
    config = _config(directory, name)
    _check_attention(config, architecture, name)
    if directory == Path(name).expanduser():  # a hub checkpoint's weights come with load_model
        _check_weights(directory, name)
    if not (directory / "tokenizer.json").is_file():
        raise CheckpointError(
            f"{name} has no tokenizer.json; load its tokenizer with transformers' AutoTokenizer and save it"
            " there with save_pretrained"
        )
    shape = _shape(config, _optional_json(directory / "generation_config.json", name))
    return Checkpoint(name, directory, config, architecture, shape)


def load_model(checkpoint: Checkpoint) -> PreTrainedModel:
    """The checkpoint's model for inference, in float32; raises CheckpointError if its weights do not fit."""
    import torch
    from transformers import AutoModelForCausalLM

    name, directory = checkpoint.name, checkpoint.directory
    if directory != Path(name).expanduser():
        directory = _download(name, ["*.json", "*.safetensors"])
        _check_weights(directory, name)
    config = copy.deepcopy(checkpoint.config)
    config.use_cache = True
    if hasattr(config, "sliding_window"):
        config.sliding_window = None  # _shape keeps max_positions within the window, so it never acts
    try:
        with _no_progress_bars():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                directory,
                config=config,
                dtype=torch.float32,
                attn_implementation="sdpa",
                local_files_only=True,
                output_loading_info=True,
            )
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{name} does not load ({_line(error)}); download it again") from error
    model: PreTrainedModel = loaded[0]
    if missing := sorted(loaded[1]["missing_keys"]):
        raise CheckpointError(
            f"{name} lacks {len(missing)} of the weights of {checkpoint.architecture}, {missing[0]} first;"
            " download it again"
        )
    return model  # from_pretrained leaves it in evaluation mode


def _directory(name: str) -> Path:
    """Where the description of `name` is: the directory itself, or the hub's cache."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise CheckpointError(f"{name} is a file; give the directory that holds config.json")
    local = name.startswith((".", "/", "~")) or path.is_absolute() or not _HUB_ID.fullmatch(name)
    if local or (path.parent != Path() and path.parent.is_dir()):
        raise CheckpointError(f"there is no directory {name}; check the path")
    return _download(name, _DESCRIPTION)


def _download(name: str, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download

    try:
        with _no_progress_bars():
            return Path(snapshot_download(name, allow_patterns=patterns))
    except (OSError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"{name} is neither a directory here nor a model the Hugging Face hub gives us"
            f" ({type(error).__name__}); check the name, the connection and, for a gated model, the login"
        ) from error


def _read_json(path: Path, name: str) -> dict[str, Any]:
    if not path.is_file():
        raise CheckpointError(
            f"{name} has no {path.name}; give a directory that save_pretrained wrote or a hub download"
        )
    return _optional_json(path, name)


def _optional_json(path: Path, name: str) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise CheckpointError(
            f"{name}: {path.name} is not JSON ({_line(error)}); download it again"
        ) from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{name}: {path.name} is not a JSON object; download it again")
    return value


def _check_architecture(raw: Mapping[str, Any], name: str) -> str:
    listed = raw.get("architectures")
    architecture = str(listed[0]) if isinstance(listed, list) and listed else "no architecture"
    if raw.get("is_encoder_decoder"):
        raise CheckpointError(
            f"{name} is {architecture}, an encoder-decoder; use a decoder, one of {', '.join(SUPPORTED)}"
        )
    if architecture not in SUPPORTED:
        raise CheckpointError(
            f"{name} is {architecture}, which is not supported; use one of {', '.join(SUPPORTED)}"
        )
    if raw.get("quantization_config"):
        method = raw["quantization_config"].get("quant_method", "unknown method")
        raise CheckpointError(
            f"{name} is already quantised ({method}); give the original checkpoint, export quantises it"
        )
    return architecture


def _config(directory: Path, name: str) -> PreTrainedConfig:
    from transformers import AutoConfig

    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(directory, local_files_only=True)
    except Exception as error:  # a config.json can be wrong in as many ways as transformers has checks
        raise CheckpointError(f"{name}: config.json is refused by transformers: {_line(error)}") from error
    return config


def _check_attention(config: PreTrainedConfig, architecture: str, name: str) -> None:
    rope = getattr(config, "rope_parameters", None) or {}
    rope_type = rope.get("rope_type", "default")
    if rope_type not in ROPE_TYPES:
        raise CheckpointError(
            f"{name} scales its positions by {rope_type}, which is not supported; use a checkpoint with one"
            f" of {', '.join(ROPE_TYPES)}"
        )
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise CheckpointError(
            f"{name} rotates only {rope['partial_rotary_factor']} of each head, which is not supported;"
            " use a checkpoint that rotates whole heads"
        )
    window = getattr(config, "sliding_window", None)
    if window is not None and window < config.max_position_embeddings and architecture != "Phi3ForCausalLM":
        raise CheckpointError(
            f"{name} attends through a sliding window of {window} positions, which is not supported for"
            f" {architecture}; use a version of the model without one"
        )
    if (head_dim := _head_dim(config)) % HEAD_DIM_MULTIPLE:
        raise CheckpointError(
            f"{name} has heads of {head_dim} values and onnxruntime takes multiples of {HEAD_DIM_MULTIPLE};"
            " use another checkpoint"
        )


def _check_weights(directory: Path, name: str) -> None:
    if not any((directory / file).is_file() for file in _WEIGHTS):
        raise CheckpointError(f"{name} has no weights; it needs one of {', '.join(_WEIGHTS)}")
    index = directory / "model.safetensors.index.json"
    shards = set(_optional_json(index, name).get("weight_map", {}).values())
    for shard in sorted(shards):
        if not (directory / shard).is_file():
            raise CheckpointError(
                f"{name} lacks {shard}, one of its {len(shards)} weight files; download it again"
            )
    for file in sorted(directory.glob("*.safetensors")):
        _check_safetensors(file)


def _check_safetensors(file: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(
            file, framework="numpy"
        ):  # reads the header and compares it with the length of the file
            pass
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{file} is not a whole safetensors file ({file.stat().st_size} bytes: {_line(error)});"
            " download it again"
        ) from error


def _shape(config: PreTrainedConfig, generation: Mapping[str, Any]) -> Shape:
    from optimum.utils import NormalizedConfigManager

    normal = NormalizedConfigManager.get_normalized_config_class(config.model_type)(config)
    heads = normal.num_attention_heads

    def special(key: str) -> Any:
        value = generation.get(key)
        return getattr(config, key, None) if value is None else value

    eos, bos, pad = (special(f"{role}_token_id") for role in ("eos", "bos", "pad"))
    window = getattr(config, "sliding_window", None)
    return Shape(
        vocab_size=normal.vocab_size,
        num_layers=normal.num_layers,
        num_kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=_head_dim(config),
        hidden_size=normal.hidden_size,
        max_positions=min(config.max_position_embeddings, window or config.max_position_embeddings),
        eos_ids=tuple(eos) if isinstance(eos, list | tuple) else () if eos is None else (int(eos),),
        bos_id=bos,
        pad_id=pad,
    )


def _head_dim(config: PreTrainedConfig) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Keeps the bars of transformers and of the hub away from the command line's own."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )
    from transformers.utils import logging

    bars, hub_bars = logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    disable_progress_bars()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        if hub_bars:
            enable_progress_bars()


def _line(error: BaseException) -> str:
    """The first line of a message that goes inside one of our sentences."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(". ")
