"""Printing to a terminal: the consoles, lines that are not broken, and sizes in bytes."""

from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from omnidraft.commands.terminal.progress import err as err
from omnidraft.commands.terminal.progress import progress_bar as progress_bar
from omnidraft.commands.terminal.sizes import size as size
from omnidraft.errors import shown

out = Console(highlight=False)


class Table(RichTable):
    """A table whose title and cells may be text of any origin: no markup, and no control characters."""

    def __init__(self, *, title: str | None = None, **options: Any) -> None:
        super().__init__(title=None if title is None else Text(shown(title)), **options)

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row; strings are shown as they are."""
        super().add_row(*(Text(shown(cell)) if isinstance(cell, str) else cell for cell in cells), **options)


def say(line: str) -> None:
    """Print one line unbroken, so that a program that reads a pipe can count lines."""
    out.print(line, markup=False, soft_wrap=True)
