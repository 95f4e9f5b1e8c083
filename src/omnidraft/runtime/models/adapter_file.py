"""The file of an adapter, format version 1: safetensors with metadata. See spec/11-adapter.md.

Reading is total: every length and every field is checked before use, and each fault has a name. Equal
adapters are equal bytes, which the writer of safetensors does not guarantee.
"""

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft.errors import AdapterError, reason, refusing
from omnidraft.runtime.bundle.lora_sites import a_name, b_name
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.read_file import read_file, read_whole
from omnidraft.runtime.disk.tensor_file import LENGTH_BYTES, TensorFileError, read_header, read_tensors
from omnidraft.runtime.models.adapter import Adapter, Floats

FORMAT = "omnidraft.adapter"
VERSION = 1
MAX_HEADER_BYTES, MAX_FILE_BYTES = 1 << 22, 1 << 30
_LENGTH = struct.Struct("<Q")
_FINGERPRINT = re.compile("[0-9a-f]{64}")
_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_REMEDIES = {
    "unreadable": "check the path and its permissions",
    "not_an_adapter": "give a file that `omnidraft adapter convert` or training wrote",
    "version": "update omnidraft",
}


def encode_adapter(adapter: Adapter) -> bytes:
    """The bytes of an adapter's file."""
    header: dict[str, Any] = {"__metadata__": metadata_of(adapter)}
    data, end = [], 0
    for name, tensor in sorted(adapter.named.items()):
        data.append(tensor.astype("<f4").tobytes())
        start, end = end, end + len(data[-1])
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([_LENGTH.pack(len(text)), text, *data])


def metadata_of(adapter: Adapter) -> dict[str, str]:
    """The metadata of the file of an adapter."""
    return {
        "format": FORMAT,
        "version": str(VERSION),
        "base": adapter.base,
        "draft_tokenizer": adapter.draft_tokenizer,
        "target_tokenizer": adapter.target_tokenizer,
        "rank": str(adapter.rank),
        "alpha": "folded",
        "targets": ",".join(sorted({site.rpartition(".")[2] for site in adapter.tensors})),
        "created": adapter.created,
    }


def decode_adapter(data: bytes) -> Adapter:
    """The adapter in the bytes of a file.

    Raises:
        AdapterError: with the name of the fault.
    """
    try:
        metadata, entries, start = read_header(data, MAX_HEADER_BYTES)
        if metadata.get("format") != FORMAT:
            raise AdapterError(f"its metadata does not say that it is an {FORMAT}", fault="not_an_adapter")
        if (version := metadata.get("version")) != str(VERSION):
            raise AdapterError(
                f"it has version {version!s:.20} and this omnidraft reads version {VERSION}", fault="version"
            )
        tensors = read_tensors(data, entries, start)
    except TensorFileError as error:
        fault = "not_an_adapter" if error.fault == "header" else error.fault
        raise AdapterError(str(error), fault=fault) from None
    arrays: dict[str, Floats] = {}
    for name, tensor in tensors.items():
        if tensor.dtype != "F32":
            raise AdapterError(f"{name!r:.80} is {tensor.dtype}, not F32", fault="dtype")
        arrays[name] = np.frombuffer(tensor.data, "<f4").astype(np.float32).reshape(tensor.shape)
    return _adapter(metadata, _pairs(arrays))


def _pairs(arrays: dict[str, Floats]) -> dict[str, tuple[Floats, Floats]]:
    sites = {name.rpartition(".")[0] for name in arrays}
    pairs = {}
    for site in sorted(sites):
        names = (a_name(site), b_name(site))
        for name in names:
            if name not in arrays:
                raise AdapterError(f"it has no {name!r:.80}", fault="missing_tensor")
        pairs[site] = (arrays.pop(names[0]), arrays.pop(names[1]))
    if arrays:
        raise AdapterError(f"it has a tensor {min(arrays)!r:.80}, which no adapter has", fault="extra_tensor")
    return pairs


def _adapter(metadata: dict[str, Any], tensors: dict[str, tuple[Floats, Floats]]) -> Adapter:
    fields = {name: metadata.get(name) for name in ("base", "draft_tokenizer", "target_tokenizer", "created")}
    for name, value in fields.items():
        kind = _CREATED if name == "created" else _FINGERPRINT
        if not isinstance(value, str) or not kind.fullmatch(value):
            raise AdapterError(f"its {name} is {value!r:.80}", fault="metadata")
    texts = {name: str(value) for name, value in fields.items()}
    adapter = Adapter(**texts, tensors=tensors)
    for name, expected in metadata_of(adapter).items():
        if metadata.get(name) != expected:
            raise AdapterError(
                f"its {name} is {metadata.get(name)!r:.80} and its tensors give {expected!r}",
                fault="metadata",
            )
    return adapter


def read_adapter(path: str | Path) -> Adapter:
    """The adapter in a file.

    Raises:
        AdapterError: with the name of the fault, the path and the remedy.
    """
    try:
        return decode_adapter(_read(Path(path)))
    except AdapterError as error:
        remedy = _REMEDIES.get(error.fault, "restore a copy, or convert or train it again")
        raise AdapterError(f"{path} is refused: {error}", remedy, fault=error.fault) from None


def _read(path: Path) -> bytes:
    """The bytes of a file; a file that does not begin like safetensors is not read to its end."""
    with refusing(AdapterError, "it cannot be read", "", "unreadable"):
        if (head := read_file(path, LENGTH_BYTES + 1))[LENGTH_BYTES:] not in (b"{", b""):
            raise AdapterError("it is not a safetensors file", fault="not_an_adapter")
        return read_whole(path, MAX_FILE_BYTES) if len(head) > LENGTH_BYTES else head


def write_adapter(path: str | Path, adapter: Adapter) -> None:
    """Save an adapter; killed at any point, the file is the old or the new one, whole.

    Raises:
        AdapterError: `unwritable`.
    """
    try:
        write_atomically(Path(path), encode_adapter(adapter))
    except (OSError, ValueError) as error:
        raise AdapterError(
            f"the adapter cannot be written to {path} ({reason(error)})",
            "choose another place",
            fault="unwritable",
        ) from None
