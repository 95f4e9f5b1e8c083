"""One model of a bundle: where its graph and tokenizer are, what they expect, and how a manifest says so."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from omnidraft.runtime.bundle.head import MAX_BLOCKS, HeadShape
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.bundle.places import Place, read_places
from omnidraft.runtime.bundle.train_step_entry import StepEntry, check_layout, read_step
from omnidraft.runtime.disk.json_fields import array, hexadecimal, integer, mapping, text

Layout = Literal["shared", "concat"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)


@dataclass(frozen=True)
class KvShape:
    """The KV buffers of a graph: float32 [1, num_kv_heads, max_length, head_dim], two in each layer."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    max_length: int

    @property
    def bytes(self) -> int:
        """Bytes of all buffers."""
        return 8 * self.num_layers * self.num_kv_heads * self.head_dim * self.max_length


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
        name: integer(data["kv"][name], 1)
        for name in ("num_layers", "num_kv_heads", "head_dim", "max_length")
    }
    places = read_places(data["npu"]) if "npu" in data else {}
    if data.get("lora") is None and any(place.form.lora_rank is not None for place in places.values()):
        raise ValueError("static graphs for adapters, and no lora that says where they enter")
    return ModelEntry(
        source=text(data["source"]),
        architecture=text(data["architecture"]),
        graph=text(data["graph"]),
        tokenizer=text(data["tokenizer"]),
        kv=KvShape(**kv),
        vocab_size=integer(data["vocab_size"], 1),
        quantization=text(data["quantization"]),
        bos_id=None if data["bos_id"] is None else integer(data["bos_id"], 0),
        eos_ids=tuple(integer(i, 0) for i in array(data["eos_ids"])),
        parameters=integer(data["parameters"], 0, 1 << 53),
        places=places,
        fingerprint=None if data.get("fingerprint") is None else hexadecimal(data["fingerprint"], 64),
        lora=None if data.get("lora") is None else _lora(data["lora"]),
        head=None if data.get("head") is None else _head(data["head"]),
        layout=_layout(data.get("layout", "shared")),
        train=_train(data),
    )


def _train(data: dict[str, Any]) -> StepEntry | None:
    if data.get("train") is None:
        return None
    found = read_step(mapping(data["train"]))
    if data.get("lora") is None or data.get("fingerprint") is None:
        raise ValueError("a training step, and no places or fingerprint for what it learns")
    check_layout(found, _lora(data["lora"]), None if data.get("head") is None else _head(data["head"]))
    return found


def _lora(data: dict[str, Any]) -> LoraSites:
    sites = {text(name): _site(site) for name, site in mapping(data["sites"]).items()}
    if not sites:
        raise ValueError("LoRA without a site")
    return LoraSites(None if data["rank"] is None else integer(data["rank"], 1), sites)


def _head(data: dict[str, Any]) -> HeadShape:
    return HeadShape(integer(data["hidden"], 1), integer(data["blocks"], 1, MAX_BLOCKS))


def _site(data: dict[str, Any]) -> Site:
    parts = [array(part) for part in array(data["parts"])]
    if not parts or any(len(part) != 2 for part in parts):
        raise ValueError(f"parts {data['parts']!r:.80}")
    return Site(integer(data["inputs"], 1), tuple((text(name), integer(width, 1)) for name, width in parts))


def _layout(value: object) -> Layout:
    if value not in LAYOUTS:
        raise ValueError(f"{value!r:.80} is no layout, which is one of {', '.join(LAYOUTS)}")
    return value
