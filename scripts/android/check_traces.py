"""Compares traces that Python recorded with the same traces that the Kotlin library read and wrote again.

`check_traces.py RECORDED REWRITTEN`, two directories of traces.
"""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass

import numpy as np

from omnidraft.runtime.traces.trace_reader import read_traces


def plain(value: object) -> object:
    """A value of a trace that compares by its contents: arrays compare element by element otherwise."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(plain(getattr(value, field.name)) for field in fields(value))
    return tuple(plain(each) for each in value) if isinstance(value, tuple) else value


def main(recorded: str, rewritten: str) -> None:
    """Compare all rounds of all generations."""
    before, after = list(read_traces(recorded)), list(read_traces(rewritten))
    rounds = [plain(each) for traced in before for each in traced.rounds]
    assert rounds, f"{recorded} holds no round"
    assert rounds == [plain(each) for traced in after for each in traced.rounds]
    print(f"{rewritten}: {len(before)} generations, {len(rounds)} rounds")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
