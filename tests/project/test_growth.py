"""The cost of growth: every axis measures, a run goes on where it was, the tables are those of the lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

pytest.importorskip("rich")

from benchmarks.growth.__main__ import FIGURE, PAGE, main
from benchmarks.growth.axes import AXES, RESULTS
from benchmarks.growth.free_models import FreePair
from benchmarks.growth.host import host_cost
from benchmarks.growth.plot import draw
from benchmarks.growth.synthetic_map import synthetic_map
from benchmarks.growth.tables import merged, rows_of, table, with_tables
from benchmarks.support.json_lines import append, read
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import decode_vocab_map

POINTS = {"vocabulary": [8_192], "context": [32, 64], "cache": [50, 500], "sessions": [1, 3], "k": [1, 16]}
COMMENTS = "".join(f"<!-- growth: {name} -->\nold\n<!-- growth: {name}, end -->\n" for name in AXES)


@pytest.fixture(scope="module")
def bundles(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the bundles of the quick run are exported already."""
    place = tmp_path_factory.mktemp("growth")
    for name in ("starter-a", "starter-a-256", "random-8192"):
        (place / name).symlink_to(bundle)
    return place


@pytest.mark.parametrize("name", AXES)
def test_an_axis_gives_a_row_for_each_point(name: str, bundles: Path, tmp_path: Path) -> None:
    axis, results = AXES[name], tmp_path / "growth.jsonl"
    arguments = ["--quick", "--axis", name, "--results", str(results), "--bundles", str(bundles)]
    main(arguments)
    (line,) = read(results)
    assert set(line) == {"axis", "repeat", "settings", "commit", "seconds", "rows"}
    assert line["axis"] == name and line["settings"] == axis.points(True)[0] and line["commit"]
    assert [row[axis.x] for row in line["rows"]] == POINTS[name]
    shown = [column.field for column in axis.columns]
    shown += [field for panel in axis.panels for field in panel.lines.values()]
    assert all(np.isfinite(row[field]) for row in line["rows"] for field in shown)
    before = results.read_bytes()
    main(arguments)
    assert results.read_bytes() == before, "what is there was measured again"


def test_a_line_that_a_kill_cut_is_dropped(tmp_path: Path) -> None:
    results = tmp_path / "growth.jsonl"
    append(results, {"axis": "k", "rows": [1]})
    whole = results.read_bytes()
    results.write_bytes(whole + whole[:-1])
    assert len(read(results)) == 1
    append(results, {"axis": "k", "rows": [2]})
    assert [line["rows"] for line in read(results)] == [[1], [2]]


@pytest.mark.parametrize("size", [8_192, 40_000])
def test_a_synthetic_map_passes_every_check_of_a_real_one(size: int) -> None:
    made = synthetic_map(size, 2_000)
    vocab_map = decode_vocab_map(save(made.tensors(), metadata=made.metadata()))
    assert vocab_map.target_size == size == len(vocab_map.leaves)
    direct = int((vocab_map.direct >= 0).sum())
    assert direct == min(int(0.36 * size), 1_600)
    assert NgramCache(vocab_map).prefill() == size - direct


def test_host_work_grows_with_the_vocabulary_in_memory_that_is_counted() -> None:
    """At temperature 1 rounds share a row of the width of the vocabulary, and keep most of their memory."""
    peaks = []
    for size in (4_000, 40_000):
        cache = NgramCache(synthetic_map(size, 1_000))
        cost = host_cost(FreePair(cache.map, 5), cache, 1.0, 6)
        assert cost.emitted > 1.0 and 0.0 < cost.host < cost.outside
        assert cost.peak / 2 < cost.kept <= cost.peak
        peaks.append(cost.peak)
    row = 4 * (40_000 - 4_000) / 1e6  # float32, MB
    assert row <= peaks[1] - peaks[0] < 2 * row


def lines_of(name: str) -> list[dict[str, Any]]:
    """Three repetitions of two points."""
    axis = AXES[name]
    fields = {c.field for c in axis.columns} | {f for panel in axis.panels for f in panel.lines.values()}
    series = {axis.series: "synthetic"} if axis.series else {}
    rows = [
        [dict.fromkeys(fields, value) | {axis.x: x} | series for x in (2, 1)] for value in (1.0, 9.0, 2.0)
    ]
    return [{"axis": name, "repeat": i, "settings": {}, "rows": each} for i, each in enumerate(rows)]


@pytest.mark.parametrize("name", AXES)
def test_a_table_has_the_median_of_the_repetitions(name: str) -> None:
    axis, lines = AXES[name], lines_of(name)
    rows = merged(axis, rows_of(lines, name))
    assert [row[axis.x] for row in rows] == [1, 2]
    others = {value for row in rows for field, value in row.items() if field not in (axis.x, axis.series)}
    assert others == {2.0}
    assert len(list(table(axis, lines))) == 4


def test_tables_go_to_their_places_and_the_figure_shows_every_axis(tmp_path: Path) -> None:
    lines = [line for name in AXES for line in lines_of(name)]
    page = with_tables(f"before\n{COMMENTS}after\n", AXES.values(), lines)
    assert "old" not in page and page.startswith("before\n") and page.endswith("after\n")
    assert with_tables(page, AXES.values(), lines) == page
    for axis in AXES.values():
        assert "\n".join(table(axis, lines)) in page
    with pytest.raises(ValueError, match="no <!-- growth: vocabulary -->"):
        with_tables("before", AXES.values(), lines)
    draw(list(AXES.values()), lines, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes()[:4] == b"\x89PNG"


def test_the_published_tables_are_those_of_the_published_lines() -> None:
    lines = read(RESULTS)
    assert {line["axis"] for line in lines} == set(AXES)
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page, AXES.values(), lines) == page, "run python -m benchmarks.growth --table"
    assert FIGURE.is_file()
