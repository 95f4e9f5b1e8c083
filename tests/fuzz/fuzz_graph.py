"""Mutated ONNX graphs: what is found in a graph is what two parsers of protobuf read, or it is refused.

PYTHONPATH=tests python -m fuzz.fuzz_graph [--count 100000] [--seconds 120] [--seed 0]
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from fuzz.command import command, numbers
from omnidraft.runtime.bundle.external_data import external_files

if TYPE_CHECKING:
    import onnx
    from google.protobuf.message import Message  # type: ignore[import-untyped]

_PLACES = (b"/etc/passwd", b"../w.bin", b"", b"*", b"\xff", b"x" * 3000)
# What no graph of a bundle holds, as fields of messages of onnx.proto.
_HELD = {
    "ModelProto": ("training_info", "functions", "configuration"),
    "GraphProto": ("sparse_initializer",),
    "NodeProto": ("device_configurations",),
    "AttributeProto": ("g", "graphs", "sparse_tensor", "sparse_tensors"),
    "TypeProto": ("sequence_type", "map_type", "opaque_type", "sparse_tensor_type", "optional_type"),
}


def number(value: int, size: int = 0) -> bytes:
    """A number of a protobuf message, in at least `size` bytes."""
    digits = bytearray()
    while value > 0x7F or len(digits) + 1 < size:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def field(name: int, *parts: bytes, odd: str = "") -> bytes:
    """A field with a length.

    Args:
        name: its number.
        parts: of its content.
        odd: how its tag or its length is written in another way than usual.
    """
    content, tag = b"".join(parts), name << 3 | 2
    if odd == "group":
        return number(name << 3 | 3) + content + number(name << 3 | 4)
    wide = tag + (1 << 32) if odd == "tag above 2^32" else tag
    long = number(len(content), 3 if odd == "long length" else 0)
    return number(wide, 4 if odd == "long tag" else 0) + long + content


ODD = ("", "", "", "", "tag above 2^32", "long tag", "long length", "group")


def whole(rng: random.Random) -> bytes:
    """A graph with tensors at each of the places that a tensor can have."""

    def some(name: int, *parts: bytes) -> bytes:
        return field(name, *parts, odd=rng.choice(ODD) if rng.random() < 0.02 else "")

    place = rng.choice((*(b"w.bin", b"a/w.bin") * 4, rng.choice(_PLACES)))
    key = rng.choice((*(b"location",) * 8, b"offset", b"prepacked_0"))
    tensor = some(13, some(1, key), some(2, place))
    value = some(13, some(1, b"v"), some(2, some(1, some(2, some(1, b"\x08\x02")))))
    graph = some(5, tensor) + value + (some(15, some(1, tensor)) if rng.random() < 0.05 else b"")
    for _ in range(rng.randrange(4)):
        operator = some(4, b"EPContext" if rng.random() < 0.02 else b"Neg")
        inside = rng.choice((5, 5, 10, 10, 6 if rng.random() < 0.1 else 5))
        graph += some(1, operator, some(5, some(inside, tensor)))
    settings = some(14, some(1, b"ort_config" if rng.random() < 0.03 else b"author"))
    opset = some(8, some(1, b""), b"\x10\x14")
    return some(7, graph) + opset + settings + (some(7, graph) if rng.random() < 0.1 else b"")


def readings(data: bytes) -> Iterator[onnx.ModelProto]:
    """The graph as each parser reads it that does not refuse it: that of Python, and that of C++."""
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import shape_inference

    with suppress(DecodeError):
        yield onnx.ModelProto.FromString(data)
    with suppress(ValueError, DecodeError, shape_inference.InferenceError):
        yield shape_inference.infer_shapes(data)


def messages(message: Message) -> Iterator[Message]:
    """A message and all messages in it."""
    yield message
    for known, value in message.ListFields():
        if known.message_type is not None:
            for each in value if known.is_repeated else [value]:
                yield from messages(each)


def check(model: onnx.ModelProto, found: set[str]) -> None:
    """Check that a graph that was read names these files and holds nothing that is refused."""
    import onnx

    named = set()
    for message in messages(model):
        kind = message.DESCRIPTOR.name
        held = {known.name for known, _ in message.ListFields()} & set(_HELD.get(kind, ()))
        assert not held, (kind, held)
        if isinstance(message, onnx.TensorProto):
            named |= {entry.value for entry in message.external_data if entry.key == "location"}
            assert not any(entry.key.startswith("prepacked") for entry in message.external_data)
        assert not isinstance(message, onnx.NodeProto) or message.op_type != "EPContext"
    assert not any(entry.key == "ort_config" for entry in model.metadata_props)
    assert named == found, (named, found)


def fuzz(count: int, seconds: float, seed: int) -> Counter[str]:
    """Read mutants until a limit is reached; return the number of each outcome."""
    rng, seen = random.Random(seed), Counter[str]()
    for _ in numbers(count, seconds):
        data = bytearray(whole(rng))
        for _ in range(rng.choice((0, 0, 1, 3))):
            data[rng.randrange(len(data))] = rng.choice((0, 127, 128, 255, rng.randrange(256)))
        cut = len(data) if rng.random() < 0.8 else rng.randrange(len(data))
        try:
            places = external_files(bytes(data[:cut]))
        except ValueError:
            seen["refused"] += 1
            continue
        assert not any(p.startswith(("/", ".")) or ".." in p.split("/") for p in places), places
        models = list(readings(bytes(data[:cut])))
        for model in models:
            check(model, places)
        seen["compared" if models else "read"] += 1
    return seen


if __name__ == "__main__":
    command(__doc__, "graphs", 100_000, fuzz)
