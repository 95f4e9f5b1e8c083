"""Text in, text out: load a bundle, stream what the target says. What a program needs is in this module."""

from pathlib import Path

from omnidraft.runtime.generation import Generation, Piece
from omnidraft.runtime.request import Request
from omnidraft.runtime.session import Session
from omnidraft.runtime.signature import PublicKey
from omnidraft.runtime.statistics import Statistics
from omnidraft.runtime.weights import Weights, load_weights

__all__ = ["Generation", "Piece", "Request", "Session", "Statistics", "Weights", "load", "load_weights"]


def load(
    path: str | Path,
    *,
    threads: int | None = None,
    cache: str | Path | None = None,
    public_key: PublicKey | None = None,
) -> Session:
    """Open a bundle for generation: verify its hashes, load both graphs and what was learned.

    Args:
        path: the bundle. threads: see `load_weights`.
        cache: a file of learned n-grams; the session starts with none where it is absent or refused, and says
            in `cache_notice` why it was refused.
        public_key: a PEM file (or 32 bytes); a bundle without a signature by that key is refused.

    Raises:
        BundleError, VocabMapError, TokenizerError: the bundle is not what it must be.
        SettingError: the public key is none, or the `cryptography` package is missing.
    """
    return Session(load_weights(path, threads=threads, public_key=public_key), cache=cache)
