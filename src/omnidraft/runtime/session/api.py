"""Text in, text out: load a bundle and stream text. All names that a program needs are in this module."""

from pathlib import Path
from typing import Any

from omnidraft.notice import Notice
from omnidraft.runtime.grammar.tool_calls import ToolCall
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.session.generation import Generation, Piece
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.language_model import LanguageModel, load_bundle
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.runtime.session.text_session import TextSession
from omnidraft.runtime.traces.trace_reader import read_traces
from omnidraft.runtime.traces.trace_store import TraceStore

__all__ = [
    "Adapter",
    "Generation",
    "GenerationConfig",
    "LanguageModel",
    "Notice",
    "Piece",
    "Statistics",
    "TextSession",
    "ToolCall",
    "TraceStore",
    "load",
    "load_bundle",
    "read_traces",
]


def load(
    path: str | Path,
    *,
    cache: str | Path | None = None,
    adapter: Adapter | str | Path | None = None,
    trace: TraceStore | str | Path | None = None,
    **loading: Any,
) -> TextSession:
    """Open a bundle for generation: check its files, load both graphs and what was learned.

    Args:
        path: the bundle's directory.
        cache: a file of learned n-grams. Where it is absent or refused, the session starts with an empty
            cache; `notices` says why it was refused.
        adapter: of the drafter or of the target, or its file.
        trace: a directory to record generations in, text included; None records nothing.
        loading: threads, drafter, target_on, drafter_on, public_key, verify and measure (see `load_bundle`).

    Raises:
        BundleError, VocabMapError, TokenizerError: the bundle is damaged, incomplete or unsigned.
        AdapterError: the adapter is refused.
        TraceFileError: nothing can be recorded there.
        SettingError: the bundle has no graphs for a place, the public key is not a key, or the `cryptography`
            package is missing.
    """
    return TextSession(load_bundle(path, **loading), cache=cache, adapter=adapter, trace=trace)
