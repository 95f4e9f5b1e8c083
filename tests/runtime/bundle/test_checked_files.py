"""What a bundle's graphs may name: weights inside the bundle; and files that are used as they were hashed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from omnidraft.errors import BundleError
from omnidraft.packing.share_drafter import share_drafter
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.checked_files import checked_bytes, checked_graph, checked_step
from omnidraft.runtime.bundle.external_data import (
    MOST_FIELDS,
    MOST_NODES,
    MOST_TENSORS,
    MOST_USES,
    GraphFileError,
    external_files,
)
from omnidraft.runtime.bundle.hashes import Verify
from omnidraft.runtime.bundle.manifest_file import MANIFEST, sealed
from omnidraft.runtime.bundle.places import read_places
from omnidraft.runtime.parts.pack_index import INDEX, PackIndex, write_index
from omnidraft.runtime.session.api import load_bundle
from support.packable import packable


def length(number: int) -> bytes:
    """A number of a protobuf message."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def field(number: int, content: bytes) -> bytes:
    return length(number << 3 | 2) + length(len(content)) + content


def tensor(place: str, key: bytes = b"location") -> bytes:
    return field(13, field(1, key) + field(2, place.encode())) + b"\x70\x01"  # data_location: EXTERNAL


def model(place: str) -> bytes:
    return field(7, field(5, tensor(place)))


def test_the_files_are_those_that_onnx_reads() -> None:
    onnx = pytest.importorskip("onnx", reason="graphs are made with onnx")
    made = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=1)
    made.external_data.add(key="location", value="model.onnx.data")
    made.external_data.add(key="offset", value="0")
    node = onnx.helper.make_node("Constant", [], ["y"], value=made)
    proto = onnx.helper.make_model(onnx.GraphProto(name="g", node=[node]))
    assert external_files(proto.SerializeToString()) == {"model.onnx.data"}
    inner = onnx.GraphProto(name="inner", initializer=[made])
    branch = onnx.helper.make_node("If", ["c"], ["y"], then_branch=inner)
    with pytest.raises(GraphFileError, match="a graph inside a node"):
        external_files(onnx.helper.make_model(onnx.GraphProto(name="g", node=[branch])).SerializeToString())
    function = onnx.helper.make_function("own", "f", ["x"], ["y"], [node], [])
    with pytest.raises(GraphFileError, match="a function"):
        external_files(onnx.helper.make_model(onnx.GraphProto(), functions=[function]).SerializeToString())


def test_a_graph_of_more_parts_than_the_limits_is_refused() -> None:
    spoiled = {
        "nodes": field(7, field(1, b"") * (MOST_NODES + 1)),
        "tensors": field(7, field(5, b"") * (MOST_TENSORS + 1)),
        "uses": field(7, field(1, field(1, b"x") * (MOST_USES + 1))),
        "fields": field(7, b"\x18\x01" * (MOST_FIELDS + 1)),
        "fields of a shape": field(7, field(13, field(2, field(1, field(2, field(1, b"") * MOST_FIELDS))))),
        "fields of a property": field(14, field(99, b"") * MOST_FIELDS),
    }
    for name, data in spoiled.items():
        with pytest.raises(ValueError, match=r".") as caught:
            external_files(data)
        assert str(caught.value).isprintable(), name


def rewrite(place: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest, list its files as they are now, and seal it again."""
    manifest = json.loads((place / MANIFEST).read_text())
    change(manifest)
    for name in manifest["files"]:
        data = (place / name).read_bytes()
        manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    (place / MANIFEST).write_bytes(sealed(manifest))


def same(_: dict[str, Any]) -> None:
    """No change."""


def test_no_graph_of_a_bundle_reads_a_foreign_file(copy: Path, tmp_path: Path) -> None:
    """However onnxruntime treats such names, and whichever graph of the bundle it is."""
    (tmp_path / "secret").write_bytes(b"TOP SECRET, 0123")
    (copy / "drafter/cpu/unlisted.bin").write_bytes(b"TOP SECRET, 0123")
    for graph in ("target/cpu/model.onnx", "drafter/cpu/model.onnx"):
        file = copy / graph
        whole = file.read_bytes()
        for place in ("../../../secret", str(tmp_path / "secret"), "unlisted.bin"):
            file.write_bytes(whole + model(place))  # protobuf adds the second graph to the first
            rewrite(copy, same)
            with pytest.raises(BundleError, match=r"is refused: its weights are in") as caught:
                load_bundle(open_bundle(copy))
            assert caught.value.fault == "outside"
        file.write_bytes(whole)
    rewrite(copy, same)
    load_bundle(open_bundle(copy))


@pytest.mark.parametrize("verify", ["full", "stamp"])
def test_no_file_that_is_there_goes_unhashed(copy: Path, verify: Verify) -> None:
    """pack.json is not signed, so it cannot take a file out of the check that engines open."""
    open_bundle(copy)  # so that there are stamps
    manifest = (copy / MANIFEST).read_bytes()
    for name in json.loads(manifest)["files"]:
        index = PackIndex(hashlib.sha256(manifest).hexdigest(), "desktop", left_out={name: ()})
        (copy / INDEX).write_bytes(write_index(index))
        with pytest.raises(BundleError, match=r"leaves out .* which is in the directory") as caught:
            open_bundle(copy, verify=verify)
        assert caught.value.fault == "index"


def test_weights_that_were_left_out_are_not_opened(tmp_path: Path) -> None:
    """A shared drafter may hold them for another bundle."""
    place = packable(tmp_path / "bundle")
    share_drafter(place)
    manifest, weights = (place / MANIFEST).read_bytes(), "drafter/cpu/model.onnx.data"
    opened = open_bundle(place)
    assert checked_graph(opened, "drafter/cpu/model.onnx") == opened.file("drafter/cpu/model.onnx")
    assert checked_step(opened, "drafter/train/step.onnx", "drafter")
    index = PackIndex(hashlib.sha256(manifest).hexdigest(), "android-cpu", left_out={weights: ()})
    (place / INDEX).write_bytes(write_index(index))
    opened = open_bundle(place)
    assert opened.places.place(weights).exists()
    for check in (
        lambda: checked_graph(opened, "drafter/cpu/model.onnx"),
        lambda: checked_step(opened, "drafter/train/step.onnx", "drafter"),
    ):
        with pytest.raises(BundleError, match="was left out when") as caught:
            check()
        assert caught.value.fault == "left_out"


def test_a_graph_is_read_as_onnx_whatever_its_name_is(copy: Path) -> None:
    """Nothing can look into graphs in onnxruntime's own format."""

    def rename(manifest: dict[str, Any]) -> None:
        (copy / "target/cpu/model.onnx").rename(copy / "target/cpu/model.ort")
        manifest["files"]["target/cpu/model.ort"] = manifest["files"].pop("target/cpu/model.onnx")
        manifest["target"]["graph"] = "target/cpu/model.ort"

    rewrite(copy, rename)
    assert load_bundle(open_bundle(copy), measure="never")
    file = copy / "target/cpu/model.ort"
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.optimized_model_filepath = 4, str(copy / "made.ort")
    onnxruntime.InferenceSession(file.read_bytes(), options, providers=["CPUExecutionProvider"])
    (copy / "made.ort").replace(file)
    assert onnxruntime.InferenceSession(str(file)).get_inputs(), "the engine itself reads it"
    rewrite(copy, same)
    with pytest.raises(BundleError, match="it is no ONNX graph") as caught:
        load_bundle(open_bundle(copy), measure="never")
    assert caught.value.fault == "outside"


def step_bundle(place: Path, graph: bytes, folder: str = "drafter") -> tuple[Bundle, str]:
    """A bundle that lists a step's graph and one file of weights, and the folder that the step names."""
    files = {"drafter/train/step.onnx": graph, "drafter/cpu/w.bin": b"1234"}
    for name, data in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    listed = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in files.items()
    }
    empty: Any = None
    return Bundle(place, empty, empty, empty, empty, "", {"files": listed}), folder


def test_a_training_step_reads_weights_of_its_own_bundle_only(tmp_path: Path) -> None:
    name = "drafter/train/step.onnx"
    right = step_bundle(tmp_path, model("cpu/w.bin"))
    assert checked_step(right[0], name, right[1]) == model("cpu/w.bin")
    for place, folder in (
        ("passwd", "/etc"), ("cpu/w.bin", ".."), ("cpu/w.bin", "drafter/../drafter"), ("w.bin", "drafter"),
        ("cpu/other.bin", "drafter"), ("../../etc/passwd", "drafter"), ("/etc/passwd", "drafter"),
        ("cpu/w.bin", "drafter\\.."),
    ):  # fmt: skip
        bundle, _ = step_bundle(tmp_path, model(place))
        with pytest.raises(BundleError, match="is refused") as caught:
            checked_step(bundle, name, folder)
        assert caught.value.fault == "outside", (place, folder)


def test_the_bytes_that_are_used_are_the_bytes_that_were_hashed(tmp_path: Path) -> None:
    name = "drafter/train/step.onnx"
    bundle, folder = step_bundle(tmp_path, model("cpu/w.bin"))
    (tmp_path / name).write_bytes(model("cpu/v.bin"))  # of the same size
    with pytest.raises(BundleError, match="was changed while it was loaded") as caught:
        checked_step(bundle, name, folder)
    assert caught.value.fault == "checksum"
    with pytest.raises(BundleError, match="it has more than 3 bytes"):
        checked_bytes(bundle, "drafter/cpu/w.bin", 3)
    with pytest.raises(BundleError, match="has no hash of"):
        checked_bytes(bundle, "other", 3)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(BundleError, match="not a regular file"):
        checked_bytes(bundle, name, 1000)


def test_links_and_special_files_are_refused(copy: Path, tmp_path: Path) -> None:
    """Also with the right hash: what a link leads to is not part of the bundle."""
    graph = copy / "drafter/cpu/model.onnx"
    outside = tmp_path / "outside.onnx"
    graph.rename(outside)
    graph.symlink_to(outside)
    with pytest.raises(BundleError, match="is a link") as caught:
        open_bundle(copy)
    assert caught.value.fault == "outside"
    graph.unlink()
    os.mkfifo(graph)
    with pytest.raises(BundleError, match="missing"):
        open_bundle(copy)
    graph.unlink()
    outside.rename(graph)
    open_bundle(copy)
    (copy / "drafter").rename(tmp_path / "drafter")
    (copy / "drafter").symlink_to(tmp_path / "drafter")
    with pytest.raises(BundleError, match="drafter is a link"):
        open_bundle(copy)


NPU = {
    "kv_length": 16,
    "host": "h",
    "forms": {"float": {"mask": -1e4, "weights": "w", "graphs": [{"block": 1, "graph": "g"}]}},
}


def places(name: str = "qnn", provider: str = "QNNExecutionProvider", **entry: Any) -> dict[str, Any]:
    entry = {"form": "float", "provider": provider, "options": {}} | entry
    return {**NPU, "providers": {name: entry}}


def test_a_bundle_sets_only_options_that_name_no_file() -> None:
    right = places(options={"backend_type": "htp", "soc_model": "57"}, directories=["ModelCacheDirectory"])
    assert read_places(right)["qnn"].provider.options == {"backend_type": "htp", "soc_model": "57"}
    for wrong in (
        places(options={"backend_path": "evil.so"}),
        places(options={"backend_path": "libQnnHtp.so"}),
        places(options={"backend_type": "/tmp/evil.so"}),
        places(options={"skel_library_dir": "x"}),
        places(options={"ModelCacheDirectory": "x"}),
        places(provider="CoreMLExecutionProvider", options={"ModelCacheDirectory": "x"}),
        places(provider="NnapiExecutionProvider", options={"a": "b"}),
        places(provider="CPUExecutionProvider"),
        places(provider="evil"),
        places(directories=["backend_path"]),
    ):
        with pytest.raises(ValueError, match=r"cannot be set|is not one of|is not a directory"):
            read_places(wrong)


@pytest.mark.parametrize("name", ["npu", "cpu", "", "a b", "QNN", "\x1b[2J", "a" * 33, "-a"])
def test_a_bundle_cannot_name_a_place_that_is_built_in(name: str) -> None:
    with pytest.raises(ValueError, match="a place cannot be named"):
        read_places(places(name))
