"""The weight files that an ONNX graph names, and what no graph may hold, found before onnxruntime reads it.

A graph is a protobuf message. Every message of onnx.proto that a graph may have is walked through, so that
the number of its fields bounds the memory that a parser takes for it. Refused are loops, branches, functions
and sparse tensors: a small graph with them can take any time and memory while it is loaded. So is what two
parsers could read in two ways. Field numbers are those of onnx.proto.
"""

import mmap
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

MOST_FIELDS, MOST_NODES, MOST_TENSORS, MOST_USES = 1 << 19, 1 << 15, 1 << 15, 1 << 12
_VARINT, _FIXED64, _MESSAGE, _FIXED32 = 0, 1, 2, 5
_TENSOR, _EXTERNAL, _NODE, _PROPERTY, _PLAIN = "tensor", "external", "node", "property", "plain"
# By kind of message: the fields that hold a message, and its kind. A plain message holds none.
_FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 8: _PLAIN, 14: _PROPERTY},
    "graph": {1: _NODE, 5: _TENSOR, 11: "value", 12: "value", 13: "value", 14: "annotation", 16: _PLAIN},
    _NODE: {5: "attribute", 9: _PLAIN},
    "attribute": {5: _TENSOR, 10: _TENSOR, 14: "type", 15: "type"},
    _TENSOR: {3: _PLAIN, 13: _EXTERNAL, 16: _PLAIN},
    "value": {2: "type", 4: _PLAIN},
    "type": {1: "tensor type"},
    "tensor type": {2: "shape"},
    "shape": {1: _PLAIN},
    "annotation": {2: _PLAIN},
    _PROPERTY: {},
    _PLAIN: {},
}
_SPARSE, _SUBGRAPH, _NO_TENSOR = "a sparse tensor", "a graph inside a node", "a value that is no tensor"
# By kind of message: the fields that no graph of a bundle has, and what each is.
_REFUSED: dict[str, dict[int, str]] = {
    "model": {20: "training information", 25: "a function", 26: "a configuration of devices"},
    "graph": {15: _SPARSE},
    _NODE: {10: "a configuration of devices"},
    "attribute": {6: _SUBGRAPH, 11: _SUBGRAPH, 22: _SPARSE, 23: _SPARSE},
    "type": dict.fromkeys((4, 5, 7, 8, 9), _NO_TENSOR),
}
_INPUT, _OPERATOR = 1, 4  # of a node: the name of a value, and that of its operator
_KEY, _VALUE = 1, 2  # of an entry of external data, and of a property of the model
_KEYS = ("location", "offset", "length", "checksum")  # of external data
_PART = "[A-Za-z0-9_+-][A-Za-z0-9._+-]*"
_PLACE = re.compile(f"{_PART}(?:/{_PART})*")
_COMPILED = b"EPContext"  # a node that names a file of compiled code
_SETTINGS = b"ort_config"  # a property that sets options of onnxruntime's session
_MOST_VARINT = 10  # bytes of a number


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
    """A walk through a graph: what it may still hold, and the places that were found."""

    data: bytes | mmap.mmap
    places: set[str]
    fields: int = MOST_FIELDS
    nodes: int = MOST_NODES
    tensors: int = MOST_TENSORS
    uses: Counter[bytes] = field(default_factory=Counter)  # of each value, as an input of nodes

    def message(self, kind: str, at: int, end: int) -> None:
        """Read one message from `at` to `end`."""
        if kind == _EXTERNAL:
            return self._entry(at, end)
        self.nodes -= kind == _NODE
        self.tensors -= kind == _TENSOR
        if self.nodes < 0 or self.tensors < 0:
            most = f"{MOST_NODES} nodes" if self.nodes < 0 else f"{MOST_TENSORS} tensors"
            raise GraphFileError(f"it has more than {most}", "graph")
        known, refused = _FIELDS[kind], _REFUSED.get(kind, {})
        for number, start, stop in self._fields(at, end):
            if number in known:
                self.message(known[number], start, stop)
            elif number in refused:
                raise GraphFileError(f"it holds {refused[number]}", "graph")
            elif kind in (_NODE, _PROPERTY):
                self._name(kind, number, self.data[start:stop])
        return None

    def _name(self, kind: str, number: int, name: bytes) -> None:
        if kind == _PROPERTY:
            if number == _KEY and name == _SETTINGS:
                raise GraphFileError("it sets options of the engine (ort_config)", "graph")
        elif number == _OPERATOR and name == _COMPILED:
            raise GraphFileError("it holds compiled code (EPContext)", "graph")
        elif number == _INPUT and name:
            self.uses[name] += 1
            if self.uses[name] > MOST_USES:
                raise GraphFileError(f"a value is used more than {MOST_USES} times", "graph")

    def _entry(self, at: int, end: int) -> None:
        found: dict[int, list[str]] = {_KEY: [], _VALUE: []}
        for number, start, stop in self._fields(at, end):
            if number in found:
                found[number].append(self.data[start:stop].decode("utf-8", "replace"))
        if len(found[_KEY]) > 1 or len(found[_VALUE]) > 1:
            raise GraphFileError("an entry of external data has two keys or values")
        key, value = "".join(found[_KEY]), "".join(found[_VALUE])
        if key not in _KEYS:
            raise GraphFileError(f"an entry of external data has the key {key[:80]!r}")
        if key == "location":
            if not _PLACE.fullmatch(value):
                raise GraphFileError(f"its weights are in {value[:80]!r}, which is not a file of a bundle")
            self.places.add(value)

    def _fields(self, at: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Number, first and last byte (exclusive) of each field that has a length; others are skipped."""
        while at < end:
            self.fields -= 1
            if self.fields < 0:
                raise GraphFileError(f"it has more than {MOST_FIELDS} fields")
            tag, at = self._short(at, end)
            kind = tag & 7
            if tag < 8:
                raise GraphFileError("a field has the number 0")
            size = 0
            if kind == _VARINT:
                _, at = self._varint(at, end)
            elif kind == _MESSAGE:
                size, at = self._short(at, end)
            elif kind in (_FIXED64, _FIXED32):
                at += 8 if kind == _FIXED64 else 4
            else:
                raise GraphFileError(f"a field has the unknown type {kind}")
            if at + size > end:
                raise GraphFileError("a field is longer than its message")
            if kind == _MESSAGE:
                yield tag >> 3, at, at + size
            at += size

    def _short(self, at: int, end: int) -> tuple[int, int]:
        """A tag or a length: below 2^32, and in no more bytes than it needs.

        Parsers differ in the rest: some keep the lowest 32 bits, others refuse.
        """
        if at < end and (value := self.data[at]) < 0x80:  # nearly all are one byte
            return value, at + 1
        value, after = self._varint(at, end)
        if value >= 1 << 32 or after - at > max(1, -(-value.bit_length() // 7)):
            raise GraphFileError("a tag or a length is longer than it needs to be, or too large")
        return value, after

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        while at < end and shift < 7 * _MOST_VARINT:
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
        GraphFileError: it is no ONNX graph or has too many fields, nodes or tensors, it names a file by an
            absolute path, `..`, a hidden name or characters other than ASCII letters, digits and `._+-`; or
            it holds what no graph may hold: a graph inside a node (If, Loop, Scan), a function, a sparse
            tensor, training information, compiled code or options of the engine.
    """
    if len(graph) < 2 or graph[4:8] == b"ORTM":
        raise GraphFileError("it is no ONNX graph")
    walk = _Walk(graph, set())
    walk.message("model", 0, len(graph))
    return walk.places
