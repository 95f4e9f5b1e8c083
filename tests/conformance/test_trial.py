"""The trial implementation of level core (JavaScript) passes its vectors, and they catch its breakages.

`make trial` runs all breakages; here a handful of them shows that a breakage is caught at all.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

TRIAL = Path(__file__).resolve().parents[2] / "spec" / "trial"
MUTANTS = ["shift_30", "window_never_slides", "residual_without_reach"]

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed, and spec/trial needs it"
)


def node(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A run of node in the folder of the trial."""
    return subprocess.run(
        ["node", *arguments], cwd=TRIAL, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_trial_passes_all_vectors_of_level_core() -> None:
    ran = node("run.mjs")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_breakages_of_the_trial_are_caught() -> None:
    ran = node("mutate.mjs", "--json", "--only", ",".join(MUTANTS))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    verdicts = {mutant["name"]: mutant["verdict"] for mutant in json.loads(ran.stdout)}
    assert verdicts == dict.fromkeys(MUTANTS, "caught")


def test_a_replacement_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    copy = shutil.copytree(TRIAL, tmp_path / "trial", ignore=shutil.ignore_patterns("node_modules"))
    source = (copy / "decoding" / "random.mjs").read_text(encoding="utf-8")
    (copy / "decoding" / "random.mjs").write_text(source.replace("z >> 30n", "z >> 29n"), encoding="utf-8")
    ran = node(str(copy / "mutate.mjs"), "--only", "shift_30")
    assert ran.returncode != 0
    assert "shift_30" in ran.stderr
