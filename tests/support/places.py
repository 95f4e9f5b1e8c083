"""Where the repository and its example models are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STARTERS = ROOT / "examples/starters"
