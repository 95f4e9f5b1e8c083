"""The file pack.json: which files of a bundle were left out for a device; spec/16-archive.md, "The index"."""

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnidraft.runtime.disk.json_fields import array, hexadecimal, integer, mapping, text
from omnidraft.runtime.disk.strict_json import parse

INDEX = "pack.json"
FORMAT, VERSION = "omnidraft.pack", 1
DEVICES = ("desktop", "android-cpu", "android-qnn", "ios-cpu")
WITH, WITHOUT, ONLY = "with", "without", "only"
MAX_BYTES = 1 << 20
MAX_LEFT_OUT, MAX_PATH = 1024, 512


class PackIndexError(ValueError):
    """An index that is refused.

    Attributes:
        fault: `index` or `version`.
    """

    def __init__(self, message: str, fault: str = "index") -> None:
        super().__init__(message)
        self.fault = fault


@dataclass(frozen=True)
class PackIndex:
    """What a packed bundle holds.

    Attributes:
        manifest: SHA-256 of the bytes of manifest.json.
        device: that the bundle was packed for, one of `DEVICES`.
        drafter: `with` the files of the drafter, `without` them, or them `only`.
        left_out: each listed file that the device does not need, with the devices that get it.
    """

    manifest: str
    device: str
    drafter: str = WITH
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def holds(self, name: str) -> bool:
        """Whether an archive with this index holds a file that the manifest lists."""
        if name in self.left_out:
            return False
        return self.drafter == WITH or name.startswith("drafter/") == (self.drafter == ONLY)


def read_index(data: bytes, manifest: str, files: Container[str]) -> PackIndex:
    """The index of a packed bundle.

    Raises:
        PackIndexError: it is not an index, is of another version, or belongs to another manifest.
    """
    if len(data) > MAX_BYTES:
        raise PackIndexError(f"it has more than {MAX_BYTES} bytes")
    try:
        fields = mapping(parse(data))
        if fields.get("format") != FORMAT:
            raise PackIndexError(f"it is not an {FORMAT} index")
        if integer(fields.get("version"), 0) != VERSION:
            raise PackIndexError(f"it has version {fields['version']} and not {VERSION}", "version")
        index = _index(fields)
    except PackIndexError:
        raise
    except KeyError as error:
        raise PackIndexError(f"it has no {error}") from None
    except ValueError as error:
        raise PackIndexError(str(error)) from None
    if index.manifest != manifest:
        raise PackIndexError("it belongs to another manifest")
    if unlisted := [name for name in index.left_out if name not in files]:
        raise PackIndexError(f"the manifest does not list {unlisted[0]!r:.80}")
    return index


def _index(fields: dict[str, Any]) -> PackIndex:
    left_out = {
        text(name, MAX_PATH): tuple(_one_of(each, DEVICES) for each in array(devices, len(DEVICES)))
        for name, devices in mapping(fields["left_out"], MAX_LEFT_OUT).items()
    }
    return PackIndex(
        manifest=hexadecimal(fields["manifest"], 64),
        device=_one_of(fields["device"], DEVICES),
        drafter=_one_of(fields["drafter"], (WITH, WITHOUT, ONLY)),
        left_out=left_out,
    )


def _one_of(value: object, names: tuple[str, ...]) -> str:
    if text(value) not in names:
        raise ValueError(f"{value!r:.80} is not one of {', '.join(names)}")
    return str(value)


def write_index(index: PackIndex) -> bytes:
    """The bytes of pack.json; the same index gives the same bytes."""
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "manifest": index.manifest,
        "device": index.device,
        "drafter": index.drafter,
        "left_out": {name: list(devices) for name, devices in index.left_out.items()},
    }
    return (json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
