"""The memory that a generation needs, computed before anything is loaded.

The figures are resident bytes at the peak, as `/usr/bin/time -v` counts them. The constants were measured
with onnxruntime 1.31 on Linux, with a full context.
"""

import math
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.bundle.places import NPU, Place
from omnidraft.runtime.decoding.prefill import PREFILL_CHUNK

_BASE = 72 << 20  # Python, numpy, onnxruntime with its first session, the command line
_PACKED = 1.5  # resident bytes per byte of a graph with weights inside: most weights have a packed copy
_MAPPED = 1.02  # per byte of weights in a file beside the graph, mapped while they are packed one by one
_TOKENIZER = 22  # resident bytes per byte of tokenizer.json; a compiled tokenizer is mapped
_CACHE_ENTRY = 64  # bytes of a cached n-gram
_ROWS = 13  # rows of logits of the longest usual verification
_ACTIVATIONS = 30  # times [chunk, hidden] float32, for a pass over a chunk of the prompt
_SCORES = 2  # times [heads, chunk, max_length] float32, in a graph without an attention operator
_IDLE = "inactive_file"  # of `memory.stat`
_HEADROOM = 0.05  # of the need: other programs may take memory meanwhile


@dataclass(frozen=True)
class Need:
    """Bytes at the peak, by use.

    Attributes:
        target, drafter: weights, as onnxruntime keeps them.
        kv: the KV buffers at their full length; a short text touches less of them.
        vocabulary: tokenizers, vocabulary map and, with the drafter, an n-gram cache that holds every n-gram.
        work: activations of the longest pass.
    """

    base: int
    target: int
    drafter: int
    kv: int
    vocabulary: int
    work: int

    @property
    def total(self) -> int:
        """Bytes of all uses together."""
        return self.base + self.target + self.drafter + self.kv + self.vocabulary + self.work


def why_plain(needed: int, plain: int, available: int | None) -> str | None:
    """Why a generation should run without the drafter, as a sentence; None if it need not."""
    if available is None or needed * (1 + _HEADROOM) <= available:
        return None
    return (
        f"decoding without the drafter: with it {needed / 1e6:.0f} MB are needed, without it "
        f"{plain / 1e6:.0f} MB, and {available / 1e6:.0f} MB are free; make room to decode with it"
    )


def memory_need(bundle: Bundle, *, drafter: bool = True) -> Need:
    """The memory that a generation with a bundle needs, with or without the drafter."""
    models = bundle.models if drafter else (bundle.target,)
    drafter = len(models) > 1
    tokenizers = sum(_tokenizer(bundle, entry) for entry in models)
    ngrams = bundle.target.vocab_size if drafter else 0  # at most
    return Need(
        base=_BASE,
        target=_weights(bundle, bundle.target),
        drafter=_weights(bundle, bundle.drafter) if drafter else 0,
        kv=sum(entry.kv_bytes for entry in models),
        vocabulary=tokenizers + _size(bundle, bundle.vocab_map) + _CACHE_ENTRY * ngrams,
        work=sum(_work(entry) for entry in models),
    )


def _tokenizer(bundle: Bundle, entry: ModelEntry) -> int:
    if entry.compiled_tokenizer is not None:
        return _size(bundle, entry.compiled_tokenizer)
    return _TOKENIZER * _size(bundle, entry.tokenizer)


def available_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that this program can still allocate: free memory, or the rest of its control group.

    Pages of files that nobody used lately count as memory of the group, which gives them up when needed.
    """
    bounds = [
        1024 * int(line.split()[1])
        for line in _lines(root / "proc/meminfo")
        if line.startswith("MemAvailable:")
    ]
    group = root / "sys/fs/cgroup"
    limit, used = _lines(group / "memory.max"), _lines(group / "memory.current")
    if limit and used and limit[0].isdigit():
        idle = sum(int(n) for name, n in map(str.split, _lines(group / "memory.stat")) if name == _IDLE)
        bounds.append(max(0, int(limit[0]) - int(used[0]) + idle))
    return min(bounds, default=None)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _size(bundle: Bundle, name: str) -> int:
    return int(bundle.manifest["files"][name]["bytes"])


def _weights(bundle: Bundle, entry: ModelEntry) -> int:
    if entry.place is not None:
        return _static_weights(bundle, entry, entry.place)
    # An exported graph has model.onnx.data; an adopted graph may have several files with other endings.
    beside = entry.graph if entry.layout == "concat" else f"{entry.graph}.data"
    files = [name for name in bundle.manifest["files"] if name.startswith(beside) and name != entry.graph]
    mapped = sum(_size(bundle, name) for name in files)
    if not mapped:
        return int(_PACKED * _size(bundle, entry.graph))
    # A table stays mapped: as a whole beside the packed LM head that shares it, else a few of its pages.
    table, shared = _table(bundle, entry, mapped)
    return int(_PACKED * _size(bundle, entry.graph) + _MAPPED * mapped) + (table if shared else -table)


def _static_weights(bundle: Bundle, entry: ModelEntry, place: Place) -> int:
    """Of static graphs: float16 weights become float32 in each graph; the others stay mapped."""
    weights = _size(bundle, place.form.weights)
    others = sum(_size(bundle, name) for name in place.files) - weights
    is_float = place.form.weights == entry.places[NPU].form.weights
    widened = 2 * len(place.form.graphs) * weights if is_float else 0
    return int(_MAPPED * (weights + others) + widened)


def _table(bundle: Bundle, entry: ModelEntry, most: int) -> tuple[int, bool]:
    """Bytes of the embedding, and whether the LM head reads them too; 0 where an export recorded none."""
    try:
        found = bundle.manifest["checks"]["tables"][entry.graph]
        table, shared = found["bytes"], found["shared"]
    except (KeyError, TypeError):
        return 0, False
    return (table, shared is True) if isinstance(table, int) and 0 <= table <= most else (0, False)


def _work(entry: ModelEntry) -> int:
    hidden = math.sqrt(
        entry.parameters / (12 * entry.kv.num_layers)
    )  # of a usual decoder with this number of parameters
    work = 4 * _ACTIVATIONS * PREFILL_CHUNK * hidden
    if entry.layout == "shared":
        return int(work + 4 * _ROWS * entry.vocab_size)
    # A graph of layout concat computes logits for every token, and stores the scores of its attention.
    scores = 4 * _SCORES * (hidden / entry.kv.head_dim) * PREFILL_CHUNK * entry.kv.max_length
    return int(work + scores + 4 * PREFILL_CHUNK * entry.vocab_size)


def peak_bytes() -> int | None:
    """Peak resident memory of this process in bytes, with mapped files; None where it is not counted."""
    # Linux has the figure in a file; what getrusage counts there begins with the peak of the parent process.
    with suppress(OSError, ValueError, IndexError):
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
