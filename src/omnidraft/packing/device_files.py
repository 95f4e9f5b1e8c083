"""Which files of a bundle a device needs: docs/pack.md has the table."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from omnidraft.errors import BundleError, SettingError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.external_data import external_files
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.disk.read_file import read_file
from omnidraft.runtime.parts.pack_index import DEVICES, ONLY, WITH, WITHOUT

DESKTOP = "desktop"
# Static graphs of a device: the places of which it gets the first that a bundle has, and how to export them.
STATIC = {"android-qnn": (("qnn", "qnn-fp16"), "qnn")}


@dataclass(frozen=True)
class PackOptions:
    """What an archive is to hold."""

    device: str  # one of `DEVICES`
    drafter: str = WITH  # `with` the drafter, `without` it, or `only` the drafter
    learning: bool = True  # hold the training step, if the bundle has one

    def __post_init__(self) -> None:
        for setting, value, values in (
            ("device", self.device, DEVICES),
            ("drafter", self.drafter, (WITH, WITHOUT, ONLY)),
        ):
            if value not in values:
                option = "--for" if setting == "device" else "--drafter"
                raise SettingError(f"{option} {value!r:.80} is unknown", f"use {', '.join(values)}")


def device_files(bundle: Bundle, options: PackOptions) -> list[str]:
    """The files that a device needs, with or without those of the drafter, in the order of the manifest.

    Args:
        options: `drafter` is not looked at.
    """
    names = {bundle.vocab_map, *_tokenizers(bundle, options.device), *_cpu_graphs(bundle, options)}
    if options.device in STATIC:
        for entry in bundle.models:
            names |= {*entry.places[static_place(bundle, entry, options.device)].files}
    if options.device == DESKTOP and bundle.manifest["prompt"]["template"] is not None:
        names.add(bundle.manifest["prompt"]["template"])
    if options.learning and bundle.drafter.train is not None:
        step = bundle.drafter.train
        names |= set(_with_weights(bundle, step.graph, step.folder))
    return [name for name in bundle.manifest["files"] if name in names]


def left_out(bundle: Bundle, options: PackOptions) -> dict[str, tuple[str, ...]]:
    """The files that a device does not need, each with the devices that get it."""
    needed = set(device_files(bundle, options))
    others = {device: _files_or_none(bundle, device) for device in DEVICES}
    return {
        name: tuple(device for device, files in others.items() if name in files)
        for name in bundle.manifest["files"]
        if name not in needed
    }


def _files_or_none(bundle: Bundle, device: str) -> set[str]:
    """The files of a device; none where the bundle cannot be packed for it."""
    try:
        return set(device_files(bundle, PackOptions(device)))
    except BundleError:
        return set()


def _tokenizers(bundle: Bundle, device: str) -> Iterable[str]:
    """The compiled tokenizers; a desktop gets tokenizer.json where one could not be compiled."""
    for role, entry in zip(("target", "drafter"), bundle.models, strict=False):
        if entry.compiled_tokenizer is None and device != DESKTOP:
            raise BundleError(
                f"the {role}'s tokenizer is not compiled, and a phone runs no other",
                f"pack it with --for {DESKTOP}, or export a model whose tokenizer can be compiled",
                fault="left_out",
            )
        yield entry.compiled_tokenizer or entry.tokenizer


def _cpu_graphs(bundle: Bundle, options: PackOptions) -> Iterable[str]:
    """The CPU graphs: of both models, or of the drafter alone where the target is static."""
    for role, entry in zip(("target", "drafter"), bundle.models, strict=False):
        if entry.layout != "shared" and options.device != DESKTOP:
            raise BundleError(
                f"the {role} is a graph of Optimum, which a phone does not run",
                f"pack it with --for {DESKTOP}, or export a checkpoint",
                fault="left_out",
            )
        if role == "target" and options.device in STATIC:
            continue
        yield from _with_weights(bundle, entry.graph, str(PurePosixPath(entry.graph).parent))


def _with_weights(bundle: Bundle, graph: str, folder: str) -> Iterable[str]:
    """A graph, and the files that its weights are in."""
    yield graph
    file = bundle.file(graph)
    try:
        places = external_files(read_file(file))
    except (OSError, ValueError) as error:
        raise BundleError(f"{file} is refused: {error}", "do not use this bundle", fault="outside") from None
    for place in places:
        yield (PurePosixPath(folder) / place).as_posix()


def static_place(bundle: Bundle, entry: ModelEntry, device: str) -> str:
    """The place of the static graphs that a device gets."""
    places, option = STATIC[device]
    for name in places:
        if name in entry.places:
            return name
    raise BundleError(
        f"{bundle.path} has no static graphs for {device}",
        f"export it again with --npu {option}",
        fault="left_out",
    )


def on_device(bundle: Bundle, device: str) -> Bundle:
    """The bundle with the target where the device runs it, so that its memory can be computed."""
    if device not in STATIC:
        return bundle
    place = bundle.target.places[static_place(bundle, bundle.target, device)]
    kv = bundle.target.kv.of_place(place)
    return replace(bundle, target=replace(bundle.target, place=place, kv=kv))
