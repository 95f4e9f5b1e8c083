"""Progress of a long command: a bar in a terminal, elsewhere a plain line every ten seconds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)

from omnidraft.errors import shown

EVERY = 10.0  # seconds between two plain lines; a shorter command prints none
err = Console(stderr=True, highlight=False)


class Bar:
    """A progress bar, moved by (done, total) or by (what, done, total)."""

    def __init__(self, progress: Progress, description: str) -> None:
        self._progress, self._description = progress, description
        self._task = progress.add_task(description, total=None)

    def step(self, done: int, total: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done, total=total)

    def stage(self, what: str, done: int, total: int) -> None:
        """Move the bar and name the current step."""
        self._progress.update(
            self._task, completed=done, total=total, description=f"{self._description}: {what}"
        )


class _Count(ProgressColumn):
    """How far a task is, as `2 of 9`."""

    def render(self, task: Task) -> str:
        return f"{task.completed:,.0f} of {task.total:,.0f}" if task.total else ""


@contextmanager
def progress_bar(description: str, *, quiet: bool = False) -> Iterator[Bar]:
    """A bar on standard error that is removed at the end; plain lines where that is not a terminal.

    Args:
        description: of the whole command.
        quiet: show nothing, for output that a program reads.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        _Count(),
        TimeElapsedColumn(),
    )
    drawn = err.is_terminal and not quiet
    with Progress(*columns, console=err, transient=True, disable=not drawn) as progress:
        bar = Bar(progress, description)
        if drawn or quiet:
            yield bar
            return
        ended = Event()
        # A separate thread: the longest step is often one call that reports nothing.
        writer = Thread(target=_write_lines, args=(progress, ended), daemon=True)
        writer.start()
        try:
            yield bar
        finally:
            ended.set()
            writer.join()


def _write_lines(progress: Progress, ended: Event) -> None:
    while not ended.wait(EVERY):
        sys.stderr.write(f"omnidraft: {line_of(progress.tasks[0])}\n")
        sys.stderr.flush()


def line_of(task: Task) -> str:
    """A task as one plain line: its name, how far it is, how long it has run."""
    far = f", {task.completed:,.0f} of {task.total:,.0f} ({task.percentage:.0f} %)" if task.total else ""
    return f"{task.description}{far}, {timedelta(seconds=int(task.elapsed or 0))}"


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Say on a terminal's standard error that a bundle is being loaded; the line is removed at the end.

    No bar: loading can end the process at once, which would leave the terminal without its cursor.
    """
    drawn = sys.stderr.isatty()
    if drawn:
        sys.stderr.write(f"loading {shown(name)} ...\r")
        sys.stderr.flush()
    try:
        yield
    finally:
        if drawn:
            sys.stderr.write("\x1b[K")
            sys.stderr.flush()
