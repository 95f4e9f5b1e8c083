"""What the runtime loads and writes: light packages, and no file in a user's directories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from support.places import ROOT

HEAVY = ["torch", "transformers", "onnx", "onnxscript", "optimum", "scipy", "jinja2", "cryptography"]


def run(code: str, home: Path | None = None) -> str:
    """Run code in a new interpreter, with an empty home directory if one is given; return its output."""
    environment = {k: v for k, v in os.environ.items() if k not in ("ORT_DISABLE_TELEMETRY", "PYTHONPATH")}
    environment["PYTHONPATH"] = str(ROOT / "src")
    if home is not None:
        names = ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR")
        environment |= dict.fromkeys(names, str(home))
    result = subprocess.run(
        [sys.executable, "-B", "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_omnidraft_loads_nothing_heavy() -> None:
    show = "print(json.dumps(sorted(sys.modules)))"
    first = set(json.loads(run(f"import json, sys, omnidraft; {show}")))
    assert first.isdisjoint([*HEAVY, "numpy", "onnxruntime", "tokenizers"])
    loaded = set(json.loads(run(f"import json, sys; from omnidraft import load; {show}")))
    assert "onnxruntime" in loaded and "omnidraft.runtime.session.api" in loaded
    assert loaded.isdisjoint(HEAVY)
    assert not [name for name in loaded if name.startswith(("omnidraft.export", "omnidraft.training"))]


@pytest.mark.parametrize(
    "module",
    ["omnidraft.runtime.session.api", "omnidraft.runtime.models.ort_model", "omnidraft.commands.demo.demo"],
)
def test_telemetry_is_off_before_onnxruntime_loads(module: str) -> None:
    """For every module that may be imported first, the variable is set before onnxruntime is searched for."""
    code = f"""
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            print(os.environ.get("ORT_DISABLE_TELEMETRY"))
sys.meta_path.insert(0, Watch())
import {module}
"""
    assert run(code).split() == ["1"]


def test_telemetry_is_stopped_where_onnxruntime_was_imported_first() -> None:
    """Its import has recorded one report by then, which a program is told; its API stops the others."""
    code = """
import {first}, warnings
stopped = []
stop = onnxruntime.disable_telemetry_events
onnxruntime.disable_telemetry_events = lambda: (stopped.append(1), stop())
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import omnidraft
print(len(stopped), sum("import omnidraft first" in str(each.message) for each in told))
"""
    assert run(code.replace("{first}", "onnxruntime")).split() == ["1", "1"]
    told_off = 'os; os.environ["ORT_DISABLE_TELEMETRY"] = "1"; import onnxruntime'
    assert run(code.replace("{first}, warnings", f"{told_off}, warnings")).split() == ["0", "0"]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """One row of logits for each id: a table behind the inputs that the runtime binds."""
    table = np.random.default_rng(0).normal(size=(10, 10)).astype(np.float32)
    kv = ["past_key_values.0.key", "past_key_values.0.value", "present.0.key", "present.0.value"]
    scalars = [("seqlens_k", TensorProto.INT32), ("total_sequence_length", TensorProto.INT32)]
    info, shape = helper.make_tensor_value_info, [1, 1, 32, 16]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["all"]),
        helper.make_node("Neg", ["num_logits"], ["start"]),
        helper.make_node("Slice", ["all", "start", "end", "axis"], ["logits"]),
        helper.make_node("Identity", [kv[0]], [kv[2]]),
        helper.make_node("Identity", [kv[1]], [kv[3]]),
    ]
    inputs = [
        info("input_ids", TensorProto.INT64, [1, "n"]),
        *(info(name, kind, [1]) for name, kind in scalars),
        info("num_logits", TensorProto.INT64, [1]),
        *(info(name, TensorProto.FLOAT, shape) for name in kv[:2]),
    ]
    outputs = [info("logits", TensorProto.FLOAT, [1, "m", 10])]
    outputs += [info(name, TensorProto.FLOAT, shape) for name in kv[2:]]
    constants = {"table": table, "end": np.array([2**31]), "axis": np.array([1])}
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    opset = [helper.make_opsetid("", 20)]
    model = helper.make_model(
        helper.make_graph(nodes, "table", inputs, outputs, tensors), opset_imports=opset, ir_version=10
    )
    save(model, tmp_path / "table.onnx")
    return tmp_path / "table.onnx"


def test_a_generation_leaves_nothing_in_the_users_directories(graph: Path, tmp_path: Path) -> None:
    """onnxruntime keeps an event store in the home directory where its telemetry is on."""
    home = tmp_path / "home"
    home.mkdir()
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from pathlib import Path
import omnidraft
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.models.ort_model import OrtModel
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.generation_config import GenerationConfig
from support.toy import ContextModel, toy_cache, toy_map
target = OrtModel(Path({str(graph)!r}), KvShape(1, 1, 16, 32), 10)
models = DecoderModels(target, Drafter(ContextModel(1, 8)), toy_cache(toy_map(), ["FO"]))
config = GenerationConfig(temperature=1.0, max_new_tokens=12)
rounds = list(decode_prompt(models, [0, 3], [0], config, FixedLength(3), SplitMix64(1)))
print(sum(len(r.emitted) for r in rounds))
"""
    assert run(code, home).split() == ["12"]
    assert not list(home.rglob("*"))


def test_a_real_generation_leaves_nothing_in_the_users_directories(bundle: Path, tmp_path: Path) -> None:
    code = f"""
import omnidraft
answer = omnidraft.load({str(bundle)!r}).generate("Once upon a time", max_new_tokens=8).finish()
print(len(answer.token_ids))
"""
    assert 1 <= int(run(code, tmp_path)) <= 8
    assert not list(tmp_path.rglob("*"))
