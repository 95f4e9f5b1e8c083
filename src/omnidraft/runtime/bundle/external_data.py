"""The weight files that an ONNX graph names, and what no graph may hold, found before onnxruntime reads it.

A graph is a protobuf message. Only the fields on the way to tensors are read; everything else is skipped.
Refused are loops, branches and functions: a small graph with them can take any time and memory while it is
loaded. The walk is bounded in the number of fields. Field numbers are those of onnx.proto.
"""

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST_FIELDS, MOST_NODES = 1 << 20, 1 << 15
_VARINT, _FIXED64, _MESSAGE, _FIXED32 = 0, 1, 2, 5
_TENSOR, _EXTERNAL, _NODE = "tensor", "external", "node"
# By kind of message: the fields that lead to a tensor, and the kind of message in each.
_FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph"},
    "graph": {1: _NODE, 5: _TENSOR, 15: "sparse"},
    _NODE: {5: "attribute"},
    "attribute": {5: _TENSOR, 10: _TENSOR, 22: "sparse", 23: "sparse"},
    "sparse": {1: _TENSOR, 2: _TENSOR},
    _TENSOR: {13: _EXTERNAL},
}
# By kind of message: the fields that no graph of a bundle has, and what each is.
_REFUSED: dict[str, dict[int, str]] = {
    "model": {20: "training information", 25: "a function"},
    "attribute": {6: "a graph inside a node", 11: "a graph inside a node"},
}
_OPERATOR = 4  # of a node: the name of its operator
_KEY, _VALUE = 1, 2  # of an entry of external data
_PART = "[A-Za-z0-9_+-][A-Za-z0-9._+-]*"
_PLACE = re.compile(f"{_PART}(?:/{_PART})*")
_COMPILED = b"EPContext"  # a node that names a file of compiled code


class GraphFileError(ValueError):
    """A graph that no engine may read.

    Attributes:
        fault: `outside` for the name of a file and for what is no graph, `graph` for what no graph may hold.
    """

    def __init__(self, message: str, fault: str = "outside") -> None:
        super().__init__(message)
        self.fault = fault


@dataclass
class _Walk:
    """A walk through a graph: the fields and nodes that it may still read, and the places that it found."""

    data: bytes | mmap.mmap
    places: set[str]
    fields: int = MOST_FIELDS
    nodes: int = MOST_NODES

    def message(self, kind: str, at: int, end: int) -> None:
        """Read one message from `at` to `end`."""
        if kind == _EXTERNAL:
            return self._entry(at, end)
        self.nodes -= kind == _NODE
        if self.nodes < 0:
            raise GraphFileError(f"it has more than {MOST_NODES} nodes", "graph")
        known, refused = _FIELDS[kind], _REFUSED.get(kind, {})
        for number, start, stop in self._fields(at, end):
            if number in known:
                self.message(known[number], start, stop)
            elif number in refused:
                raise GraphFileError(f"it holds {refused[number]}", "graph")
            elif kind == _NODE and number == _OPERATOR and self.data[start:stop] == _COMPILED:
                raise GraphFileError("it holds compiled code (EPContext)", "graph")

    def _entry(self, at: int, end: int) -> None:
        """Read a key and a value of external data, of which `location` names the file."""
        found: dict[int, list[str]] = {_KEY: [], _VALUE: []}
        for number, start, stop in self._fields(at, end):
            if number in found:
                found[number].append(self.data[start:stop].decode("utf-8", "replace"))
        if len(found[_KEY]) > 1 or len(found[_VALUE]) > 1:
            raise GraphFileError("an entry of external data has two keys or values")
        if found[_KEY] == ["location"]:
            place = "".join(found[_VALUE])
            if not _PLACE.fullmatch(place):
                raise GraphFileError(f"its weights are in {place!r:.80}, which is not a file of a bundle")
            self.places.add(place)

    def _fields(self, at: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Number, first and last byte (exclusive) of each field that has a length; others are skipped."""
        while at < end:
            self.fields -= 1
            if self.fields < 0:
                raise GraphFileError(f"it has more than {MOST_FIELDS} fields")
            tag, at = self._varint(at, end)
            kind = tag & 7
            size = 0
            if kind == _VARINT:
                _, at = self._varint(at, end)
            elif kind == _MESSAGE:
                size, at = self._varint(at, end)
            elif kind in (_FIXED64, _FIXED32):
                at += 8 if kind == _FIXED64 else 4
            else:
                raise GraphFileError(f"a field has the unknown type {kind}")
            if at + size > end:
                raise GraphFileError("a field is longer than its message")
            if kind == _MESSAGE:
                yield tag >> 3, at, at + size
            at += size

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        while at < end and shift < 70:
            byte = self.data[at]
            value |= (byte & 0x7F) << shift
            at += 1
            if byte < 0x80:
                return value, at
            shift += 7
        raise GraphFileError("a number has no end")


def external_files(graph: bytes | mmap.mmap) -> set[str]:
    """The files that the tensors of a graph are in: relative paths with `/` between parts.

    Args:
        graph: the bytes of an ONNX file, or the file mapped.

    Raises:
        GraphFileError: it is no ONNX graph or has too many fields or nodes, it names a file by an absolute
            path, `..`, a hidden name or characters other than ASCII letters, digits and `._+-`; or it holds
            a graph inside a node (If, Loop, Scan), a function, training information or compiled code.
    """
    if len(graph) < 2 or graph[4:8] == b"ORTM":
        raise GraphFileError("it is no ONNX graph")
    walk = _Walk(graph, set())
    walk.message("model", 0, len(graph))
    return walk.places
