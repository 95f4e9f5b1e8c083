"""A bound on the memory that the operators of a graph take while it runs.

What a graph computes can be of any size, whatever the size of its file. onnxruntime's operators take their
memory from an arena, and an arena has a limit: an operator that asks for more fails. The limit follows from
the size of the bundle, so that a small one cannot ask for much. Weights are not in the arena.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

import onnxruntime as ort

from omnidraft.errors import SettingError
from omnidraft.runtime.bundle.bundle import Bundle

VARIABLE = "OMNIDRAFT_ENGINE_MEMORY"  # another limit, in MB
LEAST, TIMES = 128_000_000, 2  # bytes for any bundle, and bytes for each byte of its files
_MOST = 100_000_000  # MB of the variable
_DEFAULTS = dict.fromkeys(
    ("arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk"), -1
)
# Bytes of each constant that is computed at a load, at most: it is in no arena. Older engines do not know it.
_FOLDED = "optimization.constant_folding_max_output_size_in_bytes"
_REFUSED = "Available memory of"  # how an arena begins to say that the limit is reached

_lock = Lock()
_limit: ContextVar[int | None] = ContextVar("limit", default=None)


def engine_bytes(bundle: Bundle) -> int:
    """Bytes that the operators of one graph of a bundle may take.

    Raises:
        SettingError: the environment variable is not a number of megabytes.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return LEAST + TIMES * sum(int(record["bytes"]) for record in bundle.manifest["files"].values())
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST)) and 1 <= int(text) <= _MOST):
        raise SettingError(f"{VARIABLE} is {text!r:.80}", f"give it a number of megabytes from 1 to {_MOST}")
    return int(text) * 1_000_000


@contextmanager
def bounded_by(bundle: Bundle) -> Iterator[None]:
    """Each session that is made meanwhile, in this thread, has an arena with the bundle's limit."""
    token = _limit.set(engine_bytes(bundle))
    try:
        yield
    finally:
        _limit.reset(token)


@contextmanager
def own_arena(options: ort.SessionOptions) -> Iterator[None]:
    """Give the session that is made meanwhile with these options an arena of its own, where it has a limit.

    onnxruntime gives a limit only to an arena that sessions share. The next such arena takes its place, and
    each session keeps the one that was there when it was made.
    """
    limit = _limit.get()
    if limit is None:
        yield
        return
    memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.add_session_config_entry(_FOLDED, str(limit))
    with _lock:
        ort.create_and_register_allocator(memory, ort.OrtArenaCfg({"max_mem": limit, **_DEFAULTS}))
        yield


def remedy_for(error: BaseException) -> str:
    """What to do where onnxruntime cannot run a graph."""
    if _REFUSED not in str(error):
        return "run `omnidraft export` again"
    return f"do not use this bundle, or set {VARIABLE} to the MB that you trust it with"
