"""The tolerance of float32 that spec/README.md states: the reference passes its own vectors with it."""

from __future__ import annotations

import subprocess
import sys

from conformance.vectors import ROOT, vectors_of

FOLDERS = ("random", "sampling", "verify", "generate", "logprobs", "grammar/generate")


def test_the_reference_in_float32_passes_the_vectors_of_the_core() -> None:
    script = ROOT.parent / "check_float32.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    numbers = {folder: str(len(list(vectors_of(folder)))) for folder in FOLDERS}
    assert lines == [[folder, number, "of", number] for folder, number in numbers.items()]
