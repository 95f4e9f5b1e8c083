"""Printing to a terminal: the consoles, lines that are not broken, and sizes in bytes."""

from typing import Any, TextIO

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from omnidraft.commands.terminal.progress import err as err
from omnidraft.commands.terminal.progress import progress_bar as progress_bar
from omnidraft.errors import shown

out = Console(highlight=False)


class Table(RichTable):
    """A table whose title and cells may be text of any origin: no markup, and no control characters."""

    def __init__(self, *, title: str | None = None, **options: Any) -> None:
        super().__init__(title=None if title is None else Text(shown(title)), **options)

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row; strings are shown as they are."""
        super().add_row(*(Text(shown(cell)) if isinstance(cell, str) else cell for cell in cells), **options)


class AnswerWriter:
    """Writes the text of an answer as it comes.

    In a terminal an answer begins with its first character; a file or a pipe gets the text as it is.
    """

    def __init__(self, out: TextIO) -> None:
        self._out, self._begun, self._last = out, not out.isatty(), ""

    def write(self, text: str) -> None:
        """Write a piece of the answer."""
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        self._last = text or self._last
        self._out.write(text)
        self._out.flush()

    def end_line(self) -> None:
        """End the line that the answer ends in, also where it is only a part of the answer."""
        if not self._last.endswith("\n"):
            self._out.write("\n")
            self._out.flush()


def say(line: str) -> None:
    """Print one line unbroken, so that a program that reads a pipe can count lines."""
    out.print(line, markup=False, soft_wrap=True)


def size(number: int) -> str:
    """A number of bytes in words, as `1.5 MB`."""
    value = float(number)
    for unit in ("B", "kB", "MB"):
        if value < 1000.0:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000.0
    return f"{value:.2f} GB"
