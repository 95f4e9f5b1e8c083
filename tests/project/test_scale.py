"""Speeds and limits of the benchmark at the cost of a phone-size target."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors.torch")

from benchmarks.scale.tables import Line, limit, mean, ratio, tables

PASSES = (10.0, 11.0, 12.0, 13.0)


def line(task: str, seconds: float) -> Line:
    """Four tokens: a pass over three with two drafts, and a copy of one token; a plain token takes 10 s."""
    drafting = {
        "emitted": 4, "rounds": 2, "seconds": seconds, "lengths": {"2": 1}, "copied": {"1": 1},
    }  # fmt: skip
    return {
        "key": {"target": "a", "scale": "0.5B", "form": "int4", "threads": 1, "temperature": 0.0},
        "task": task,
        "commit": "0",
        "plain": [{"emitted": 4, "seconds": 38.0}, {"emitted": 4, "seconds": 42.0}],
        "arms": dict.fromkeys(("learned", "untrained", "hostile"), drafting),
        "costs": {"target": PASSES, "draft": 0.5, "host": 0.1},
    }


def test_a_speed_is_over_both_plain_runs() -> None:
    assert ratio(line("code", 20.0), "learned") == pytest.approx(2.0)


def test_the_limit_takes_the_measured_parts_alone() -> None:
    # A pass over three tokens and two drafts, and a pass over two tokens: 12 + 2 * 0.5 + 11 seconds.
    assert limit(line("code", 20.0), "learned") == pytest.approx(4 * 10.0 / 24.0)


def test_a_table_has_a_row_for_each_drafter() -> None:
    rows = list(tables([line("code", 20.0), line("words", 40.0)]))
    learned = next(row for row in rows if "| learned |" in row)
    assert "2.00x | 1.00x | 1.41x" in learned and "| 1.00x | 2.00 |" in learned
    assert mean([2.0, 8.0]) == pytest.approx(4.0)
    assert rows[-1].endswith("| 2 | 0 |")
    assert sum(row.startswith("| 0.5B") for row in rows) == 4
