"""Loading the runtime loads no heavy package, reports nothing and writes nothing for the user to find."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_generation_leaves_nothing_in_the_users_directories(bundle: Path, tmp_path: Path) -> None:
    """onnxruntime keeps an event store in the home directory where its telemetry is on."""
    code = f"""
import omnidraft
answer = omnidraft.load({str(bundle)!r}).generate("Once upon a time", max_new_tokens=8).finish()
print(len(answer.token_ids))
"""
    assert 1 <= int(run(code, tmp_path)) <= 8
    assert not list(tmp_path.rglob("*"))
