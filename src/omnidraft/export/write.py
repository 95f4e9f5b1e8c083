"""A graph on disk, whole or not at all, with large weights in a file beside it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from onnx import ModelProto, TensorProto

from omnidraft.errors import ExportError

EXTERNAL_ABOVE = 64 << 20  # bytes of graph; below it one file is the simpler thing to ship
_ALIGN = 4096  # onnxruntime maps a weight straight from the file when it starts on a page
_SMALL = 1024  # bytes; smaller constants stay in the graph, where shape inference can read them


def write_graph(model: ModelProto, path: Path, *, external_above: int = EXTERNAL_ABOVE) -> list[Path]:
    """Writes `model` to `path`, its weights to `{path}.data` when it has more than `external_above` bytes.

    Returns the files written. Each is written under a temporary name, synced and renamed, weights first, so a
    reader never meets half a file. Raises ExportError when the disk is full.
    """
    needed = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    data = path.with_name(path.name + ".data")
    try:
        if needed <= external_above:
            content = model.SerializeToString()
            needed = len(content)
            _write(path, lambda file: file.write(content))
            data.unlink(missing_ok=True)
            return [path]
        graph = _externalise(model, data.name)
        _write(data, lambda file: _write_weights(model, file))
        _write(path, lambda file: file.write(graph.SerializeToString()))
        return [path, data]
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ExportError(
            f"the disk is full: {path} needs {needed} bytes; free that much or choose another directory"
        ) from error


def _write(path: Path, write: Callable[[BinaryIO], object]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _is_large(tensor: TensorProto) -> bool:
    return len(tensor.raw_data) > _SMALL


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN


def _externalise(model: ModelProto, location: str) -> ModelProto:
    """The model with its large weights as references into `location`, in the order `_write_weights` keeps."""
    shell = ModelProto()
    for field, value in model.ListFields():
        if field.name != "graph":
            _assign(shell, field.name, value)
    for field, value in model.graph.ListFields():
        if field.name != "initializer":
            _assign(shell.graph, field.name, value)
    end = 0
    for tensor in model.graph.initializer:
        entry = shell.graph.initializer.add()
        if not _is_large(tensor):
            entry.CopyFrom(tensor)
            continue
        entry.name, entry.data_type, entry.data_location = tensor.name, tensor.data_type, TensorProto.EXTERNAL
        entry.dims.extend(tensor.dims)
        offset, end = _aligned(end), _aligned(end) + len(tensor.raw_data)
        for key, text in (("location", location), ("offset", str(offset)), ("length", str(end - offset))):
            entry.external_data.add(key=key, value=text)
    return shell


def _assign(message: object, name: str, value: object) -> None:
    """Copies one protobuf field, repeated or not."""
    target = getattr(message, name)
    if hasattr(target, "extend"):
        target.extend(value)
    else:
        setattr(message, name, value)


def _write_weights(model: ModelProto, file: BinaryIO) -> None:
    for tensor in model.graph.initializer:
        if _is_large(tensor):
            file.write(bytes(_aligned(file.tell()) - file.tell()))
            file.write(tensor.raw_data)
