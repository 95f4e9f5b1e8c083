"""A line on the terminal while a bundle is loaded, where that takes long."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from omnidraft.errors import shown

AFTER = 1.0  # seconds; what is faster says nothing


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Say on a terminal's standard error that a bundle is being loaded; the line is removed at the end."""
    if not sys.stderr.isatty():
        yield
        return
    line, written = f"loading {shown(name)} ...", []

    def write() -> None:
        written.append(line)
        sys.stderr.write(line)
        sys.stderr.flush()

    timer = Timer(AFTER, write)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if written:
            sys.stderr.write(f"\r{' ' * len(line)}\r")
            sys.stderr.flush()
