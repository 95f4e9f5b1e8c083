"""The static graphs of a model in a manifest, and the providers that may run them; spec/03-bundle.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnidraft.runtime.bundle.lora_sites import MAX_RANK
from omnidraft.runtime.disk.json_fields import array, integer, mapping, number, text

CPU = "CPUExecutionProvider"
_MOST = (1 << 31) - 1


@dataclass(frozen=True)
class Provider:
    """An execution provider by onnxruntime's name, with its options."""

    name: str = CPU
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Form:
    """Static graphs of one number format.

    Attributes:
        graphs: paths by the number of tokens of a block; one graph is for single tokens.
        weights: the file that the graphs share.
        mask: added to the score of a hidden position.
        lora_rank: of adapters, for each part of a site; None if the graphs take none.
    """

    graphs: Mapping[int, str]
    weights: str
    mask: float
    lora_rank: int | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.graphs.values(), self.weights)


@dataclass(frozen=True)
class Place:
    """A form of static graphs, and the provider that runs them.

    Attributes:
        form: the graphs.
        host: the file of tables that the host reads.
        kv_length: positions of the past that the graphs take.
        provider: of onnxruntime.
    """

    form: Form
    host: str
    kv_length: int
    provider: Provider = field(default_factory=Provider)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of all files of this place."""
        return (*self.form.files, self.host)


def read_places(data: dict[str, Any]) -> dict[str, Place]:
    """The places in the field `npu` of a manifest, and the place "npu": the float graphs on the CPU.

    Raises:
        KeyError, TypeError, ValueError: a field is missing, of another kind, or out of its range.
    """
    host, kv_length = text(data["host"]), integer(data["kv_length"], 1, _MOST)
    forms = {name: _form(value, kv_length) for name, value in mapping(data["forms"]).items()}
    places = {"npu": Place(forms["float"], host, kv_length, Provider(CPU))}
    for name, value in mapping(data["providers"]).items():
        entry = mapping(value)
        options = {key: text(option) for key, option in mapping(entry["options"]).items()}
        form = text(entry["form"])
        places[name] = Place(forms[form], host, kv_length, Provider(text(entry["provider"]), options))
    return places


def _form(value: object, kv_length: int) -> Form:
    data = mapping(value)
    graphs = {
        integer(entry["block"], 1, kv_length): text(entry["graph"])
        for entry in map(mapping, array(data["graphs"]))
    }
    if 1 not in graphs:
        raise ValueError(f"static graphs for blocks of {sorted(graphs)} tokens and none for one")
    mask = number(data["mask"])
    if not -1e9 <= mask < 0:
        raise ValueError(f"mask {mask} is not between -1e9 and 0")
    lora_rank = integer(data["lora_rank"], 1, MAX_RANK) if "lora_rank" in data else None
    return Form(graphs, text(data["weights"]), mask, lora_rank)
