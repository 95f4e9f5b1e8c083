"""Mutated ONNX graphs: the files that a graph names are found inside the bundle, or the graph is refused.

PYTHONPATH=tests python -m fuzz.fuzz_graph [--count 100000] [--seconds 120] [--seed 0]
"""

from __future__ import annotations

import faulthandler
import random
import time
from collections import Counter

from fuzz.command import command
from omnidraft.runtime.bundle.external_data import external_files

_PLACES = (b"/etc/passwd", b"../w.bin", b"", b"*", b"\xff", b"x" * 3000)


def field(number: int, *parts: bytes) -> bytes:
    """A field with a length below 128 or in two bytes."""
    content = b"".join(parts)
    size = len(content)
    return (
        bytes([number << 3 | 2, *([size] if size < 128 else [size & 127 | 128, size >> 7 & 127])]) + content
    )


def whole(rng: random.Random) -> bytes:
    """A graph with tensors at each of the places that a tensor can have."""
    tensor = field(
        13, field(1, b"location"), field(2, rng.choice((b"w.bin", b"a/w.bin", rng.choice(_PLACES))))
    )
    graph = field(5, tensor) + field(15, field(1, tensor))
    for _ in range(rng.randrange(4)):
        graph = field(1, field(5, field(rng.choice((5, 5, 6, 10)), graph)))[: 1 << 13]
    return field(7, graph)


def fuzz(count: int, seconds: float, seed: int) -> Counter[str]:
    """Read mutants until a limit is reached; return the number of each outcome."""
    rng, seen, end = random.Random(seed), Counter[str](), time.monotonic() + seconds
    for _ in range(count):
        if time.monotonic() > end:
            break
        data = bytearray(whole(rng))
        for _ in range(rng.choice((0, 0, 1, 3))):
            data[rng.randrange(len(data))] = rng.choice((0, 127, 128, 255, rng.randrange(256)))
        cut = len(data) if rng.random() < 0.8 else rng.randrange(len(data))
        faulthandler.dump_traceback_later(30.0, exit=True)
        try:
            places = external_files(bytes(data[:cut]))
        except ValueError:
            seen["refused"] += 1
        else:
            assert not any(p.startswith(("/", ".")) or ".." in p.split("/") for p in places), places
            seen["read"] += 1
    faulthandler.cancel_dump_traceback_later()
    return seen


if __name__ == "__main__":
    command(__doc__, "graphs", 100_000, fuzz)
