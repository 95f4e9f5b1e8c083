"""Convert a LoRA adapter that peft saved for one model of a bundle, without peft or torch.

q, k, v and gate, up are one product in our graphs: A = [Aq | Ak | Av], and B has the B of each part in the
rows of its rank and the columns of its output. Extensions that LoRA cannot express are refused by name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize

from omnidraft.errors import AdapterError, reason
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.models.adapter import Adapter, Floats
from omnidraft.runtime.models.adapter_file import MAX_FILE_BYTES

# peft's module names: the product that holds the module, and the part of the product (None: the whole).
MODULES: dict[str, tuple[str, str | None]] = {
    "self_attn.q_proj": ("qkv", "q"),
    "self_attn.k_proj": ("qkv", "k"),
    "self_attn.v_proj": ("qkv", "v"),
    "self_attn.qkv_proj": ("qkv", None),
    "self_attn.o_proj": ("o", None),
    "mlp.gate_proj": ("gate_up", "gate"),
    "mlp.up_proj": ("gate_up", "up"),
    "mlp.gate_up_proj": ("gate_up", None),
    "mlp.down_proj": ("down", None),
}
_KEY = re.compile(
    r"base_model\.model\.(?P<path>(?P<stack>.*?)layers\.(?P<layer>\d{1,6})\.(?P<module>[a-z_.]+))"
    r"\.lora_(?P<half>[AB])\.weight"
)
# A pattern of a rank or an alpha: a module's name. A regular expression of a download could run for ever.
_PATTERN = re.compile(r"\^?[A-Za-z0-9_.]+")
MOST_CONFIG = 1 << 22  # bytes of adapter_config.json, which may name every module
_REFUSED_KEYS = {  # parts of tensor names, and what such tensors are for
    "lora_magnitude_vector": "DoRA",
    "lora_embedding_": "LoRA of the embedding",
    "embed_tokens": "LoRA of the embedding",
    "lm_head": "LoRA of the LM head",
    "modules_to_save": "modules_to_save",
    "bias": "trained biases",
    "trainable_tokens": "trained tokens",
}
_REFUSED_FIELDS = (
    "use_dora", "modules_to_save", "lora_bias", "fan_in_fan_out", "layer_replication", "use_qalora",
    "use_bdlora", "alora_invocation_tokens", "target_parameters", "trainable_token_indices",
    "megatron_config", "arrow_config", "kasa_config", "velora_config", "monteclora_config",
)  # fmt: skip
_SAME_BASE = (
    True,
    False,
    "gaussian",
    "eva",
    "orthogonal",
)  # initialisations that do not change the weights of the base
_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True)
class PeftAdapter:
    """An adapter with peft's modules."""

    base: str  # peft's name of the model that it was trained on
    # by layer and module name, A [r, in] and B [out, r]; the scale is in B
    modules: Mapping[tuple[int, str], tuple[Floats, Floats]]


def read_peft(directory: Path) -> PeftAdapter:
    """Read a directory that peft's `save_pretrained` wrote.

    Raises:
        AdapterError: with the fault `unreadable`, `dtype`, `missing_tensor`, `rank`, or `unsupported` for an
            adapter that our graphs cannot add.
    """
    config = _config(directory)
    halves: dict[tuple[int, str], dict[str, Floats]] = {}
    paths: dict[tuple[int, str], str] = {}
    stacks: dict[str, str] = {}  # a path in each stack of layers, by what is before the layers
    for key, values in sorted(_tensors(directory).items()):
        match = _KEY.fullmatch(key)
        if match is None or match["module"] not in MODULES:
            raise _unsupported(directory, _meaning(key), "train one on the layers' projections")
        stacks.setdefault(match["stack"], match["path"])
        if len(stacks) > 1:  # such as a tower of vision beside the language model
            two = " and ".join(f"{path:.120}" for path in stacks.values())
            raise _unsupported(directory, f"LoRA of two stacks of layers ({two})", "train one on one stack")
        place = int(match["layer"]), match["module"]
        halves.setdefault(place, {})[match["half"]], paths[place] = values, match["path"]
    modules = {
        place: _scaled(directory, config, paths[place], pair) for place, pair in sorted(halves.items())
    }
    return PeftAdapter(str(config.get("base_model_name_or_path") or ""), modules)


def pack(source: PeftAdapter, lora: LoraSites) -> dict[str, tuple[Floats, Floats]]:
    """The tensors of our adapter for a model with the sites `lora`."""
    products: dict[str, dict[str | None, tuple[Floats, Floats]]] = {}
    for (layer, module), pair in source.modules.items():
        product, part = MODULES[module]
        products.setdefault(f"layers.{layer}.{product}", {})[part] = pair
    packed = {}
    for name, parts in products.items():
        if name not in lora.sites:
            raise AdapterError(
                f"it adapts {name}, which the bundle's model does not have", fault="extra_tensor"
            )
        packed[name] = _pack(name, lora.sites[name], parts)
    return packed


def convert(
    directory: Path, lora: LoraSites, base: str, tokenizers: tuple[str, str], created: str
) -> tuple[Adapter, str]:
    """Convert peft's adapter in `directory`.

    Args:
        created: the time, ISO 8601 in UTC.

    Returns:
        Our adapter, and peft's name of the model that it was trained on.
    """
    source = read_peft(directory)
    try:
        adapter = Adapter(base, *tokenizers, tensors=pack(source, lora), created=created)
        adapter.check_fits(lora)
    except AdapterError as error:
        if error.fault == "non_finite":
            raise AdapterError(
                f"{directory} is broken: {error}", "train it again", fault=error.fault
            ) from None
        raise AdapterError(
            f"{directory} does not fit the bundle: {error}",
            "give the bundle of the model that the adapter was trained on",
            fault=error.fault,
        ) from None
    return adapter, source.base


def _config(directory: Path) -> dict[str, Any]:
    path = directory / "adapter_config.json"
    try:
        config = json.loads(read_whole(path, MOST_CONFIG))
        if not isinstance(config, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise AdapterError(
            f"{path} cannot be read ({reason(error)})",
            "give a directory that peft's save_pretrained wrote",
            fault="unreadable",
        ) from None
    if config.get("peft_type") != "LORA":
        raise _unsupported(
            directory, f"an adapter of type {config.get('peft_type')!r}", "train one with LoRA"
        )
    for field in _REFUSED_FIELDS:
        if config.get(field):
            raise _unsupported(directory, f"{field} = {config[field]!r:.60}", f"train one without {field}")
    if config.get("bias", "none") != "none":
        raise _unsupported(directory, f"bias = {config['bias']!r}", 'train one with bias = "none"')
    if config.get("init_lora_weights", True) not in _SAME_BASE:
        raise _unsupported(
            directory,
            f"init_lora_weights = {config['init_lora_weights']!r}, which changed the weights of the base",
            "save it with path_initial_model_for_weight_conversion",
        )
    return config


def _unsupported(directory: Path, what: str, remedy: str) -> AdapterError:
    return AdapterError(f"{directory} uses {what}, which cannot be converted", remedy, fault="unsupported")


def _meaning(key: str) -> str:
    """What a tensor that cannot be converted is for."""
    for word, meaning in _REFUSED_KEYS.items():
        if word in key:
            return f"{meaning} ({key:.80})"
    return f"a tensor {key!r:.80}"


def _tensors(directory: Path) -> dict[str, Floats]:
    path = directory / "adapter_model.safetensors"
    if not path.is_file() and (directory / "adapter_model.bin").is_file():
        raise AdapterError(
            f"{directory} has only adapter_model.bin",
            "save it with safe_serialization=True",
            fault="unreadable",
        )
    try:
        entries: list[tuple[str, dict[str, Any]]] = deserialize(read_whole(path, MAX_FILE_BYTES))  # type: ignore[no-untyped-call]
    except (OSError, SafetensorError) as error:
        what = "cannot be read" if isinstance(error, OSError) else "is not a whole safetensors file"
        raise AdapterError(
            f"{path} {what} ({reason(error)})", "save or copy it again", fault="unreadable"
        ) from None
    if not entries:
        raise AdapterError(f"{path} has no tensors", "train the adapter before saving it", fault="unreadable")
    return {name: _floats(path, name, entry) for name, entry in entries}


def _floats(path: Path, name: str, entry: Mapping[str, Any]) -> Floats:
    """A tensor in float32; numpy has no bfloat16, which is the upper half of a float32."""
    dtype, data = entry["dtype"], entry["data"]
    if dtype not in _BYTES:
        raise AdapterError(f"{path} has {name:.80} as {dtype}", "save it as F32, F16 or BF16", fault="dtype")
    if dtype == "BF16":
        values = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        values = np.frombuffer(data, f"<f{_BYTES[dtype]}").astype(np.float32)
    shaped: Floats = values.reshape(entry["shape"])
    return shaped


def _scaled(
    directory: Path, config: Mapping[str, Any], path: str, halves: Mapping[str, Floats]
) -> tuple[Floats, Floats]:
    """A and B with the scale in B; peft's rank and alpha may differ from module to module."""
    for half in "AB":
        if half not in halves:
            raise AdapterError(
                f"{directory} has no lora_{half} of {path}", "save or copy it again", fault="missing_tensor"
            )
    a, b = halves["A"], halves["B"]
    rank, alpha = (_of(config, f"{key}_pattern", path, config.get(default)) for key, default in
                   (("rank", "r"), ("alpha", "lora_alpha")))  # fmt: skip
    numbers = all(isinstance(n, int | float) and not isinstance(n, bool) for n in (rank, alpha))
    if not numbers or not 0 < rank < 1 << 20 or not math.isfinite(alpha):
        raise AdapterError(
            f"{directory} gives {path} r = {rank!r} and lora_alpha = {alpha!r}",
            "save or copy it again",
            fault="rank",
        )
    if a.ndim != 2 or b.ndim != 2 or len(a) != rank or b.shape[1] != rank:
        raise AdapterError(
            f"{directory} gives {path} r = {rank} and stores {list(a.shape)} and {list(b.shape)}",
            "save or copy it again",
            fault="rank",
        )
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    with np.errstate(over="ignore"):  # Adapter.check_fits refuses infinite values by name
        return a, (b * np.float64(scale)).astype(np.float32)


def _of(config: Mapping[str, Any], pattern: str, path: str, default: Any) -> Any:
    """The value of the first name that a module's path ends with, or is (`^`), as in peft; or the default."""
    values = config.get(pattern)
    for key, value in values.items() if isinstance(values, dict) else ():
        if not _PATTERN.fullmatch(key):
            raise AdapterError(
                f"{pattern} holds {key!r:.60}, which is not the name of a module",
                f"name the modules in {pattern} without a regular expression",
                fault="unsupported",
            )
        if path == key.removeprefix("^") or path.endswith(f".{key}"):
            return value
    return default


def _pack(name: str, site: Site, parts: Mapping[str | None, tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """A [in, ranks] and B [ranks, out] of one product; B is block-diagonal over the adapted parts."""
    if None in parts:
        if len(parts) > 1:
            raise AdapterError(f"it adapts {name} as a whole and in parts", fault="extra_tensor")
        a, b = parts[None]
        return np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    lefts, rights, column = [], [], 0
    for part, width in site.parts:
        if part in parts:
            a, b = parts[part]
            if (a.shape[1], len(b)) != (site.inputs, width):
                raise AdapterError(
                    f"its {part} of {name} goes from {a.shape[1]} to {len(b)} values and the model's from "
                    f"{site.inputs} to {width}",
                    fault="shape",
                )
            lefts.append(a.T)
            rights.append(np.zeros((len(a), site.outputs), np.float32))
            rights[-1][:, column : column + width] = b.T
        column += width
    if len(lefts) < len(parts):
        raise AdapterError(f"it adapts a part of {name} that the model does not have", fault="extra_tensor")
    return np.ascontiguousarray(np.concatenate(lefts, axis=1)), np.concatenate(rights)
