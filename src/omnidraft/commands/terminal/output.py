"""Printing to a terminal: the consoles, lines that are not broken, and sizes in bytes."""

from rich.console import Console

from omnidraft.commands.terminal.progress import err as err
from omnidraft.commands.terminal.progress import progress_bar as progress_bar

out = Console(highlight=False)


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
