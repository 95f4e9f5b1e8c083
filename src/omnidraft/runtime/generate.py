"""Text in, text out: load a bundle, stream what the target says. What a program needs is in this module."""

from pathlib import Path

from omnidraft.runtime.generation import Generation, Piece
from omnidraft.runtime.request import Request
from omnidraft.runtime.session import Session
from omnidraft.runtime.statistics import Statistics
from omnidraft.runtime.weights import Weights, load_weights

__all__ = ["Generation", "Piece", "Request", "Session", "Statistics", "Weights", "load", "load_weights"]


def load(
    path: str | Path, *, threads: int | None = None, cache: str | Path | None = None, bitwise: bool = False
) -> Session:
    """Open a bundle for generation: verify its hashes, load both graphs and what was learned.

    Args:
        path: the bundle. threads: see `load_weights`.
        cache: a file of learned n-grams; the session starts with none where it is absent or refused, and says
            in `cache_notice` why it was refused.
        bitwise: greedy text equals plain text in int8 and int4 too, at a cost (see `Session`).

    Raises:
        BundleError, VocabMapError, TokenizerError: the bundle is not what it must be.
    """
    return Session(load_weights(path, threads=threads), cache=cache, bitwise=bitwise)
