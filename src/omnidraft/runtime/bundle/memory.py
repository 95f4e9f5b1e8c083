"""The memory that a generation needs, told before anything is loaded.

The figures are resident bytes at the peak, as `/usr/bin/time -v` counts them; the constants were measured
with onnxruntime 1.31 on Linux, with a context that is filled to its end.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.decoding.prefill import PREFILL_CHUNK

_BASE = 84 << 20  # Python, numpy, onnxruntime with its first session, the command line
_PACKED = 1.5  # resident bytes a byte of a graph with its weights inside: most exist a second time, packed
_MAPPED = 1.02  # of weights in a file beside it, which is mapped while they are packed one by one
_TOKENIZER = 22  # resident bytes a byte of tokenizer.json
_CACHE_ENTRY = 64  # bytes of a cached n-gram
_ROWS = 13  # logits of the longest usual verification
_ACTIVATIONS = 30  # times [chunk, hidden] float32, for a pass over a chunk of the prompt
_SCORES = 2  # times [heads, chunk, max_length] float32, in a graph without an attention operator
_HEADROOM = 0.05  # of the need: what other programs may take meanwhile


@dataclass(frozen=True)
class Need:
    """Bytes at the peak, by what they are for.

    Attributes:
        base: Python, numpy and onnxruntime. target, drafter: weights as onnxruntime keeps them.
        kv: the KV buffers at their full length; a short text touches less of them.
        vocabulary: tokenizers, vocabulary map and an n-gram cache that holds every n-gram of the map.
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
        """All of them."""
        return self.base + self.target + self.drafter + self.kv + self.vocabulary + self.work


def why_plain(needed: int, plain: int, available: int | None) -> str | None:
    """Why a generation should do without the drafter, as a sentence; None where it need not.

    Args:
        needed, plain: bytes with and without the drafter.
        available: bytes that are free; None where nobody knows.
    """
    if available is None or needed * (1 + _HEADROOM) <= available:
        return None
    return (
        f"decoding without the drafter: with it {needed / 1e6:.0f} MB are needed, without it "
        f"{plain / 1e6:.0f} MB, and {available / 1e6:.0f} MB are free"
    )


def memory_need(bundle: Bundle, *, drafter: bool = True) -> Need:
    """What a generation with a bundle needs, or one without the drafter."""
    models = [bundle.target, bundle.drafter] if drafter else [bundle.target]
    tokenizers = sum(_size(bundle, entry.tokenizer) for entry in models)
    ngrams = bundle.target.vocab_size  # at most
    return Need(
        base=_BASE,
        target=_weights(bundle, bundle.target),
        drafter=_weights(bundle, bundle.drafter) if drafter else 0,
        kv=sum(entry.kv_bytes for entry in models),
        vocabulary=_TOKENIZER * tokenizers + 2 * _size(bundle, bundle.vocab_map) + _CACHE_ENTRY * ngrams,
        work=sum(_work(entry) for entry in models),
    )


def available_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that a program can still take: free and reclaimable memory, or what its control group leaves.

    Args:
        root: where `proc` and `sys` are.
    """
    found = [
        1024 * int(line.split()[1])
        for line in _lines(root / "proc/meminfo")
        if line.startswith("MemAvailable:")
    ]
    group = root / "sys/fs/cgroup"
    limit, used = _lines(group / "memory.max"), _lines(group / "memory.current")
    if limit and used and limit[0].isdigit():
        found.append(max(0, int(limit[0]) - int(used[0])))
    return min(found, default=None)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _size(bundle: Bundle, name: str) -> int:
    return int(bundle.manifest["files"][name]["bytes"])


def _weights(bundle: Bundle, entry: ModelEntry) -> int:
    if entry.place is not None:  # mapped, and not packed
        return int(_MAPPED * sum(_size(bundle, name) for name in entry.place.files))
    # Our own file is model.onnx.data; an adopted graph may have several, each with another ending.
    beside = entry.graph if entry.layout == "concat" else f"{entry.graph}.data"
    files = [name for name in bundle.manifest["files"] if name.startswith(beside) and name != entry.graph]
    mapped = sum(_size(bundle, name) for name in files)
    return int(_PACKED * _size(bundle, entry.graph) + _MAPPED * mapped)


def _work(entry: ModelEntry) -> int:
    hidden = math.sqrt(entry.parameters / (12 * entry.kv.num_layers))  # of a usual decoder of that size
    work = 4 * _ACTIVATIONS * PREFILL_CHUNK * hidden
    if entry.layout == "shared":
        return int(work + 4 * _ROWS * entry.vocab_size)
    # Such a graph gives every token its logits, and writes the scores of its attention out.
    scores = 4 * _SCORES * (hidden / entry.kv.head_dim) * PREFILL_CHUNK * entry.kv.max_length
    return int(work + scores + 4 * PREFILL_CHUNK * entry.vocab_size)
