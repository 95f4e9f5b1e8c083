"""Vectors of `bundle/graph`: the files that the tensors of a graph are in, and graphs that are refused."""

from typing import Any

from vectorlib.writer import VectorWriter, vector


def number(value: int) -> bytes:
    """A number of a protobuf message: 7 bits a byte, the lowest first."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def field(name: int, *parts: bytes) -> bytes:
    """A field with a length."""
    content = b"".join(parts)
    return number(name << 3 | 2) + number(len(content)) + content


def entry(key: str, value: str) -> bytes:
    """An entry of a tensor's external data."""
    return field(13, field(1, key.encode()), field(2, value.encode()))


def tensor(place: str) -> bytes:
    """A tensor in a file, from byte 16 on."""
    return entry("location", place) + entry("offset", "16") + b"\x70\x01"


SHAPED = field(1, b"v") + field(2, field(1, b"\x08\x01", field(2, field(1, b"\x08\x02"))))  # float [2]


def graph(place: str) -> bytes:
    """A model whose only tensor is in a file."""
    return field(7, field(5, tensor(place)))


def write(writer: VectorWriter) -> None:
    good = [_vector(name, why, data, files) for name, why, data, files in _good()]
    writer.vectors("bundle/graph", "weights", good + [_vector(*case, None) for case in _bad()] + _held())


def _vector(
    name: str, why: str, data: bytes, files: list[str] | None, fault: str = "outside"
) -> dict[str, Any]:
    return vector(name, why, {"graph": data.hex()}, {"files": files, "fault": None if files else fault})


def _good() -> list[tuple[str, str, bytes, list[str]]]:
    w, tail = tensor("w.bin"), b"\x08\x08"  # ir_version
    node = field(1, field(4, b"Constant"), field(5, field(5, w)))
    return [
        ("initializer", "field 5 of the graph", tail + graph("model.onnx.data"), ["model.onnx.data"]),
        ("folder", "a path of two parts", graph("cpu/model.onnx_data"), ["cpu/model.onnx_data"]),
        ("two", "two files, one of them twice",
         field(7, field(5, w), field(5, tensor("a+b-c_d.1")), field(5, w)), ["a+b-c_d.1", "w.bin"]),
        ("attribute", "a constant of a node", field(7, node), ["w.bin"]),
        ("attribute_tensors", "a list of tensors", field(7, field(1, field(5, field(10, w)))), ["w.bin"]),
        ("second_graph", "protobuf adds a second graph to the first",
         field(7) + graph("w.bin"), ["w.bin"]),
        ("second_tensor", "protobuf adds a second value of an attribute to the first",
         field(7, field(1, field(5, field(5, w), field(5, tensor("v.bin"))))), ["v.bin", "w.bin"]),
        ("negative", "a number of ten bytes, as a parser writes -1",
         b"\x28" + b"\xff" * 9 + b"\x01" + graph("w.bin"), ["w.bin"]),
        ("other_types", "fields of a tensor's number with other types: no parser reads a tensor there",
         field(7, b"\x2d" + bytes(4), b"\x29" + bytes(8), b"\x28\x01", field(5, w)), ["w.bin"]),
        ("shape", "a value with a type and a shape", field(7, field(5, w), field(13, SHAPED)), ["w.bin"]),
        ("all_keys", "the four keys of external data",
         field(7, field(5, *(entry(key, "w.bin") for key in ("location", "offset", "length", "checksum")))),
         ["w.bin"]),
    ]  # fmt: skip


def _bad() -> list[tuple[str, str, bytes]]:
    names = {
        "absolute": "/etc/passwd", "parent": "../w.bin", "parent_inside": "a/../w.bin", "empty": "",
        "hidden": ".w.bin", "backslash": "a\\w.bin", "drive": "C:w.bin", "no_part": "a//w.bin",
        "memory": "*/_ORT_MEM_ADDR_/*", "not_ascii": "\u00e9.bin", "newline": "w.bin\n",
    }  # fmt: skip
    two_keys = field(13, field(1, b"offset"), field(1, b"location"), field(2, b"w.bin"))
    hidden = field(5, tensor("w.bin"))
    length = number(len(hidden))
    tags = {
        "tag_of_33_bits": (
            "some parsers keep the lowest 32 bits, which say `graph`",
            number((1 << 32) + 0x3A),
        ),
        "tag_of_64_bits": ("the same with more bits", number((1 << 63) + 0x3A)),
        "tag_of_two_bytes": ("a tag in more bytes than it needs", b"\xba\x00"),
        "tag_of_six_bytes": ("and in more bytes than some parsers read", b"\xba" + b"\x80" * 4 + b"\x00"),
        "field_0": ("a field with the number 0: some parsers stop there", b"\x02"),
    }
    return [
        *((f"name_{name}", "no file of a bundle", graph(place)) for name, place in names.items()),
        ("no_bytes", "no bytes", b""),
        ("cut", "a field is longer than the file", graph("w.bin")[:-3]),
        ("group", "a kind of field that ONNX does not use", b"\x3b\x3c"),
        ("no_end", "a number without an end", b"\x3a" + b"\xff" * 10),
        ("two_keys", "an entry with two keys", field(7, field(5, two_keys))),
        ("ort", "a graph of onnxruntime's own format", bytes(4) + b"ORTM" + bytes(8)),
        *((name, why, tag + length + hidden) for name, (why, tag) in tags.items()),
        ("zero_tag", "a byte 0 where a field begins", graph("w.bin") + b"\x00"),
        ("long_length", "a length in more bytes than it needs",
         b"\x3a" + bytes([len(hidden) | 0x80, 0]) + hidden),
        ("length_of_33_bits", "a length of which some parsers keep the lowest 32 bits",
         b"\x3a" + number((1 << 32) + len(hidden)) + hidden),
        ("group_of_a_graph", "a group: another way to write a message", b"\x3b" + hidden + b"\x3c"),
        ("prepacked", "a key of external data that an engine takes for packed weights",
         field(7, field(5, entry("location", "w.bin"), entry("prepacked_0", "a;0;64;")))),
        ("no_key", "an entry of external data without a key",
         field(7, field(5, field(13, field(2, b"w.bin"))))),
    ]  # fmt: skip


def _held() -> list[dict[str, Any]]:
    """Graphs that hold what no graph of a bundle holds."""
    tensors = field(5, tensor("w.bin"))
    node = field(1, field(4, b"Constant"), field(5, tensors))
    cases = [
        ("subgraph", "a graph in a node: a loop or a branch", field(7, field(1, field(5, field(6, node))))),
        ("subgraphs", "a list of graphs", field(7, field(1, field(5, field(11, node))))),
        ("empty_subgraph", "one without contents", field(7, field(1, field(5, field(6))))),
        ("function", "a node of a function", field(25, field(7, field(5, tensors)))),
        ("training", "a graph of the training information", field(20, field(2, tensors))),
        ("compiled", "a node of compiled code", field(7, field(1, field(4, b"EPContext")))),
        (
            "sparse",
            "a sparse tensor: the engine makes all of its numbers",
            field(7, field(15, field(1, tensors))),
        ),
        (
            "sparse_attribute",
            "the same in a node",
            field(7, field(1, field(5, field(22, field(1, tensors))))),
        ),
        ("sparse_attributes", "a list of them", field(7, field(1, field(5, field(23))))),
        (
            "settings",
            "options of the engine's session in the graph",
            field(14, field(1, b"ort_config"), field(2, b"{}")),
        ),
        ("sequence", "a value that is a sequence", field(7, field(13, field(2, field(4))))),
        ("optional", "a value that may be absent", field(7, field(11, field(2, field(9))))),
        ("devices", "a configuration of devices", field(26)),
        ("node_devices", "the same of a node", field(7, field(1, field(10)))),
    ]
    return [_vector(*case, None, "graph") for case in cases]
