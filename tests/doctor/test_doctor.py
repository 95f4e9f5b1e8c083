"""`omnidraft doctor`: checks that pass, warn or fail; each of the latter two with a remedy."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuzz.fuzz_graph import field
from omnidraft.doctor import environment, examine, mobile, pair
from omnidraft.doctor.check import Check
from omnidraft.doctor.environment import core_check, optional_check, providers_check, python_check
from omnidraft.doctor.placement import placement
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST, sealed
from omnidraft.runtime.bundle.places import CPU, Form, Place, Provider
from omnidraft.runtime.models import engine_memory
from omnidraft.runtime.models.onnx_session import ENGINE
from omnidraft.runtime.session.measure import known_costs
from support.command_line import Run
from support.manifests import rewrite

FOLDS_IN_BOUNDS = tuple(map(int, ENGINE.split(".")[:2])) >= (1, 31)  # 1.23 does not, between not tried
Doctor = Callable[..., tuple[int, str]]  # arguments -> exit status, standard output


@pytest.fixture
def doctor(run: Run) -> Doctor:
    return lambda *arguments: run("doctor", *arguments)[:2]


def health(bundle: Path) -> list[Check]:
    """The checks of a bundle by its manifest."""
    opened = open_bundle(bundle)
    return pair.health_checks(opened, known_costs(opened))


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_the_machine_alone(doctor: Doctor) -> None:
    code, out = doctor("--json")
    assert code == 0
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert {"python", "packages", "providers", "telemetry", "free memory"} <= set(checks)
    assert "bundle" not in checks
    assert checks["telemetry"]["details"]["files_written"] == []
    assert CPU in checks["providers"]["details"]["available"]


def test_a_bundle(doctor: Doctor, run: Run, bundle: Path) -> None:
    code, out = doctor(bundle)
    assert code == 0, out
    assert "all hashes match" in out
    verdict = out.splitlines()[0]
    assert verdict.startswith("this bundle runs on this machine")
    _, as_json = doctor(bundle, "--json")  # by the costs that the first call measured and kept
    (drafting,) = [check for check in json.loads(as_json)["checks"] if check["name"] == "drafting"]
    speed_up = drafting["details"]["ratio"]
    said = f"{speed_up:.2f}x of plain decoding is expected here", "nothing was drafted or copied"
    assert any(words in verdict for words in said), "the latter on a machine where no draft pays"
    assert f"{speed_up:.2f}x is expected here" in run("inspect", bundle)[1], "every command has one estimate"
    assert re.search(r"acceptance: .* with 4 at a time a pass of the target gives ", out)
    assert all(re.match(r"(ok|warn|fail) +\S|      -> ", line) for line in out.splitlines()[2:-1])


@pytest.mark.skipif(sys.platform == "darwin", reason="CoreML is there on a Mac")
def test_an_estimate_is_that_of_onnxruntimes_own_checker(tmp_path: Path) -> None:
    """Three nodes that CoreML supports around one that it does not: two partitions, one node left."""
    pytest.importorskip("onnx", reason="making a graph needs the package onnx")
    from onnx import TensorProto, helper, save

    info = helper.make_tensor_value_info
    names = ["x", "a", "b", "c", "y"]
    operators = ["Relu", "Sigmoid", "Hardmax", "Relu"]
    nodes = [helper.make_node(op, [names[i]], [names[i + 1]], name=f"n{i}") for i, op in enumerate(operators)]
    inputs, outputs = [info("x", TensorProto.FLOAT, [1, 4])], [info("y", TensorProto.FLOAT, [1, 4])]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    file = tmp_path / "g.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), file)
    coreml = mobile.estimate(file, "CoreMLExecutionProvider")
    assert (coreml.nodes, coreml.taken, coreml.partitions) == (4, 3, 2)
    assert coreml.left == {"Hardmax": 1}
    assert "by lists of what it supports: runs 3 of 4 operations in 2 parts" in coreml.sentence()


def with_constant(file: Path, count: int) -> Path:
    """Write a graph whose constant has `count` float32 values; the file stores the count, not the values."""
    from onnx import TensorProto, helper, save

    info = helper.make_tensor_value_info
    nodes = [helper.make_node("ConstantOfShape", ["size"], ["ones"]),
             helper.make_node("Add", ["ones", "x"], ["y"])]  # fmt: skip
    size = helper.make_tensor("size", TensorProto.INT64, [1], [count])
    inputs, outputs = [info("x", TensorProto.FLOAT, [1])], [info("y", TensorProto.FLOAT, [count])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [size])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), file)
    return file


def test_a_constant_of_any_size_is_not_computed(bundle: Path, tmp_path: Path) -> None:
    """It stays a node of the graph: 512 MB, of which a file of 150 bytes says the size."""
    pytest.importorskip("onnx", reason="making a graph needs the package onnx")
    file, opened = with_constant(tmp_path / "g.onnx", 1 << 27), open_bundle(bundle)
    assert engine_memory.engine_bytes(opened) < 4 << 27
    estimated = mobile.estimate(file, "NnapiExecutionProvider")
    assert (estimated.nodes, estimated.left["ConstantOfShape"]) == (2, 1)
    if FOLDS_IN_BOUNDS:
        assert placement(opened, file, CPU).nodes == 2
        assert placement(opened, with_constant(file, 1 << 10), CPU).nodes == 1


def test_a_changed_file_fails(doctor: Doctor, copy: Path) -> None:
    file = copy / "vocab_map.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    code, out = doctor(copy)
    assert code == 1
    assert re.search(r"fail  bundle: .*vocab_map.safetensors was changed", out)
    assert re.match(r"this does not work: bundle: .*vocab_map.safetensors was changed.*; ", out)
    assert "-> " in out.split("fail  bundle")[1]
    assert out.rstrip().endswith("1 failure")


def test_a_graph_that_no_load_takes_is_not_loaded(doctor: Doctor, copy: Path) -> None:
    """Any graph that is listed: what it names could be opened, and what it holds could take for ever."""
    graph = field(7, field(5, field(13, field(1, b"location"), field(2, b"/etc/passwd"))))
    manifest = json.loads((copy / MANIFEST).read_text())
    for name, data in {"other.onnx": graph, "loop.onnx": field(7, field(1, field(5, field(6))))}.items():
        (copy / name).write_bytes(data)
        manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    (copy / MANIFEST).write_bytes(sealed(manifest))
    code, out = doctor(copy)
    assert code == 1
    assert re.search(r"fail  other.onnx: .*is refused: its weights are in '/etc/passwd'", out)
    assert re.search(r"fail  loop.onnx: .*is refused: it holds a graph inside a node", out)


def test_no_bundle_fails(doctor: Doctor, tmp_path: Path) -> None:
    code, out = doctor(tmp_path / "none", "--json")
    assert code == 1
    result = json.loads(out)
    assert result["failed"] == 1 and result["verdict"].startswith("this does not work: bundle: no bundle at")


def test_a_bundle_that_learns_has_no_false_alarm(learnable: Path) -> None:
    """Training graphs share the weights of the drafter's graph."""
    checks = examine.examine(learnable)
    alarms = [
        check for check in checks if check.verdict != "ok" and check.name not in ("drafting", "acceptance")
    ]
    assert alarms == []


def test_a_static_graph_is_for_the_providers_of_its_form(bundle: Path) -> None:
    opened = open_bundle(bundle)
    forms = {
        name: Form({1: f"target/npu/{name}.onnx"}, f"target/npu/{name}.bin", -1e4) for name in ("f", "q")
    }
    places = {
        "npu": Place(forms["f"], "host", 64),
        "coreml": Place(forms["f"], "host", 64, Provider("CoreMLExecutionProvider")),
        "qnn": Place(forms["q"], "host", 64, Provider("QNNExecutionProvider")),
    }
    with_places = replace(opened, target=replace(opened.target, places=places))
    for name, providers in (
        ("target/npu/f.onnx", {"CoreMLExecutionProvider"}),
        ("target/npu/q.onnx", {"QNNExecutionProvider"}),
        (opened.target.graph, set()),
    ):
        assert examine.accelerators_of(with_places, name) == providers


def test_a_file_that_is_no_graph_fails(copy: Path) -> None:
    file = copy / "drafter/cpu/model.onnx"
    file.write_bytes(b"no graph")
    size = {"bytes": 8, "sha256": hashlib.sha256(b"no graph").hexdigest()}
    rewrite(copy, lambda m: m["files"].update({"drafter/cpu/model.onnx": size}))
    checks = by_name(examine.examine(copy))
    assert checks["bundle"].verdict == "ok"
    assert checks["loading"].verdict == "fail"
    assert "drafter/cpu/model.onnx is refused: " in checks["loading"].message
    assert checks["drafter/cpu/model.onnx"].verdict == "fail"


def test_signatures(copy: Path, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="signatures need the package cryptography")
    from omnidraft.signing import make_keys, sign_bundle

    private, public, name = make_keys(tmp_path / "k")
    assert by_name(examine.examine(copy, public))["signature"].verdict == "fail"  # unsigned
    sign_bundle(copy, private, bytes)
    unchecked = examine._signature_check(open_bundle(copy))
    assert unchecked.verdict == "warn" and name in unchecked.message
    assert examine._signature_check(open_bundle(copy, public)).message == f"by key {name}"
    (copy / "manifest.sig").write_text("nonsense")
    assert examine._signature_check(open_bundle(copy)).verdict == "fail"


def test_files_that_nothing_covers_are_told(copy: Path) -> None:
    (copy / "notes.txt").write_text("mine")
    check = by_name(examine.examine(copy))["other files"]
    assert check.verdict == "warn" and "notes.txt" in check.message


def test_memory(bundle: Path) -> None:
    opened = open_bundle(bundle)
    assert pair.memory_check(opened, 10**12).verdict == "ok"
    assert pair.memory_check(opened, None).verdict == "ok"
    plain = pair.memory_check(opened, None).details["without_drafter"]
    short = pair.memory_check(opened, plain + 1)
    assert short.verdict == "warn" and "drafter = false" in short.remedy
    assert pair.memory_check(opened, plain - 1).verdict == "fail"


def test_short_memory_loads_nothing(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "available_bytes", lambda: 1_000_000)
    monkeypatch.setattr(examine, "load_bundle", lambda *_: pytest.fail("loaded"))
    assert by_name(examine.examine(bundle))["graphs"].message.startswith("not loaded")


@pytest.mark.parametrize(
    ("before", "after", "verdict", "words"),
    [
        (0.2, 0.2, "ok", ""),
        (0.01, 0.0, "warn", "no better than chance"),
    ],
)
def test_acceptance(copy: Path, before: float, after: float, verdict: str, words: str) -> None:
    def change(manifest: dict[str, Any]) -> None:
        for when, value in (("before", before), ("after", after)):
            manifest["checks"]["acceptance"][when]["of_drafted"] = value

    rewrite(copy, change)
    check = by_name(health(copy))["acceptance"]
    assert check.verdict == verdict and words in check.remedy


def test_a_manifest_that_measured_nothing_is_told(copy: Path) -> None:
    rewrite(copy, lambda m: m.update(checks={}))
    for check in health(copy):
        assert check.verdict == "warn" and check.message == "the manifest does not have it"


@pytest.mark.parametrize(
    ("passes", "faster"), [([1.0] * 13, True), ([1.0 + 3.0 * i for i in range(13)], False)]
)
def test_the_speed_that_the_costs_allow(copy: Path, passes: list[float], faster: bool) -> None:
    """If a block costs nothing, every accepted token is a gain; if it costs three passes, none is."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["costs"] = {"target": passes, "draft": 1e-6, "host": 0.0, "acceptance": 0.85}
        text = {
            "emitted": 30,
            "lengths": {"4": 10},
            "copied_lengths": {},
            "accepted": 20,
            "accepted_copies": 0,
        }
        manifest["checks"]["texts"] = [text] * 3

    rewrite(copy, change)
    check = by_name(health(copy))["drafting"]
    assert check.verdict == ("ok" if faster else "warn")
    assert check.details["ratio"] == pytest.approx(3.0 if faster else 3.0 / 13.0, rel=1e-3)


def test_versions() -> None:
    assert python_check((3, 9)).verdict == python_check((3, 14)).verdict == "fail"
    assert python_check((3, 10)).verdict == python_check((3, 13)).verdict == "ok"
    check = optional_check("sign", {"cryptography": None})
    assert check.verdict == "ok" and "'.[sign]'" in check.remedy
    assert core_check({"numpy": "2", "tokenizers": "1"}).verdict == "ok"
    broken = core_check({"numpy": "2", "tokenizers": None})
    assert (broken.verdict, broken.message) == ("fail", "tokenizers not installed (numpy 2)")
    assert broken.remedy == "run `pip install tokenizers`"
    assert providers_check([]).verdict == "fail"
    assert "never uses AzureExecutionProvider" in providers_check([environment.CLOUD, CPU]).message


@pytest.mark.skipif(sys.platform != "linux", reason="where onnxruntime keeps its device id was seen on Linux")
def test_telemetry_is_noticed_where_it_is_on() -> None:
    """The same check without omnidraft: it must be able to fail."""
    check = environment.telemetry_check("json")
    assert check.verdict == "fail" and check.remedy
    assert check.details["before_loading"] is None
    off = environment.telemetry_check()
    assert off.verdict == "ok"
    assert off.details["before_loading"] == "1"


def test_it_runs_with_the_core_packages_alone(bundle: Path) -> None:
    """In a process in which torch, onnx and the others cannot be imported."""
    code = f"""
import sys
absent = {{"torch", "transformers", "optimum", "onnx", "onnxscript", "jinja2", "cryptography", "matplotlib"}}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
import importlib.util, importlib.metadata
find, version = importlib.util.find_spec, importlib.metadata.version
importlib.util.find_spec = lambda name, *rest: None if name in absent else find(name, *rest)
def without(name):
    if name in absent:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = without
from omnidraft.cli import main
sys.argv = ["omnidraft", "doctor", {str(bundle)!r}]
main()
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "torch, transformers, optimum, onnx, onnxscript, jinja2 not installed" in process.stdout
    assert "Traceback" not in process.stderr
