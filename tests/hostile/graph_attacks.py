"""Attempts with graphs that two parsers read in two ways, sizes that a graph computes, and pack.json."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from fuzz.fuzz_graph import field, number
from hostile.bundle_attacks import GRAPHS, Attempt, add_to_logits, foreign
from hostile.cage import SECRET
from hostile.spoiled import Copy, answer
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.hashes import Verify
from omnidraft.runtime.bundle.manifest_file import MANIFEST
from omnidraft.runtime.parts.pack_index import INDEX, PackIndex, write_index
from omnidraft.runtime.session.api import load
from omnidraft.signing import make_keys, sign_bundle

FLOAT = TensorProto.FLOAT
FILE = GRAPHS["target"]
ODD = ("tag above 2^32", "long tag", "long length", "group")


def taken(action: Callable[[], object]) -> object:
    """An attempt that must end with a refusal."""
    raise AssertionError(f"it was taken: {action()!r:.80}")


def wire(bundle: Path, work: Path) -> Iterator[Attempt]:
    """Graphs with fields that some parsers read and others skip."""
    raw = (bundle / FILE).read_bytes()
    (work / "secret").write_bytes(SECRET.encode() * 4000)
    for odd in ODD:
        for name, extra in foreign(work / "secret").items():
            inner = onnx.ModelProto.FromString(extra).graph.SerializeToString()
            copy = Copy(bundle, work / f"{odd}-{name}".replace(" ", "-").replace("/", "-").replace("^", ""))
            (copy.place / "target/cpu/extra.bin").write_bytes(SECRET.encode() * 4000)
            place = copy.write(FILE, raw + field(7, inner, odd=odd)).seal()
            yield f"a {odd}: {name}", partial(taken, partial(answer, place))
        copy = Copy(bundle, work / f"loop-{odd}".replace(" ", "-").replace("^", ""))
        place = copy.write(FILE, _hidden_loop(bundle, odd)).seal()
        yield f"a {odd}: an endless loop", partial(taken, partial(answer, place))
    for name, extra in {
        "field 0": b"\x02\x00", "a byte 0": b"\x00", "a tag of six bytes": b"\xba\x80\x80\x80\x80\x00\x00",
        "options of the engine": field(14, field(1, b"ort_config"), field(2, b'{"session_options":{}}')),
        "compiled code": field(7, field(1, field(4, b"EPContext"), field(2, b"y"))),
    }.items():  # fmt: skip
        place = Copy(bundle, work / name.replace(" ", "-")).write(FILE, raw + extra).seal()
        yield f"a graph with {name}", partial(taken, partial(answer, place))
    yield "a graph in onnxruntime's format", partial(taken, partial(answer, _in_ort_format(bundle, work)))


def _loop() -> tuple[onnx.NodeProto, onnx.GraphProto, list[TensorProto]]:
    """A loop of 2^62 rounds without its body; the body; and the loop's inputs."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Neg", ["s"], ["t"])], "b",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("s", FLOAT, [1])],
        [value("on", TensorProto.BOOL, []), value("t", FLOAT, [1])],
    )  # fmt: skip
    inputs = [
        numpy_helper.from_array(np.array(1 << 62), "rounds"),
        numpy_helper.from_array(np.array(True), "go0"),
        numpy_helper.from_array(np.ones(1, np.float32), "state0"),
    ]
    return helper.make_node("Loop", ["rounds", "go0", "state0"], ["looped"]), body, inputs


def _hidden_loop(bundle: Path, odd: str) -> bytes:
    """The target's graph with a loop whose body is a field that is written oddly."""
    proto = onnx.load(str(bundle / FILE), load_external_data=False)
    node, body, inputs = _loop()
    proto.graph.initializer.extend(inputs)
    add_to_logits(proto, "looped")
    add = proto.graph.node.pop()
    attribute = field(1, b"body") + number(20 << 3) + b"\x05" + field(6, body.SerializeToString(), odd=odd)
    loop = field(1, node.SerializeToString(), field(5, attribute))
    whole: bytes = proto.SerializeToString()
    return whole + field(7, loop) + field(7, field(1, add.SerializeToString()))


def _in_ort_format(bundle: Path, work: Path) -> Path:
    """A bundle whose target is a loop of 2^62 rounds in a format that nothing here can look into."""
    import onnxruntime

    proto = onnx.load(str(bundle / FILE), load_external_data=False)
    node, body, inputs = _loop()
    node.attribute.append(helper.make_attribute("body", body))
    proto.graph.initializer.extend(inputs)
    proto.graph.node.append(node)
    add_to_logits(proto, "looped")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.optimized_model_filepath = 4, str(work / "m.ort")
    onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    copy = Copy(bundle, work / "in-ort-format").write("target/cpu/m.ort", (work / "m.ort").read_bytes())
    return copy.change(lambda manifest: manifest["target"].update(graph="target/cpu/m.ort")).seal()


def sizes(bundle: Path, work: Path) -> Iterator[Attempt]:
    """Small graphs that ask for gigabytes, when they are loaded or when they run."""
    for name, change in _sizes().items():
        proto = onnx.load(str(bundle / FILE), load_external_data=False)
        change(proto)
        place = Copy(bundle, work / name.replace(" ", "-")).write(FILE, proto.SerializeToString()).seal()
        yield f"a graph that asks for memory: {name}", partial(taken, partial(answer, place))
    raw = (bundle / FILE).read_bytes()
    for name, extra in {
        "a shape of 30 million dimensions":
            field(7, field(13, field(1, b"v"), field(2, field(1, field(2, b"\x0a\x00" * 30_000_000))))),
        "600,000 attributes": field(7, field(1, field(4, b"Neg"), b"\x2a\x00" * 600_000)),
        "600,000 tensors": field(7, field(1, field(5, b"\x52\x00" * 600_000))),
        "600,000 names": field(7, field(1, b"".join(field(2, b"%x" % i) for i in range(600_000)))),
        "20 million fields in a property": field(14, b"\x9a\x06\x00" * 20_000_000),
        "200,000 weights": field(7, b"".join(
            field(5, b"\x08\x00\x10\x01", field(8, b"%x" % i), field(9)) for i in range(200_000))),
        "30,000 readers of a value": field(7, b"".join(
            field(1, field(4, b"Neg"), field(1, b"input_ids"), field(2, b"%x" % i)) for i in range(30_000))),
    }.items():  # fmt: skip
        place = Copy(bundle, work / name.replace(" ", "-")).write(FILE, raw + extra).seal()
        yield f"a graph that asks for memory: {name}", partial(taken, partial(answer, place))


def _sizes() -> dict[str, Callable[[onnx.ModelProto], object]]:
    def nodes(*made: onnx.NodeProto, **constants: Any) -> Callable[[onnx.ModelProto], object]:
        """Nodes, of which the last gives `all`, whose sum is added to the logits."""

        def change(proto: onnx.ModelProto) -> None:
            for name, value in constants.items():
                proto.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
            proto.graph.node.extend(made)
            proto.graph.node.append(helper.make_node("ReduceSum", ["all"], ["looped"], keepdims=0))
            add_to_logits(proto, "looped")

        return change

    def sparse(proto: onnx.ModelProto) -> None:
        values = numpy_helper.from_array(np.zeros(1, np.float32), "all")
        indices = numpy_helper.from_array(np.array([3]), "indices")
        one = SparseTensorProto(values=values, indices=indices, dims=[1 << 30])
        proto.graph.sparse_initializer.append(one)
        nodes()(proto)

    make = helper.make_node
    doubled = [
        make("Concat", [f"d{i}", f"d{i}"], ["all" if i == 29 else f"d{i + 1}"], axis=0) for i in range(30)
    ]
    return {
        "zeros of a constant size": nodes(make("ConstantOfShape", ["size"], ["all"]), size=[1 << 30]),
        "zeros of a computed size": nodes(
            make("Cast", ["total_sequence_length"], ["total64"], to=TensorProto.INT64),
            make("Mul", ["total64", "many"], ["size"]), make("ConstantOfShape", ["size"], ["all"]),
            many=[1 << 27],
        ),
        "an outer sum": nodes(
            make("ConstantOfShape", ["rows"], ["a"]), make("ConstantOfShape", ["columns"], ["b"]),
            make("Add", ["a", "b"], ["all"]), rows=[1 << 15, 1], columns=[1, 1 << 15],
        ),
        "a text that doubles 30 times": nodes(*doubled, d0=np.zeros(1, np.float32)),
        "a repeated number":
            nodes(make("Expand", ["one", "size"], ["all"]), one=np.float32(1), size=[1 << 30]),
        "tiles": nodes(make("Tile", ["one", "size"], ["all"]), one=np.ones(1, np.float32), size=[1 << 30]),
        "a range": nodes(
            make("Range", ["begin", "end", "step"], ["all"]),
            begin=np.float32(0), end=np.float32(1 << 30), step=np.float32(1),
        ),
        "a picture that grows": nodes(
            make("Resize", ["pixel", "", "scales"], ["all"]),
            pixel=np.ones((1, 1, 1, 1), np.float32), scales=np.array([1, 1, 1 << 15, 1 << 15], np.float32),
        ),
        "a sparse tensor": sparse,
    }  # fmt: skip


def left_out(bundle: Path, work: Path) -> Iterator[Attempt]:
    """A signed bundle whose pack.json says that a file was left out, which is there and was replaced."""
    private, public, _ = make_keys(work / "key")
    signed = Path(shutil.copytree(bundle, work.parent / "signed"))
    sign_bundle(signed, private, bytes)
    manifest = (signed / MANIFEST).read_bytes()
    digest = hashlib.sha256(manifest).hexdigest()
    modes: tuple[Verify, ...] = ("auto", "full", "stamp")
    for name in open_bundle(signed, public).manifest["files"]:
        for mode in modes:
            place = Path(shutil.copytree(signed, work / f"{mode}-{name.replace('/', '-')}"))
            data = bytearray((place / name).read_bytes())
            data[-1:] = bytes([data[-1] ^ 1]) if data else b"x"
            (place / name).write_bytes(data)
            (place / INDEX).write_bytes(write_index(PackIndex(digest, "desktop", left_out={name: ()})))
            attempt = partial(_opened, place, public, mode)
            yield f"pack.json leaves out {name} ({mode})", partial(taken, attempt)
    shutil.rmtree(signed)


def _opened(place: Path, public: Path, mode: Verify) -> str:
    session = load(place, public_key=public, verify=mode, measure="never")
    return session.generate("How many legs?", max_new_tokens=4).finish().text
