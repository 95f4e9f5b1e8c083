"""One file of weights for several graphs, written weight by weight: memory holds one weight at a time."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

_ALIGN = 4096  # onnxruntime maps a weight from the file if it starts on a page
_SMALL = 1024  # bytes; smaller constants stay in the graphs


class SharedWeights:
    """Writes weights one after another; the file takes its name when it is complete.

    Attributes:
        tensors: the initializers by name for graphs in the same directory: a reference into the file, or the
            tensor itself if it is small.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self.tensors: dict[str, TensorProto] = {}

    def __enter__(self) -> SharedWeights:
        self._file = self._temporary.open("wb")
        return self

    def add(self, name: str, value: NDArray[Any]) -> TensorProto:
        """Write a weight, or keep a small tensor; adding a name again has no effect."""
        if name in self.tensors:
            return self.tensors[name]
        if value.nbytes <= _SMALL:
            tensor = numpy_helper.from_array(np.ascontiguousarray(value), name)
        else:
            tensor = self._append(name, np.ascontiguousarray(value))
        self.tensors[name] = tensor
        return tensor

    def _append(self, name: str, value: NDArray[Any]) -> TensorProto:
        self._file.write(bytes(-self._file.tell() % _ALIGN))
        offset = self._file.tell()
        value.tofile(self._file)
        tensor = TensorProto(
            name=name,
            data_type=helper.np_dtype_to_tensor_dtype(value.dtype),
            dims=value.shape,
            data_location=TensorProto.EXTERNAL,
        )
        entries = {"location": self._path.name, "offset": str(offset), "length": str(value.nbytes)}
        for key, text in entries.items():
            tensor.external_data.add(key=key, value=text)
        return tensor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._file.flush()
                os.fsync(self._file.fileno())
        finally:
            self._file.close()
            if error is None:
                self._temporary.replace(self._path)
            else:
                self._temporary.unlink(missing_ok=True)
