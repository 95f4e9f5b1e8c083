"""One model of a bundle, as the manifest describes it: its graph, its tokenizer and the shapes they need."""

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
    """One model of a bundle.

    Attributes:
        source: the checkpoint that the model was exported from.
        architecture: the class name of the checkpoint.
        graph, tokenizer: paths in the bundle.
        kv: shape of the KV buffers.
        vocab_size: width of the logits.
        quantization: of the weights.
        bos_id: put before a text; None for none.
        eos_ids: end an answer.
        parameters: number of weights.
        places: where the static graphs may run, by name; empty if there are none.
        place: the chosen one (see `placement`); None is the dynamic graph.
        fingerprint: of the weights of the checkpoint; None if the manifest has none.
        lora: where adapters enter the graph; None if they cannot.
        head: the adaptive head that the graph takes; None if it takes none.
        layout: `shared` keeps keys and values in shared buffers; with `concat` a pass returns past and new
            keys and values together.
        train: the training step; None if there is none.
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
        """Whether a file of the bundle is a graph or weights of this model, where it runs."""
        if self.place is not None:
            return name in self.place.files
        return name.startswith(self.graph)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV buffers at their full length; two sets take turns in layout `concat`."""
        return self.kv.bytes * (2 if self.layout == "concat" else 1)


def read_entry(data: dict[str, Any]) -> ModelEntry:
    """The part of a manifest for one model.

    Raises:
        KeyError, TypeError, ValueError: a field is missing, of another kind, or out of its range.
    """
    kv = {
        name: integer(data["kv"][name], 1)
        for name in ("num_layers", "num_kv_heads", "head_dim", "max_length")
    }
    places = read_places(data["npu"]) if "npu" in data else {}
    if data.get("lora") is None and any(place.form.lora_rank is not None for place in places.values()):
        raise ValueError("static graphs for adapters without the field lora")
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
    step = read_step(mapping(data["train"]))
    if data.get("lora") is None or data.get("fingerprint") is None:
        raise ValueError("a training step without the fields lora and fingerprint")
    check_layout(step, _lora(data["lora"]), None if data.get("head") is None else _head(data["head"]))
    return step


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
        raise ValueError(f"{value!r:.80} is not a layout, which is one of {', '.join(LAYOUTS)}")
    return value
