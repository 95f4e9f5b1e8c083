"""Adopting in processes that cannot import torch; and the names of missing packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.errors import SettingError
from support.places import ROOT

pytest.importorskip("onnx", reason="adopting a graph needs onnx, which this Python does not have")

MADE = ROOT / "tests/data/optimum"
TEXTS = ("the cat sat on the mat and the dog", "who is in there? ", "{}; [] ~")
CHILD = """
import sys
from importlib.machinery import PathFinder
class Without(PathFinder):  # as if these packages were not installed
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.split(".")[0] in {"torch", "transformers", "optimum", "onnxscript"}
        return None if hidden else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Without
from omnidraft.cli import main
sys.argv = ["omnidraft", *sys.argv[1:]]
main()
"""


def run_without_torch(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, arguments)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip


def test_adopting_needs_no_torch(tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    done = run_without_torch("export", MADE / "llama", "--drafter", MADE / "gpt-neox", "-o", out, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["adopted"]["target"]["rewind"] <= 1e-5
    done = run_without_torch("generate", out, TEXTS[0], "-n", 8, "-k", 2, "--json")
    assert json.loads(done.stdout)["emitted"] == 8, done.stderr


def test_torch_is_asked_for_where_a_checkpoint_needs_it(tmp_path: Path) -> None:
    done = run_without_torch(
        "export", MADE / "llama", "--drafter", MADE / "llama-checkpoint", "-o", tmp_path / "bundle"
    )
    assert done.returncode == 1 and done.stdout == ""
    assert "llama-checkpoint needs torch, transformers, optimum, onnxscript, which this Python" in done.stderr
    assert "Traceback" not in done.stderr and not list(tmp_path.iterdir())


def test_what_adopting_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnidraft.commands.terminal import export_packages

    monkeypatch.setattr(export_packages, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"^adopting a graph needs onnx, jinja2, .*'\.\[adopt\]'"):
        export_packages.need_export_packages(str(MADE / "llama"), str(MADE / "gpt-neox"))
