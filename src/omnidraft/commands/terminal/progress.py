"""How far a long command is: a bar where a terminal shows it, else a plain line now and then."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn

EVERY = 10.0  # seconds between two plain lines, so what is done sooner prints none
err = Console(stderr=True, highlight=False)


class Bar:
    """What is being done and how much of it, moved by (done, total) or by (what, done, total)."""

    def __init__(self, progress: Progress, description: str) -> None:
        self._progress, self._description = progress, description
        self._task = progress.add_task(description, total=None)

    def step(self, done: int, total: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done, total=total)

    def stage(self, what: str, done: int, total: int) -> None:
        """Move the bar and say what is being done."""
        self._progress.update(
            self._task, completed=done, total=total, description=f"{self._description}: {what}"
        )


@contextmanager
def progress_bar(description: str, *, quiet: bool = False) -> Iterator[Bar]:
    """A bar on standard error, gone when it is done; where that is no terminal, a line every ten seconds.

    Args:
        description: of the whole. quiet: show neither, as where a program reads what is printed.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    drawn = err.is_terminal and not quiet
    with Progress(*columns, console=err, transient=True, disable=not drawn) as progress:
        bar = Bar(progress, description)
        if drawn or quiet:
            yield bar
            return
        ended = Event()
        # A thread of its own: what takes longest is often one call that says nothing meanwhile.
        teller = Thread(target=_tell, args=(progress, ended), daemon=True)
        teller.start()
        try:
            yield bar
        finally:
            ended.set()
            teller.join()


def _tell(progress: Progress, ended: Event) -> None:
    while not ended.wait(EVERY):
        sys.stderr.write(f"omnidraft: {line_of(progress.tasks[0])}\n")
        sys.stderr.flush()


def line_of(task: Task) -> str:
    """A task as one plain line: what, how far, for how long."""
    far = f", {task.completed:,.0f} of {task.total:,.0f} ({task.percentage:.0f} %)" if task.total else ""
    return f"{task.description}{far}, {timedelta(seconds=int(task.elapsed or 0))}"
