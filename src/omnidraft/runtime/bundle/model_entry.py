"""One model of a bundle, as the manifest describes it: its graph, its tokenizer and the shapes they need."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from omnidraft.runtime.bundle import bundle_limits as limits
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.bundle.places import Place, read_places
from omnidraft.runtime.bundle.train_step_entry import StepEntry, check_layout, read_step
from omnidraft.runtime.disk.json_fields import array, hexadecimal, integer, mapping, text

Layout = Literal["shared", "concat"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
KvType = Literal["float32", "float16"]
KV_TYPES: tuple[KvType, ...] = get_args(KvType)


@dataclass(frozen=True)
class KvShape:
    """The KV buffers of a graph: numbers [1, num_kv_heads, max_length, head_dim], two in each layer."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    max_length: int
    type: KvType = "float32"  # of a number

    @property
    def bytes(self) -> int:
        """Bytes of all buffers."""
        size = 2 if self.type == "float16" else 4
        return 2 * size * self.num_layers * self.num_kv_heads * self.head_dim * self.max_length

    def of_place(self, place: Place) -> "KvShape":
        """The buffers of static graphs, which are always float32."""
        return replace(self, max_length=place.kv_length, type="float32")


@dataclass(frozen=True)
class ModelEntry:
    """One model of a bundle. The fields are those of spec/03-bundle.md; None where the manifest has none.

    Attributes:
        place: the chosen one (see `placement`); None is the dynamic graph.
        layout: `shared` keeps keys and values in shared buffers; with `concat` a pass returns past and new
            keys and values together.
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
    layout: Layout = "shared"
    train: StepEntry | None = None
    tokenizer_fingerprint: str = ""
    compiled_tokenizer: str | None = None

    @property
    def is_absent(self) -> bool:
        """Whether this stands for the drafter of a bundle that has none."""
        return not self.graph

    def reads(self, name: str) -> bool:
        """Whether a file of the bundle is a graph or weights of this model, where it runs."""
        if self.is_absent:
            return False
        if self.place is not None:
            return name in self.place.files
        return name.startswith(self.graph)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV buffers at their full length; two sets take turns in layout `concat`."""
        return self.kv.bytes * (2 if self.layout == "concat" else 1)


# In place of a drafter where a bundle has none: the 256 bytes as a vocabulary, without a graph.
# The vocabulary map spells the target's tokens with them, and no session asks for a draft.
NO_DRAFTER = ModelEntry(
    source="none",
    architecture="none",
    graph="",
    tokenizer="",
    kv=KvShape(1, 1, 1, 1),
    vocab_size=256,
    quantization="none",
    bos_id=None,
    eos_ids=(),
    parameters=0,
    tokenizer_fingerprint="0864c10eb9f122e7b9dfef5a287f4fb7c610b310847c0c41656e0656a9b0b03e",
)


def read_entry(data: dict[str, Any]) -> ModelEntry:
    """The part of a manifest for one model.

    Raises:
        KeyError, TypeError, ValueError: a field is missing, of another kind, or out of its range.
    """
    places = read_places(mapping(data["npu"])) if data.get("npu") is not None else {}
    lora = None if data.get("lora") is None else _lora(mapping(data["lora"]))
    if lora is None and any(place.form.lora_rank is not None for place in places.values()):
        raise ValueError("static graphs for adapters without the field lora")
    vocab_size = integer(data["vocab_size"], 1, limits.MAX_VOCABULARY)
    kv, layout = _kv(mapping(data["kv"])), _layout(data.get("layout", "shared"))
    if kv.type != "float32" and layout != "shared":
        raise ValueError(f"{kv.type} keys and values are for graphs of layout shared")
    return ModelEntry(
        source=text(data["source"], limits.MAX_SOURCE),
        architecture=text(data["architecture"], limits.MAX_SOURCE),
        graph=text(data["graph"], limits.MAX_PATH),
        tokenizer=text(data["tokenizer"], limits.MAX_PATH),
        kv=kv,
        vocab_size=vocab_size,
        quantization=text(data["quantization"], limits.MAX_NAME),
        bos_id=None if data["bos_id"] is None else integer(data["bos_id"], 0, vocab_size - 1),
        eos_ids=tuple(integer(i, 0, vocab_size - 1) for i in array(data["eos_ids"], limits.MAX_EOS)),
        parameters=integer(data["parameters"], 0, (1 << 53) - 1),
        places=places,
        fingerprint=None if data.get("fingerprint") is None else hexadecimal(data["fingerprint"], 64),
        lora=lora,
        layout=layout,
        train=_train(data, lora),
        tokenizer_fingerprint=hexadecimal(data["tokenizer_fingerprint"], 64),
        compiled_tokenizer=_path(data.get("compiled_tokenizer")),
    )


def _path(value: object) -> str | None:
    return None if value is None else text(value, limits.MAX_PATH)


def _kv(data: dict[str, Any]) -> KvShape:
    return KvShape(
        integer(data["num_layers"], 1, limits.MAX_LAYERS),
        integer(data["num_kv_heads"], 1, limits.MAX_LAYERS),
        integer(data["head_dim"], 1, limits.MAX_HEAD_DIM),
        integer(data["max_length"], 1, limits.MAX_LENGTH),
        _kv_type(data.get("type", "float32")),
    )


def _train(data: dict[str, Any], lora: LoraSites | None) -> StepEntry | None:
    if data.get("train") is None:
        return None
    step = read_step(mapping(data["train"]))
    if lora is None or data.get("fingerprint") is None:
        raise ValueError("a training step without the fields lora and fingerprint")
    check_layout(step, lora)
    return step


def _lora(data: dict[str, Any]) -> LoraSites:
    given = mapping(data["sites"], limits.MAX_SITES)
    sites = {text(name, limits.MAX_NAME): _site(mapping(site)) for name, site in given.items()}
    if not sites:
        raise ValueError("LoRA without a site")
    return LoraSites(None if data["rank"] is None else integer(data["rank"], 1, limits.MAX_RANK), sites)


def _site(data: dict[str, Any]) -> Site:
    parts = [array(part, 2, 2) for part in array(data["parts"], limits.MAX_PARTS, 1)]
    widths = tuple(
        (text(name, limits.MAX_NAME), integer(width, 1, limits.MAX_WIDTH)) for name, width in parts
    )
    return Site(integer(data["inputs"], 1, limits.MAX_WIDTH), widths)


def _layout(value: object) -> Layout:
    if value not in LAYOUTS:
        raise ValueError(f"{value!r:.80} is not a layout, which is one of {', '.join(LAYOUTS)}")
    return value


def _kv_type(value: object) -> KvType:
    if value not in KV_TYPES:
        raise ValueError(
            f"{value!r:.80} is not a type of keys and values, which is one of {', '.join(KV_TYPES)}"
        )
    return value
