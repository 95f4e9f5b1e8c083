"""What an entry takes with real tokenizers and real answers, by the benchmark that prints it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.places import ROOT


def test_an_entry_is_a_fraction_of_the_papers(data: Path) -> None:
    """At 20,000 entries: 24 bytes on disk, 64 in memory at most; the paper's took 225."""
    environment = {**os.environ, "OMNIDRAFT_DATA": str(data), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "benchmarks.cache_size", "--json"]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr
    sizes = json.loads(process.stdout)
    # Each target after GSM8K and full; Llama-3 learns the 5,340 n-grams that the method counts there.
    assert [s["entries"] for s in sizes] == [4_630, 20_000, 5_340, 20_000]
    assert all(s["disk"] <= 24 for s in sizes)
    assert all(s["memory"] <= 64 for s in sizes if s["entries"] == 20_000)
