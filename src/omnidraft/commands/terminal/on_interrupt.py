"""Ctrl-C in a long command: one line that says what is kept, and exit status 130."""

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec

import typer

P = ParamSpec("P")


def tells_when_interrupted(
    kept: Callable[[Mapping[str, Any]], str],
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """For a command that may be broken off.

    Args:
        kept: from the command's arguments by name, what is there afterwards and how to go on; nothing is
            printed where it is empty.
    """

    def decorate(command: Callable[P, None]) -> Callable[P, None]:
        @wraps(command)
        def run(*args: P.args, **values: P.kwargs) -> None:
            try:
                command(*args, **values)
            except KeyboardInterrupt:
                if told := kept(values):
                    sys.stderr.write(f"omnidraft: stopped; {told}\n")
                raise typer.Exit(130) from None

        return run

    return decorate
