"""One model of a bundle: where its graph and tokenizer are, what they expect, and how a manifest says so."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from omnidraft.runtime.bundle.head import MAX_BLOCKS, HeadShape
from omnidraft.runtime.bundle.places import Place, read_places
from omnidraft.runtime.bundle.train_step_entry import StepEntry, check_layout, read_step
from omnidraft.runtime.disk.json_fields import listed as _list
from omnidraft.runtime.disk.json_fields import text as _str
from omnidraft.runtime.disk.json_fields import whole as _int
from omnidraft.runtime.models.adapter import LoraSites, Site
from omnidraft.runtime.models.ort_model import KvShape

Layout = Literal["shared", "concat"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)


@dataclass(frozen=True)
class ModelEntry:
    """One model of a bundle: where its graph and tokenizer are, and what they expect.

    Attributes:
        places: where its static graphs may run, by name; empty where it has none.
        place: the one that was chosen (see `placement`); None is the dynamic graph.
        fingerprint: of the checkpoint's weights; None in a bundle that does not say.
        lora: where adapters enter the graph; None where they cannot.
        head: the adaptive head that the graph takes; None where it takes none.
        train: its training step; None where it has none.
        layout: whether keys and values stay in shared buffers, or a pass returns them with the past before.
    """

    source: str
    architecture: str
    graph: str
    tokenizer: str
    kv: KvShape
    vocab_size: int
    quantization: str
    bos_id: int | None
    eos_ids: tuple[int, ...]
    parameters: int
    places: Mapping[str, Place] = field(default_factory=dict)
    place: Place | None = None
    fingerprint: str | None = None
    lora: LoraSites | None = None
    head: HeadShape | None = None
    layout: Layout = "shared"
    train: StepEntry | None = None

    def reads(self, name: str) -> bool:
        """Whether a file of the bundle holds a graph or weights that this model runs on."""
        if self.place is not None:
            return name in self.place.files
        return name.startswith(self.graph)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV buffers at their full length; two sets take turns in layout `concat`."""
        return self.kv.bytes * (2 if self.layout == "concat" else 1)


def read_entry(data: dict[str, Any]) -> ModelEntry:
    """A model's part of a manifest.

    Raises:
        KeyError: a field is missing. TypeError, ValueError: one is not what it must be.
    """
    kv = {
        name: _int(data["kv"][name], 1) for name in ("num_layers", "num_kv_heads", "head_dim", "max_length")
    }
    places = read_places(data["npu"]) if "npu" in data else {}
    if data.get("lora") is None and any(place.form.lora_rank is not None for place in places.values()):
        raise ValueError("static graphs for adapters, and no lora that says where they enter")
    return ModelEntry(
        source=_str(data["source"]),
        architecture=_str(data["architecture"]),
        graph=_str(data["graph"]),
        tokenizer=_str(data["tokenizer"]),
        kv=KvShape(**kv),
        vocab_size=_int(data["vocab_size"], 1),
        quantization=_str(data["quantization"]),
        bos_id=None if data["bos_id"] is None else _int(data["bos_id"], 0),
        eos_ids=tuple(_int(i, 0) for i in _list(data["eos_ids"])),
        parameters=_int(data["parameters"], 0, 1 << 53),
        places=places,
        fingerprint=None if data.get("fingerprint") is None else _sha256(data["fingerprint"]),
        lora=None if data.get("lora") is None else _lora(data["lora"]),
        head=None if data.get("head") is None else _head(data["head"]),
        layout=_layout(data.get("layout", "shared")),
        train=_train(data),
    )


def _train(data: dict[str, Any]) -> StepEntry | None:
    if data.get("train") is None:
        return None
    found = read_step(_dict(data["train"]))
    if data.get("lora") is None or data.get("fingerprint") is None:
        raise ValueError("a training step, and no places or fingerprint for what it learns")
    check_layout(found, _lora(data["lora"]), None if data.get("head") is None else _head(data["head"]))
    return found


def _lora(data: dict[str, Any]) -> LoraSites:
    sites = {_str(name): _site(site) for name, site in _dict(data["sites"]).items()}
    if not sites:
        raise ValueError("LoRA without a site")
    return LoraSites(None if data["rank"] is None else _int(data["rank"], 1), sites)


def _head(data: dict[str, Any]) -> HeadShape:
    return HeadShape(_int(data["hidden"], 1), _int(data["blocks"], 1, MAX_BLOCKS))


def _site(data: dict[str, Any]) -> Site:
    parts = [_list(part) for part in _list(data["parts"])]
    if not parts or any(len(part) != 2 for part in parts):
        raise ValueError(f"parts {data['parts']!r:.80}")
    return Site(_int(data["inputs"], 1), tuple((_str(name), _int(width, 1)) for name, width in parts))


def _layout(value: object) -> Layout:
    if value not in LAYOUTS:
        raise ValueError(f"{value!r:.80} is no layout, which is one of {', '.join(LAYOUTS)}")
    return value


def _sha256(value: object) -> str:
    if not re.fullmatch("[0-9a-f]{64}", _str(value)):
        raise ValueError(f"{value!r:.80} is no SHA-256")
    return str(value)


def _dict(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.80} is no object")
    return value
