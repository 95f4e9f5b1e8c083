"""The wider checkpoints of the benchmarks have the function of the small ones."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors.torch")

from benchmarks.scale.widen import Scale, Shape, WidenError, largest_difference, widen

STARTERS = Path(__file__).parents[2] / "examples" / "starters"


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_wider_target_gives_the_same_distributions(name: str, tmp_path: Path) -> None:
    count = widen(STARTERS / name, Scale(hidden=512, layers=7, mlp=1024), tmp_path / "wide")
    difference, spread = largest_difference(STARTERS / name, tmp_path / "wide")
    assert difference < 1e-4 < 1 < spread
    assert count > 15_000_000


@pytest.mark.parametrize(
    ("to", "word"),
    [
        (Scale(hidden=128, layers=6, mlp=640), "smaller"),
        (Scale(hidden=320, layers=6, mlp=640), "KV heads"),
        (Scale(hidden=512, layers=6, mlp=650), "32"),
    ],
)
def test_a_scale_that_does_not_hold_the_model_is_refused(to: Scale, word: str) -> None:
    shape = Shape.of(json.loads((STARTERS / "a" / "config.json").read_text()))
    with pytest.raises(WidenError, match=word):
        shape.check(to)
