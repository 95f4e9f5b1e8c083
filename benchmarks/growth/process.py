"""Processes: a function that is called in a new one, and the memory that this one holds."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

from benchmarks.soak import resident

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def apart(
    function: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """What a function of a module returns, called in a new process: the memory of this one does not grow."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(function, *arguments, **named).result()


def held(before: float = 0.0) -> float:
    """Resident megabytes of this process, less those of an earlier call."""
    return round(resident() / 1e6 - before, 6)  # all digits: memory is whole bytes
