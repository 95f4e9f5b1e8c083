"""Choose where the models of a bundle run: the dynamic graph on the CPU, or static graphs on a provider."""

from dataclasses import replace

from omnidraft.errors import SettingError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.bundle.places import Place, Provider

CPU_GRAPH = "cpu"
_GPUS = ("gpu", "cuda", "rocm", "metal", "mps", "vulkan", "directml", "dml")


def placed(bundle: Bundle, *, target_on: str = CPU_GRAPH, drafter_on: str = CPU_GRAPH) -> Bundle:
    """The bundle with a chosen place for each model.

    Args:
        target_on, drafter_on: "cpu" for the dynamic graph; "npu" for the static graphs on the CPU; or a
            provider that the bundle was exported for ("qnn", "qnn-fp16", "coreml", "nnapi"), with more
            options for it behind a colon: "qnn:soc_model=57".

    Raises:
        SettingError: the bundle has no such place, or an option is not NAME=VALUE.
    """
    return replace(
        bundle,
        target=_placed(bundle, "target", bundle.target, target_on),
        drafter=_placed(bundle, "drafter", bundle.drafter, drafter_on),
    )


def _placed(bundle: Bundle, role: str, entry: ModelEntry, where: str) -> ModelEntry:
    name, _, settings = where.partition(":")
    if name == CPU_GRAPH and not settings:
        return replace(entry, place=None)
    if name in _GPUS:
        raise SettingError(
            f"{where!r} is a GPU, and omnidraft runs on CPUs and NPUs",
            f"leave it out, or choose one of {', '.join([CPU_GRAPH, *entry.places])}",
        )
    if name not in entry.places:
        has = ", ".join([CPU_GRAPH, *entry.places])
        raise SettingError(
            f"the {role} of {bundle.path} has no graphs for {name!r}, it has {has}",
            "export again with --npu, or choose one of these",
        )
    place = entry.places[name]
    if settings:
        place = replace(place, provider=_with(place, settings))
    rank, lora = place.form.lora_rank, None
    if rank is not None and entry.lora is not None:  # else the static graphs take no adapters
        lora = replace(entry.lora, rank=rank)
    return replace(entry, place=place, kv=entry.kv.of_place(place), lora=lora)


def _with(place: Place, settings: str) -> Provider:
    more = {}
    for setting in settings.split(","):
        key, equals, value = setting.partition("=")
        if not (key and equals and value):
            raise SettingError(f"provider option {setting!r} is not NAME=VALUE", "soc_model=57 would be one")
        more[key] = value
    return replace(place.provider, options={**place.provider.options, **more})
