"""A Hugging Face checkpoint, read and checked before any heavy work.

Checkpoints that cannot be exported exactly are refused here, by name and with a remedy. This module does not
know ONNX.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnidraft.checkpoints.gguf.find import find_gguf
from omnidraft.checkpoints.gguf.gguf_file import GgufFile
from omnidraft.checkpoints.refusals import (
    check_architecture,
    check_attention,
    check_weights,
    head_dim,
    max_positions,
    optional_json,
    refuse_adapter,
    special_ids,
    stored_types,
)
from omnidraft.errors import CheckpointError, reason

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

    from omnidraft.checkpoints.gguf.weights import PackedWeight

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
_EXACT_ATTENTION = {"Gemma2ForCausalLM": "eager"}  # torch's fused attention ignores the soft cap
_TORCH = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
_FOREIGN = {
    ".ggml": "llama.cpp", ".litertlm": "LiteRT-LM", ".task": "MediaPipe",
    ".tflite": "LiteRT", ".mlpackage": "Core ML", ".mlmodelc": "Core ML",
}  # fmt: skip
_DESCRIPTION = ["*.json", "tokenizer.model"]


@dataclass(frozen=True)
class Shape:
    """The sizes and special ids of a decoder."""

    vocab_size: int  # width of the logits
    num_layers: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    max_positions: int  # positions that the model supports
    # eos_ids, bos_id, pad_id: special ids; empty or None where the configuration names none
    eos_ids: tuple[int, ...]
    bos_id: int | None
    pad_id: int | None


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that can be exported."""

    name: str  # what the user gave
    directory: Path  # holds the files
    config: PreTrainedConfig  # transformers' configuration
    architecture: str  # the class of the model
    shape: Shape  # sizes and special ids
    gguf: GgufFile | None = None  # the file that holds the weights, if it is a GGUF file


def check_name(name: str) -> None:
    """Refuse what is no checkpoint by its path and its config.json alone, before anything else is read."""
    if find_gguf(name) is None and (directory := _local(name)) is not None:
        check_architecture(_read_json(directory / "config.json", name), name)


def read_checkpoint(name: str) -> Checkpoint:
    """Read the checkpoint in the directory or GGUF file `name`, or of the hub; weights are not loaded."""
    file = find_gguf(name)
    gguf = None if file is None else GgufFile(name, file)
    directory = (_local(name) or _download(name, _DESCRIPTION)) if gguf is None else gguf.directory
    raw = _read_json(directory / "config.json", name)
    architecture = check_architecture(raw, name)
    config = _config(directory, name)
    check_attention(config, name)
    if directory == Path(name).expanduser():  # the weights of a hub checkpoint are downloaded by load_model
        check_weights(directory, name)
    if not (directory / "tokenizer.json").is_file():
        raise CheckpointError(
            f"{name} has no tokenizer.json",
            "load its tokenizer with transformers' AutoTokenizer and save it there with save_pretrained",
        )
    shape = _shape(config, optional_json(directory / "generation_config.json", name), name)
    return Checkpoint(name, directory, config, architecture, shape, gguf)


def load_model(checkpoint: Checkpoint) -> PreTrainedModel:
    """Load the model for inference, in float32."""
    import torch

    return _load(checkpoint, torch.float32)


def load_stored(checkpoint: Checkpoint) -> PreTrainedModel:
    """As `load_model`, in the type of the files: safetensors are then mapped into memory, not read.

    Files of several types are loaded as float32.
    """
    import torch

    if checkpoint.gguf is not None:
        return _load(checkpoint, torch.float32)
    directory = _weights(checkpoint)
    kinds = {_TORCH.get(kind) for kind in stored_types(directory)}
    kind = kinds.pop() if len(kinds) == 1 else None
    return _load(checkpoint, getattr(torch, kind or "float32"))


def _weights(checkpoint: Checkpoint) -> Path:
    """The directory that holds the weights; those of a hub checkpoint are downloaded first."""
    name = checkpoint.name
    if checkpoint.directory == Path(name).expanduser():
        return checkpoint.directory
    directory = _download(name, ["*.json", "*.safetensors"])
    check_weights(directory, name)
    return directory


def _load(checkpoint: Checkpoint, dtype: Any) -> PreTrainedModel:
    from transformers import AutoModelForCausalLM

    attention = _EXACT_ATTENTION.get(checkpoint.architecture, "sdpa")
    if checkpoint.gguf is not None:
        return checkpoint.gguf.load(dtype, attention)
    name, directory = checkpoint.name, _weights(checkpoint)
    config = copy.deepcopy(checkpoint.config)
    config.use_cache = True
    try:
        with quiet():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                directory,
                config=config,
                dtype=dtype,
                attn_implementation=attention,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # mismatches are refused below, with the sizes
            )
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{name} does not load ({reason(error)})", "download it again") from error
    model: PreTrainedModel = loaded[0]
    if mismatched := sorted(loaded[1]["mismatched_keys"]):
        key, stored, configured = mismatched[0]
        raise CheckpointError(
            f"{name} stores {key} as {tuple(stored)} and its config.json means {tuple(configured)}",
            "download it again",
        )
    if missing := sorted(loaded[1]["missing_keys"]):
        raise CheckpointError(
            f"{name} lacks {len(missing)} of the weights of {checkpoint.architecture}, {missing[0]} first",
            "download it again",
        )
    return model  # from_pretrained leaves it in evaluation mode


def stored_parameters(checkpoint: Checkpoint) -> Mapping[str, Tensor | PackedWeight]:
    """Every weight by its name, a tied LM head too, in the type of the files; mapped where possible."""
    if checkpoint.gguf is not None:
        return checkpoint.gguf.weights
    return dict(load_stored(checkpoint).named_parameters(remove_duplicate=False))


def _local(name: str) -> Path | None:
    """The directory that `name` is; None for an id of the hub."""
    path = Path(name).expanduser()
    if kind := _FOREIGN.get(path.suffix.lower()):
        raise CheckpointError(
            f"{name} is a model for {kind}, which cannot be exported",
            "give the Hugging Face checkpoint that it was made from",
        )
    if (path / "manifest.json").is_file() and not (path / "config.json").is_file():
        raise CheckpointError(
            f"{name} is a bundle, which was exported already", "give the checkpoint that it was made from"
        )
    if path.is_dir():
        return path
    if path.exists():
        raise CheckpointError(f"{name} is a file", "give the directory that holds config.json")
    local = name.startswith((".", "/", "~")) or path.is_absolute() or not _HUB_ID.fullmatch(name)
    if local or (path.parent != Path() and path.parent.is_dir()):
        raise CheckpointError(f"there is no directory {name}", "check the path")
    return None


def _download(name: str, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        with quiet():
            return Path(snapshot_download(name, allow_patterns=patterns))
    except (LocalEntryNotFoundError, ConnectionError) as error:
        raise CheckpointError(
            f"{name} is no directory here, and the Hugging Face hub cannot be reached",
            "check the path, or the connection (HF_HUB_OFFLINE forbids it)",
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"{name} is neither a directory here nor a model that the Hugging Face hub provides",
            "check the name and, for a gated model, the login",
        ) from error


def _read_json(path: Path, name: str) -> dict[str, Any]:
    if not path.is_file():
        refuse_adapter(path.parent, name)
        raise CheckpointError(
            f"{name} has no {path.name}", "give a directory that save_pretrained wrote or a hub download"
        )
    return optional_json(path, name)


def _config(directory: Path, name: str) -> PreTrainedConfig:
    from transformers import AutoConfig

    try:
        with quiet():  # its warnings would come before our sentence, and the exporter checks the ids itself
            config: PreTrainedConfig = AutoConfig.from_pretrained(
                directory, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # transformers raises many kinds of exceptions for a wrong config.json
        raise CheckpointError(
            f"{name}: transformers refuses config.json ({reason(error)})", "download it again"
        ) from error
    return config


def _shape(config: PreTrainedConfig, generation: Mapping[str, Any], name: str) -> Shape:
    from optimum.utils import NormalizedConfigManager, NormalizedTextConfig

    try:
        normal = NormalizedConfigManager.get_normalized_config_class(config.model_type)(config)
    except KeyError:  # Gemma 2 and 3 are not registered, but their configurations have the usual names
        normal = NormalizedTextConfig(config)
    heads = normal.num_attention_heads

    def special(key: str) -> Any:
        value = generation.get(key)
        return getattr(config, key, None) if value is None else value

    width = normal.vocab_size
    eos, bos = (special_ids(special(f"{role}_token_id"), role, width, name) for role in ("eos", "bos"))
    return Shape(
        vocab_size=width,
        num_layers=normal.num_layers,
        num_kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=head_dim(config),
        hidden_size=normal.hidden_size,
        max_positions=max_positions(config),
        eos_ids=eos,
        bos_id=bos[0] if bos else None,
        pad_id=special("pad_token_id"),
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the progress bars and messages of transformers and of the hub."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )
    from transformers.utils import logging

    verbosity, bars, hub_bars = (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
        not are_progress_bars_disabled(),
    )
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    disable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        if hub_bars:
            enable_progress_bars()
