"""What an axis is: its points, how one of them is measured, and what its table and its panels show."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Settings = Mapping[str, Any]  # everything that the outcome depends on, as plain values
Row = dict[str, Any]  # one row of the table, from one repetition


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: as it is printed.
        field: of the rows.
        form: of the number, as in `format`.
    """

    title: str
    field: str
    form: str = ".2f"


@dataclass(frozen=True)
class Panel:
    """One panel of the figure.

    Attributes:
        label: of the vertical axis, with its unit.
        lines: names in the legend and the fields that they show.
        log: whether the vertical axis is logarithmic.
    """

    label: str
    lines: Mapping[str, str]
    log: bool = True


@dataclass(frozen=True)
class Axis:
    """One quantity that grows.

    Attributes:
        name: as in `--axis`.
        title: of the quantity, with its unit.
        x: field of the rows that grows.
        series: field of the rows that tells curves apart; None where there is one curve.
        points: settings of each measurement; it takes whether they are small.
        measure: the rows of one measurement, in a process of its own; it takes the settings and a directory
            for bundles.
        columns: of the table.
        panels: the upper one shows time, the lower one memory.
    """

    name: str
    title: str
    x: str
    points: Callable[[bool], Sequence[Settings]]
    measure: Callable[[Settings, Path], list[Row]]
    columns: Sequence[Column]
    panels: tuple[Panel, Panel]
    series: str | None = None
