"""Attempts with a bundle's manifest, signature and graphs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from hostile.cage import SECRET
from hostile.spoiled import Copy, answer
from omnidraft.errors import OmnidraftError
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST
from omnidraft.runtime.bundle.signature import SIGNATURE
from omnidraft.runtime.session.api import load
from omnidraft.runtime.session.modes import MODES

Attempt = tuple[str, Callable[[], object]]
GRAPHS = {"target": "target/cpu/model.onnx", "drafter": "drafter/cpu/model.onnx"}
SETTINGS: list[dict[str, Any]] = [
    {}, {"temperature": 0.7}, {"temperature": 1.0, "top_k": 5}, {"temperature": 1.0, "top_p": 0.9},
    {"temperature": 1.0, "min_p": 0.1}, {"repetition_penalty": 1.3}, {"temperature": 1.0, "logprobs": True},
]  # fmt: skip


def manifests(bundle: Path, work: Path) -> Iterator[Attempt]:
    """Manifests and signatures that are no files, too large, or say what the graphs do not."""
    for name in (MANIFEST, SIGNATURE):
        place = Copy(bundle, work / f"fifo-{name}").seal()
        (place / name).unlink(missing_ok=True)
        os.mkfifo(place / name)
        yield f"{name} is a FIFO", partial(open_bundle, place, bytes(31) + b"\x09")
    for name, text in {
        "50 MB of empty arrays": "[" + "[]," * (50_000_000 // 3) + "[]]",
        "20 MB of small keys": "{" + ",".join(f'"{i}":0' for i in range(2_000_000)) + "}",
        "3 MB of empty arrays": "[" + "[]," * 1_000_000 + "[]]",
        "nested a million times": "[" * 1_000_000,
        "a number of a million digits": '{"a":' + "9" * 1_000_000 + "}",
    }.items():
        place = Copy(bundle, work / name.replace(" ", "-")).seal()
        (place / MANIFEST).write_bytes(text.encode())
        yield f"manifest: {name}", partial(open_bundle, place)
    for name, change in _CHANGES.items():
        place = Copy(bundle, work / name.replace(" ", "-").replace("/", "-")).change(change).seal()
        yield f"manifest: {name}", partial(answer, place)
    for name, change in _COSTS.items():
        place = Copy(bundle, work / name.replace(" ", "-")).change(change).seal()
        yield f"manifest: {name}", partial(answer, place, num_draft_tokens="auto")
    place = Copy(bundle, work / "twice").seal()
    raw = (place / MANIFEST).read_bytes().replace(b'"target":', b'"target": 1, "target":', 1)
    (place / MANIFEST).write_bytes(_sealed(raw))
    yield "manifest: a name twice", partial(open_bundle, place)
    place = Copy(bundle, work / "half").change(_set("prompt", "prefix", value="HALF")).seal()
    (place / MANIFEST).write_bytes(_sealed((place / MANIFEST).read_bytes().replace(b"HALF", b"\\ud800")))
    yield "manifest: half of a surrogate pair", partial(open_bundle, place)


def _sealed(raw: bytes) -> bytes:
    """The same bytes with the seal that fits them."""
    return raw[:10] + hashlib.sha256(raw[74:]).hexdigest().encode() + raw[74:]


def _swap(manifest: dict[str, Any]) -> None:
    target, drafter = manifest["target"], manifest["drafter"]
    target["graph"], drafter["graph"] = drafter["graph"], target["graph"]


def _set(*path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        for name in path[:-1]:
            manifest = manifest[name]
        manifest[path[-1]] = value

    return change


_CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "2147483647 layers": _set("target", "kv", "num_layers", value=2**31 - 1),
    "1024 layers": _set("target", "kv", "num_layers", value=1024),
    "1 layer": _set("target", "kv", "num_layers", value=1),
    "1024 heads": _set("drafter", "kv", "num_kv_heads", value=1024),
    "2^24 positions": _set("target", "kv", "max_length", value=1 << 24),
    "width of a head 4096": _set("drafter", "kv", "head_dim", value=4096),
    "bos outside": _set("drafter", "bos_id", value=2**31 - 1),
    "bos at the end": _set("drafter", "bos_id", value=3499),
    "eos outside": _set("target", "eos_ids", value=[2**31]),
    "vocabulary of 2^24": _set("target", "vocab_size", value=1 << 24),
    "vocabulary of 1": _set("drafter", "vocab_size", value=1),
    "target and drafter swapped": _swap,
    "layout concat": _set("target", "layout", value="concat"),
    "prefix of 10 MB": _set("prompt", "prefix", value="a" * 10_000_000),
    "escapes in the source": _set("target", "source", value="\x1b]0;x\x07"),
    "another graph": _set("target", "graph", value="../../etc/passwd"),
    "no sites": _set("drafter", "lora", value=None),
    "costs of nothing": _set("costs", "target", value=[]),
    "nothing wrong": lambda manifest: None,
}


def _costs(target: list[float], draft: float, host: float) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["costs"].update(target=target, draft=draft, host=host)


_COSTS = {
    "costs that fall to the smallest number": _costs([1e9, 5e-324], 1e9, 1e9),
    "costs that fall": _costs([1e9, 1e-9], 1e9, 1e9),
    "costs of the smallest number": _costs([5e-324], 5e-324, 0.0),
    "the smallest costs": _costs([1e-9], 1e-9, 0.0),
    "the largest costs": _costs([1e9] * 256, 1e9, 1e9),
}


def graphs(bundle: Path, work: Path) -> Iterator[Attempt]:
    """Graphs that do not fit the manifest, compute nonsense, name foreign files or take for ever."""
    (work / "secret").write_bytes(SECRET.encode() * 4000)
    for role, file in GRAPHS.items():
        for name, change in {**_spoilers(role), **_numbers()}.items():
            copy = Copy(bundle, work / f"{role}-{name}".replace(" ", "-").replace("^", ""))
            proto = onnx.load(str(bundle / file), load_external_data=False)
            change(proto)
            place = copy.write(file, proto.SerializeToString()).seal()
            action = partial(_everything, place) if name in _numbers() else partial(answer, place)
            yield f"graph of the {role}: {name}", action
        for name, extra in foreign(work / "secret").items():
            copy = Copy(bundle, work / f"{role}-{name}".replace(" ", "-").replace("/", "-"))
            (copy.place / f"{role}/cpu/extra.bin").write_bytes(SECRET.encode() * 4000)
            place = copy.write(file, (bundle / file).read_bytes() + extra).seal()
            yield f"graph of the {role}: {name}", partial(answer, place)
    place = Copy(bundle, work / "garbage").write(GRAPHS["target"], os.urandom(100_000)).seal()
    yield "graph: garbage", partial(answer, place)


def _everything(place: Path) -> str:
    """Every mode and setting on one bundle; a refusal of each is one sentence."""
    session, said = load(place, measure="never"), set[str]()
    for mode in MODES:
        for setting in SETTINGS:
            config: Any = {"max_new_tokens": 8, "num_draft_tokens": 3, "seed": 1, "mode": mode, **setting}
            try:
                session.generate("How many legs?", **config).finish()
                said.add("text")
            except OmnidraftError as error:
                said.add(str(error))
    return "; ".join(sorted(said))


Change = Callable[[onnx.ModelProto], object]


def _numbers() -> dict[str, Change]:
    """Logits that are spoiled by one node at the end of the graph."""

    def logits(value: float, operator: str) -> Change:
        def change(proto: onnx.ModelProto) -> None:
            _behind(proto, "logits", operator, np.array(value, np.float32))

        return change

    def one_left(proto: onnx.ModelProto) -> None:
        width = (
            next(o for o in proto.graph.output if o.name == "logits").type.tensor_type.shape.dim[2].dim_value
        )
        row = np.full(width, -np.inf, np.float32)
        row[7] = 0.0
        _behind(proto, "logits", "Add", row)

    return {
        "logits NaN": logits(np.nan, "Add"),
        "logits infinite": logits(np.inf, "Add"),
        "logits -inf": logits(-np.inf, "Add"),
        "logits times 3e38": logits(3e38, "Mul"),
        "logits times 1e4": logits(1e4, "Mul"),
        "all logits -inf but one": one_left,
        "logits 0": logits(0.0, "Mul"),
    }


def _behind(proto: onnx.ModelProto, output: str, operator: str, value: Any) -> None:
    """Compute an output from itself and a constant."""
    for node in proto.graph.node:
        names = [f"{output}_before" if name == output else name for name in node.output]
        del node.output[:]
        node.output.extend(names)
    proto.graph.initializer.append(numpy_helper.from_array(value, f"{output}_constant"))
    proto.graph.node.append(helper.make_node(operator, [f"{output}_before", f"{output}_constant"], [output]))


def _spoilers(role: str) -> dict[str, Change]:
    """Changes of a graph that a runtime must refuse, or survive."""
    g = TensorProto.FLOAT

    def narrow(proto: onnx.ModelProto) -> None:
        ends = [numpy_helper.from_array(np.array([v]), f"cut{i}") for i, v in enumerate((0, 1, 2))]
        for node in proto.graph.node:
            node.output[:] = ["wide" if name == "logits" else name for name in node.output]
        proto.graph.initializer.extend(ends)
        proto.graph.node.append(helper.make_node("Slice", ["wide", "cut0", "cut1", "cut2"], ["logits"]))
        del next(o for o in proto.graph.output if o.name == "logits").type.tensor_type.shape.dim[2:]

    def endless(constant: bool) -> Change:
        def change(proto: onnx.ModelProto) -> None:
            value = helper.make_tensor_value_info
            body = helper.make_graph(
                [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Neg", ["s"], ["t"])], "b",
                [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("s", g, [1])],
                [value("on", TensorProto.BOOL, []), value("t", g, [1])],
            )  # fmt: skip
            proto.graph.initializer.extend([
                numpy_helper.from_array(np.array(1 << 62), "rounds"),
                numpy_helper.from_array(np.array(True), "go0"),
                numpy_helper.from_array(np.ones(1, np.float32), "state0"),
            ])  # fmt: skip
            inner = "state0" if constant else "state1"
            if not constant:
                proto.graph.node.append(helper.make_node("Cast", ["total_sequence_length"], [inner], to=g))
            proto.graph.node.append(helper.make_node("Loop", ["rounds", "go0", inner], ["looped"], body=body))
            add_to_logits(proto, "looped")

        return change

    def large(proto: onnx.ModelProto) -> None:
        proto.graph.initializer.append(numpy_helper.from_array(np.array([1 << 30]), "billion"))
        proto.graph.node.append(helper.make_node("ConstantOfShape", ["billion"], ["zeros"]))
        proto.graph.node.append(helper.make_node("ReduceSum", ["zeros"], ["looped"], keepdims=0))
        add_to_logits(proto, "looped")

    def doubling(proto: onnx.ModelProto) -> None:
        """A function that calls the one before it twice, 26 times."""
        for depth in range(26):
            name, inner = f"f{depth}", ("", "Neg") if depth == 0 else ("own", f"f{depth - 1}")
            nodes = [
                helper.make_node(inner[1], ["x"], ["y"], domain=inner[0]),
                helper.make_node(inner[1], ["y"], ["z"], domain=inner[0]),
            ]
            opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
            proto.functions.append(helper.make_function("own", name, ["x"], ["z"], nodes, opsets))
        proto.opset_import.append(helper.make_opsetid("own", 1))
        proto.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "state0"))
        proto.graph.node.append(helper.make_node("f25", ["state0"], ["looped"], domain="own"))
        add_to_logits(proto, "looped")

    def flood(proto: onnx.ModelProto) -> None:
        last = "state0"
        proto.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), last))
        for number in range(100_000):
            proto.graph.node.append(helper.make_node("Neg", [last], [f"flood{number}"]))
            last = f"flood{number}"
        add_to_logits(proto, last)

    def remove(kind: str, name: str) -> Change:
        def change(proto: onnx.ModelProto) -> None:
            values = getattr(proto.graph, kind)
            values.remove(next(v for v in values if v.name == name))

        return change

    def more(proto: onnx.ModelProto) -> None:
        proto.graph.input.append(helper.make_tensor_value_info("more", g, [1]))

    def wrong_index(proto: onnx.ModelProto) -> None:
        proto.graph.initializer.append(numpy_helper.from_array(np.array([1 << 40]), "far"))
        proto.graph.node.append(helper.make_node("Gather", ["input_ids", "far"], ["gathered"], axis=1))
        proto.graph.node.append(helper.make_node("Cast", ["gathered"], ["looped"], to=g))
        add_to_logits(proto, "looped")

    return {
        "logits of width 1": narrow,
        "an endless loop": endless(False), "an endless loop of constants": endless(True),
        "a constant of 4 GB": large, "functions that double": doubling, "100,000 nodes": flood,
        "present missing": remove("output", "present.0.key"), "no seqlens_k": remove("input", "seqlens_k"),
        "one more input": more, "an index outside": wrong_index,
    }  # fmt: skip


def add_to_logits(proto: onnx.ModelProto, name: str) -> None:
    """Add a value to the logits, with a node at the end."""
    for node in proto.graph.node:
        node.output[:] = ["logits_before" if out == "logits" else out for out in node.output]
    proto.graph.node.append(helper.make_node("Add", ["logits_before", name], ["logits"]))


def foreign(secret: Path) -> dict[str, bytes]:
    """Graphs whose weights are outside of the bundle; protobuf adds them to the first graph."""
    found = {}
    for name, place in {
        "weights in /etc": "/etc/passwd", "weights above": "../../../secret", "absolute": str(secret),
        "unlisted": "extra.bin", "memory": "*/_ORT_MEM_ADDR_/*",
    }.items():  # fmt: skip
        tensor = TensorProto(name="foreign", data_type=TensorProto.UINT8, dims=[64])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=place)
        model = onnx.ModelProto(graph=onnx.GraphProto(initializer=[tensor]))
        found[f"external data: {name}"] = model.SerializeToString()
    return found
