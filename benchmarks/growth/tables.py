"""The tables of the results in Markdown, and where a document has its place for each."""

import statistics
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.growth.axis import Axis, Row
from benchmarks.support.json_lines import Line


def rows_of(lines: Iterable[Line], axis: str) -> list[Row]:
    """All rows of an axis, from all repetitions."""
    return [row for line in lines if line["axis"] == axis for row in line["rows"]]


def merged(axis: Axis, rows: Iterable[Row]) -> list[Row]:
    """One row for each point of an axis: the median of every field over the repetitions."""
    groups: dict[tuple[str, float], list[Row]] = {}
    for row in rows:
        series = str(row[axis.series]) if axis.series else ""
        groups.setdefault((series, row[axis.x]), []).append(row)
    return [_median(group, axis) for _, group in sorted(groups.items(), key=lambda each: each[0])]


def _median(group: Sequence[Row], axis: Axis) -> Row:
    names = [name for name in group[0] if name != axis.series]
    row: Row = {name: statistics.median(r[name] for r in group if name in r) for name in names}
    return row | ({axis.series: group[0][axis.series]} if axis.series else {})


def table(axis: Axis, lines: Iterable[Line]) -> Iterator[str]:
    """The table of an axis; the first column names the series, where there are several.

    A field that the rows lack leaves its cell empty.
    """
    titles = ([""] if axis.series else []) + [column.title for column in axis.columns]
    yield f"| {' | '.join(titles)} |"
    yield "|" + "---|" * len(titles)
    for row in merged(axis, rows_of(lines, axis.name)):
        cells = [str(row[axis.series])] if axis.series else []
        cells += [format(row[c.field], c.form) if c.field in row else "" for c in axis.columns]
        yield f"| {' | '.join(cells)} |"


def with_tables(page: str, axes: Iterable[Axis], lines: Sequence[Line]) -> str:
    """A document with each table between the two comments that name its axis.

    Raises:
        ValueError: the document has no place for an axis that was measured.
    """
    for axis in axes:
        if rows_of(lines, axis.name):
            begin, end = (f"<!-- growth: {axis.name}{word} -->" for word in ("", ", end"))
            before, found, rest = page.partition(begin)
            _, closed, after = rest.partition(end)
            if not found or not closed:
                raise ValueError(f"the document has no {begin} and {end}")
            page = f"{before}{begin}\n\n" + "\n".join(table(axis, lines)) + f"\n\n{end}{after}"
    return page
