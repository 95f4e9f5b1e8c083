"""Ctrl-C in a long command: one line that says what was kept, and exit status 130."""

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec

import typer

P = ParamSpec("P")


def tells_when_interrupted(
    describe: Callable[[Mapping[str, Any]], str],
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorator of a command that can be interrupted.

    Args:
        describe: from the command's arguments by name, what was kept and how to go on. Nothing is printed
            where it returns an empty text.
    """

    def decorate(command: Callable[P, None]) -> Callable[P, None]:
        @wraps(command)
        def run(*args: P.args, **values: P.kwargs) -> None:
            try:
                command(*args, **values)
            except KeyboardInterrupt:
                if sentence := describe(values):
                    sys.stderr.write(f"omnidraft: stopped; {sentence}\n")
                raise typer.Exit(130) from None

        return run

    return decorate
