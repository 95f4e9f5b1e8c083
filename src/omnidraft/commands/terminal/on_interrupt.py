"""Ctrl-C in a long command: one line that says what was kept, and exit status 130."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec

import typer

P = ParamSpec("P")


@contextmanager
def telling(describe: Callable[[], str]) -> Iterator[None]:
    """Inside, Ctrl-C ends the command with a sentence.

    Args:
        describe: what was kept, and how to go on. Nothing is printed where it returns an empty text.
    """
    try:
        yield
    except KeyboardInterrupt:
        if sentence := describe():
            sys.stderr.write(f"omnidraft: stopped; {sentence}\n")
        raise typer.Exit(130) from None


def tells_when_interrupted(
    describe: Callable[[Mapping[str, Any]], str],
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorator of a command that can be interrupted.

    Args:
        describe: as in `telling`, from the command's arguments by name.
    """

    def decorate(command: Callable[P, None]) -> Callable[P, None]:
        @wraps(command)
        def run(*args: P.args, **values: P.kwargs) -> None:
            with telling(lambda: describe(values)):
                command(*args, **values)

        return run

    return decorate
