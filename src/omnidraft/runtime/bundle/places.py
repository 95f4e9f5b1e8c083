"""The static graphs of a model in a manifest, and the providers that may run them; spec/03-bundle.md."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnidraft.runtime.bundle import bundle_limits as limits
from omnidraft.runtime.disk.json_fields import array, integer, mapping, number, text

CPU = "CPUExecutionProvider"
_MOST = (1 << 31) - 1
NPU = "npu"  # the place of the float graphs on the CPU, which each bundle with static graphs has
_RESERVED = ("cpu", NPU)
_NAME = re.compile("[a-z0-9][a-z0-9-]{0,31}")
_VALUE = re.compile("[A-Za-z0-9_.+-]{1,64}")  # no value is a path


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
        host: the file of tables that the host reads.
        kv_length: positions of the past that the graphs take.
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
    places = {NPU: Place(forms["float"], host, kv_length, Provider(CPU))}
    for name, value in mapping(data["providers"]).items():
        if name in _RESERVED or not _NAME.fullmatch(name):
            raise ValueError(f"a place cannot be named {name!r:.80}")
        entry = mapping(value)
        places[name] = Place(forms[text(entry["form"])], host, kv_length, _provider(entry))
    return places


def _provider(entry: dict[str, Any]) -> Provider:
    """The provider of a place. No option that may be set names a file: a provider would load it as code."""
    name = text(entry["provider"])
    if name not in limits.PROVIDER_OPTIONS:
        raise ValueError(f"provider {name!r:.80} is not one of {', '.join(limits.PROVIDER_OPTIONS)}")
    options = {key: text(option) for key, option in mapping(entry["options"]).items()}
    for key, option in options.items():
        if key not in limits.PROVIDER_OPTIONS[name] or not _VALUE.fullmatch(option):
            raise ValueError(f"option {key!r:.80} of {name} cannot be set to {option!r:.80} by a bundle")
    unknown = set(map(text, array(entry.get("directories", [])))).difference(limits.PROVIDER_DIRECTORIES)
    if unknown:
        raise ValueError(f"{min(unknown)!r:.80} is not a directory that a device chooses")
    return Provider(name, options)


def _form(value: object, kv_length: int) -> Form:
    data = mapping(value)
    graphs = {
        integer(entry["block"], 1, kv_length): text(entry["graph"])
        for entry in map(mapping, array(data["graphs"]))
    }
    if 1 not in graphs:
        raise ValueError(f"static graphs for blocks of {sorted(graphs)} tokens and none for one")
    mask = number(data["mask"])
    if not limits.LEAST_MASK <= mask < 0:
        raise ValueError(f"mask {mask} is not between -1e9 and 0")
    lora_rank = integer(data["lora_rank"], 1, limits.MAX_RANK) if "lora_rank" in data else None
    return Form(graphs, text(data["weights"]), mask, lora_rank)
