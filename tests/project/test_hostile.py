"""A short run of the attempts that `make hostile` makes for minutes: the cage names what happens in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.places import ROOT

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the cage needs Linux")

CAGE = """
import mmap, os
from hostile.cage import SECRET, attempt
from omnidraft.errors import OmnidraftError
def refuse(): raise OmnidraftError("no")
def late(): b"x" * 800_000_000; refuse()
def panic(): os.write(2, b"thread 'x' panicked at y"); refuse()
broken = lambda: 1 // 0, lambda: b"x" * 800_000_000, late, lambda: os.abort(), lambda: SECRET, panic
for action in (lambda: 1, refuse, lambda: len(mmap.mmap(-1, 800_000_000)), *broken):
    print(attempt(action).kind)
"""


def hostile(*arguments: object) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": "tests"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_the_cage_names_what_happens_in_it() -> None:
    """A traceback, too much memory, a crash and a secret are seen: the counts of the runs can be bad.

    Memory is too much also where a refusal comes later, and not where it is only asked for.
    """
    code, out = hostile("-c", CAGE)
    broken = ["traceback", "memory", "memory", "killed", "secret", "traceback"]
    assert (code, out.split()) == (0, ["done", "refused", "done", *broken]), out


def test_hostile_manifests_end_in_a_sentence(bundle: Path) -> None:
    code, out = hostile("-m", "hostile", bundle, "--area", "manifests")
    assert code == 0 and "0 traceback, 0 hang, 0 killed, 0 secret, 0 memory" in out, out
    assert re.search(r"manifests +done [1-9], refused 2\d\n", out), out


def test_hostile_gguf_files_end_in_a_sentence(bundle: Path) -> None:
    pytest.importorskip("gguf")
    code, out = hostile("-m", "hostile", bundle, "--area", "gguf")
    assert code == 0 and "0 traceback, 0 hang, 0 killed, 0 secret, 0 memory" in out, out
    assert re.search(r"gguf +done \d+, refused \d+\n", out), out
