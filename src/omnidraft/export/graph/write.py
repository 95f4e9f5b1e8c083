"""Write a graph to disk, whole or not at all, with large weights in a file beside it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper

from omnidraft.errors import ExportError

EXTERNAL_ABOVE = 64 << 20  # bytes of weights; a smaller graph ships as one file
_ALIGN = 4096  # onnxruntime maps a weight from the file if it starts on a page
_SMALL = 1024  # bytes; smaller constants stay in the graph, where shape inference can read them


def write_graph(model: ModelProto, path: Path, *, external_above: int = EXTERNAL_ABOVE) -> list[Path]:
    """Write `model` to `path`, and its weights to `{path}.data` if they exceed `external_above` bytes.

    Each file is written under a temporary name, synced and renamed, weights first, so a reader never sees an
    incomplete file.

    Returns:
        The files written.
    """
    shell = shell_of(model)
    with GraphWriter(path, external_above) as writer:
        for tensor in model.graph.initializer:
            writer.add(tensor)
        return writer.finish(shell)


def shell_of(model: ModelProto) -> ModelProto:
    """A copy of a model without its initializers."""
    shell = ModelProto()
    for field, value in model.ListFields():
        if field.name != "graph":
            _assign(shell, field.name, value)
    for field, value in model.graph.ListFields():
        if field.name != "initializer":
            _assign(shell.graph, field.name, value)
    return shell


class SharedWeights:
    """Writes weights one after another to a file, which takes its name when it is complete.

    Attributes:
        tensors: the initializers by name for graphs in the same directory: a reference into the file, or the
            tensor itself if it is small.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._temporary = path, _temporary(path)
        self._file = self._temporary.open("wb")
        self.tensors: dict[str, TensorProto] = {}

    def __enter__(self) -> SharedWeights:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.close(complete=error is None)

    def add(self, name: str, value: NDArray[Any]) -> TensorProto:
        """Write a weight, or keep a small tensor; adding a name again has no effect."""
        if name not in self.tensors:
            value = np.ascontiguousarray(value)
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            content = value.tobytes() if value.nbytes <= _SMALL else value.data.cast("B")
            self.tensors[name] = self.store(TensorProto(name=name, data_type=kind, dims=value.shape), content)
        return self.tensors[name]

    def store(self, tensor: TensorProto, content: bytes | memoryview) -> TensorProto:
        """Append the values to the file and return a reference to them; a small tensor keeps its values."""
        if len(content) <= _SMALL:
            tensor.raw_data = bytes(content)
            return tensor
        self._file.write(bytes(-self._file.tell() % _ALIGN))
        place = {"location": self._path.name, "offset": str(self._file.tell()), "length": str(len(content))}
        self._file.write(content)
        entry = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        entry.data_location = TensorProto.EXTERNAL
        for key, text in place.items():
            entry.external_data.add(key=key, value=text)
        return entry

    def close(self, *, complete: bool) -> None:
        """Give the file its name, or remove it."""
        try:
            if complete:
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()
            if complete:
                self._temporary.replace(self._path)
        finally:
            self._file.close()
            self._temporary.unlink(missing_ok=True)


class GraphWriter:
    """Writes a graph whose weights are added one by one; a context that leaves no file behind if it fails.

    Weights stay in memory until they have more than `external_above` bytes. Then they are written to
    `{path}.data`, and so is every later weight at once.
    """

    def __init__(self, path: Path, external_above: int = EXTERNAL_ABOVE) -> None:
        self._path, self._data = path, path.with_name(path.name + ".data")
        self._external_above = external_above
        self._held: list[TensorProto] = []
        self._bytes = 0
        self._shared: SharedWeights | None = None

    def __enter__(self) -> GraphWriter:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._shared is not None:
            self._shared.close(complete=False)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ExportError(
                f"the disk is full: {self._path} needs {self._bytes} bytes",
                "free that much or choose another directory",
            ) from error

    def add(self, tensor: TensorProto) -> None:
        """Add an initializer with its values."""
        self._bytes += len(tensor.raw_data)
        if self._shared is None and self._bytes <= self._external_above:
            self._held.append(tensor)
        else:
            self._held.append(self._file().store(tensor, tensor.raw_data))

    def add_values(self, name: str, values: NDArray[Any]) -> None:
        """Add an initializer from an array; the array is not copied if it is written to the file at once."""
        kind = helper.np_dtype_to_tensor_dtype(values.dtype)
        tensor = TensorProto(name=name, data_type=kind, dims=values.shape)
        if self._shared is None and self._bytes + values.nbytes <= self._external_above:
            tensor.raw_data = values.tobytes()
            return self.add(tensor)
        self._bytes += values.nbytes
        self._held.append(self._file().store(tensor, np.ascontiguousarray(values).data.cast("B")))
        return None

    def finish(self, shell: ModelProto) -> list[Path]:
        """Write the graph `shell` with the initializers that were added; return the files, sorted by name."""
        shell.graph.initializer.extend(self._held)
        self._held = []
        if self._shared is None:
            content = shell.SerializeToString()
            self._bytes = len(content)
            _write(self._path, content)
            self._data.unlink(missing_ok=True)
            return [self._path]
        self._shared.close(complete=True)
        _write(self._path, shell.SerializeToString())
        return [self._path, self._data]

    def _file(self) -> SharedWeights:
        """The file of weights; those that were held are written to it when it is first needed."""
        if self._shared is None:
            self._shared = shared = SharedWeights(self._data)
            self._held[:] = [shared.store(tensor, tensor.raw_data) for tensor in self._held]
        return self._shared


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _write(path: Path, content: bytes) -> None:
    temporary = _temporary(path)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _assign(message: object, name: str, value: object) -> None:
    """Copy one protobuf field, repeated or not."""
    target = getattr(message, name)
    if hasattr(target, "extend"):
        target.extend(value)
    else:
        setattr(message, name, value)
