"""Check that onnxruntime reports nothing: a new process with an empty home directory runs a graph."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from omnidraft.doctor.check import Check

VARIABLE = "ORT_DISABLE_TELEMETRY"
# y = Identity(x), float32 [1], opset 20, as 67 bytes of ONNX; no other package is needed to write them.
TINY = bytes.fromhex(
    "080a12003a370a100a017812017922084964656e746974791201675a0f0a0178120a0a08080112040a020801620f0a0179"
    "120a0a08080112040a02080142040a001014"
)
_CHILD = """
import json, os, sys
seen = []
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            seen.append(os.environ.get("ORT_DISABLE_TELEMETRY"))
sys.meta_path.insert(0, Watch())
import {module}
import numpy, onnxruntime
graph = sys.stdin.buffer.read()
session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
session.run(None, {{"x": numpy.ones(1, numpy.float32)}})
print(json.dumps(seen[0]))
"""
_PLACES = (
    "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "XDG_STATE_HOME", "TMPDIR",
)  # fmt: skip


def telemetry_check(module: str = "omnidraft") -> Check:
    """Run a graph in a program that begins with `import omnidraft`, and check that it wrote no file."""
    remedy = f"set {VARIABLE}=1 in the environment before onnxruntime is used, and report this"
    with tempfile.TemporaryDirectory() as home:
        try:
            seen = _run(module, home)
        except (OSError, subprocess.SubprocessError, ValueError, RuntimeError) as error:
            why = (str(error).strip().splitlines() or ["no reason given"])[-1][:200]
            return Check("telemetry", "fail", f"could not be tried ({why})", remedy)
        written = sorted(f.relative_to(home).as_posix() for f in Path(home).rglob("*") if f.is_file())
    details = {"before_loading": seen, "in_this_process": os.environ.get(VARIABLE), "files_written": written}
    if written:
        return Check("telemetry", "fail", f"onnxruntime wrote {', '.join(written)}", remedy, details)
    if seen != "1":
        return Check(
            "telemetry", "fail", f"{VARIABLE} was {seen!r} when onnxruntime was loaded", remedy, details
        )
    message = f"off: {VARIABLE}=1 before onnxruntime was loaded; a trial run in an empty home wrote no file"
    return Check("telemetry", "ok", message, details=details)


def _run(module: str, home: str) -> str | None:
    """The value of the variable when a new process imported onnxruntime."""
    environment = {k: v for k, v in os.environ.items() if k != VARIABLE} | dict.fromkeys(_PLACES, home)
    # Packages may be below the real home directory, or the path may have been changed.
    environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    child = subprocess.run(
        [sys.executable, "-B", "-c", _CHILD.format(module=module)],
        input=TINY, capture_output=True, env=environment, timeout=120,
    )  # fmt: skip
    if child.returncode:
        raise RuntimeError(child.stderr.decode(errors="replace"))
    value = json.loads(child.stdout)
    return None if value is None else str(value)
