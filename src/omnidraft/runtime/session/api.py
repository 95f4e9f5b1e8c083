"""Text in, text out: load a bundle and stream text. All names that a program needs are in this module."""

from pathlib import Path

from omnidraft.runtime.bundle.placement import CPU_GRAPH
from omnidraft.runtime.bundle.signature import PublicKey
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.session.generation import Generation, Piece
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.loaded_bundle import LoadedBundle, load_bundle
from omnidraft.runtime.session.session import Session
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.runtime.traces.trace_reader import read_traces
from omnidraft.runtime.traces.trace_store import TraceStore

__all__ = [
    "Adapter",
    "Generation",
    "GenerationConfig",
    "LoadedBundle",
    "Piece",
    "Session",
    "Statistics",
    "TraceStore",
    "load",
    "load_bundle",
    "read_traces",
]


def load(
    path: str | Path,
    *,
    threads: int | None = None,
    cache: str | Path | None = None,
    target_on: str = CPU_GRAPH,
    drafter_on: str = CPU_GRAPH,
    adapter: Adapter | str | Path | None = None,
    public_key: PublicKey | None = None,
    trace: TraceStore | str | Path | None = None,
) -> Session:
    """Open a bundle for generation: verify its hashes, load both graphs and what was learned.

    Args:
        path: the bundle's directory.
        threads: of a target pass; by the target's size when None.
        cache: a file of learned n-grams. Where it is absent or refused, the session starts with an empty
            cache; `cache_notice` says why it was refused.
        target_on, drafter_on: "cpu", or a place for which the bundle has NPU graphs (see `placement.placed`).
        adapter: of the drafter or of the target, or its file.
        public_key: a PEM file (or 32 bytes); a bundle without a signature by that key is refused.
        trace: a directory to record generations in, text included; None records nothing.

    Raises:
        BundleError, VocabMapError, TokenizerError: the bundle is damaged, incomplete or unsigned.
        AdapterError: the adapter is refused.
        TraceFileError: nothing can be recorded there.
        SettingError: the bundle has no graphs for a place, the public key is not a key, or the `cryptography`
            package is missing.
    """
    loaded = load_bundle(
        path, threads=threads, target_on=target_on, drafter_on=drafter_on, public_key=public_key
    )
    return Session(loaded, cache=cache, adapter=adapter, trace=trace)
