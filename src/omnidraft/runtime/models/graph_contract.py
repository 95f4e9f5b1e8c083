"""The inputs and outputs of a graph against what the manifest says of it; spec/03-bundle.md, "The graph".

It is checked before a buffer is made: a graph that does not fit takes no memory for keys and values.
"""

import math
import mmap
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from omnidraft.errors import BundleError
from omnidraft.runtime.bundle.lora_sites import LoraSites, a_name, b_name
from omnidraft.runtime.bundle.model_entry import KvShape

FLOAT, FLOAT16, INT32, INT64 = "tensor(float)", "tensor(float16)", "tensor(int32)", "tensor(int64)"
ANY = None  # a size that passes choose
Sizes = tuple[int | None, ...]


@dataclass(frozen=True)
class Value:
    """An input or output: its element type by onnxruntime's name, and its sizes."""

    kind: str
    sizes: Sizes


Values = Mapping[str, Value]


def shared_values(kv: KvShape, vocab_size: int) -> tuple[Values, Values]:
    """Inputs and outputs of a graph of layout `shared`, without adapters."""
    kind = FLOAT16 if kv.type == "float16" else FLOAT
    one, buffer = (1,), Value(kind, (1, kv.num_kv_heads, kv.max_length, kv.head_dim))
    inputs = {
        "input_ids": Value(INT64, (1, ANY)),
        "seqlens_k": Value(INT32, one),
        "total_sequence_length": Value(INT32, one),
        "num_logits": Value(INT64, one),
        **{f"past_key_values.{name}": buffer for name in kv_names(kv.num_layers)},
    }
    outputs = {
        "logits": Value(FLOAT, (1, ANY, vocab_size)),
        **{f"present.{name}": buffer for name in kv_names(kv.num_layers)},
    }
    return inputs, outputs


def static_values(kv: KvShape, vocab_size: int, block: int, hidden: int) -> tuple[Values, Values]:
    """Inputs and outputs of a static graph for blocks of some tokens, without adapters."""
    table = Value(FLOAT, (1, 1, block, kv.head_dim))
    past = Value(FLOAT, (1, kv.num_kv_heads, kv.max_length, kv.head_dim))
    new = Value(FLOAT, (1, kv.num_kv_heads, block, kv.head_dim))
    inputs = {
        "inputs_embeds": Value(FLOAT, (1, block, hidden)),
        "attention_mask": Value(FLOAT, (1, 1, block, kv.max_length + block)),
        "cos": table,
        "sin": table,
        **{f"past_key_values.{name}": past for name in kv_names(kv.num_layers)},
    }
    outputs = {
        "logits": Value(FLOAT, (1, block, vocab_size)),
        **{f"new.{name}": new for name in kv_names(kv.num_layers)},
    }
    return inputs, outputs


def adapter_values(lora: LoraSites | None) -> Values:
    """Inputs for the adapters that a manifest names."""
    values: dict[str, Value] = {}
    for name, site in ({} if lora is None else lora.sites).items():
        rank = None if lora is None or lora.rank is None else lora.rank_of(name)
        values[a_name(name)] = Value(FLOAT, (site.inputs, rank))
        values[b_name(name)] = Value(FLOAT, (rank, site.outputs))
    return values


def kv_names(num_layers: int) -> list[str]:
    """The names of the keys and values of every layer, after `past_key_values.` and `present.`."""
    return [f"{layer}.{part}" for layer in range(num_layers) for part in ("key", "value")]


def kv_buffers(kv: KvShape) -> dict[str, npt.NDArray[Any]]:
    """Buffers of zeros for the keys and values of every layer, by name, of the type `kv.type`.

    Memory is used only for the positions that are written.

    Raises:
        BundleError: `memory`; the system refuses to promise that much.
    """
    shape = (1, kv.num_kv_heads, kv.max_length, kv.head_dim)
    try:
        return {name: lazy_zeros(shape, np.dtype(kv.type)) for name in kv_names(kv.num_layers)}
    except MemoryError:
        raise BundleError(
            f"the keys and values of {kv.max_length:,} positions take {kv.bytes / 1e6:,.0f} MB, which this "
            "machine does not give",
            "export again with a smaller --max-length",
            fault="memory",
        ) from None


def check_values(path: Path, session: ort.InferenceSession, inputs: Values, outputs: Values) -> None:
    """Refuse a graph that lacks one of these inputs or outputs, or has it of another type or shape.

    Raises:
        BundleError: `graph`.
    """
    for what, wanted, found in (
        ("input", inputs, session.get_inputs()),
        ("output", outputs, session.get_outputs()),
    ):
        by_name = {each.name: each for each in found}
        for name, value in wanted.items():
            if name not in by_name:
                raise _refused(path, f"it has no {what} {name!r}")
            _check(path, f"its {what} {name!r}", by_name[name], value)


def check_fixed(path: Path, session: ort.InferenceSession, outputs: Collection[str]) -> None:
    """Refuse a graph with an input or output whose size is not fixed, or with an output that nothing reads.

    Raises:
        BundleError: `graph`.
    """
    for each in (*session.get_inputs(), *session.get_outputs()):
        if not all(type(size) is int for size in each.shape):
            raise _refused(path, f"{each.name!r:.80} has no fixed size")
    for each in session.get_outputs():
        if each.name not in outputs:
            raise _refused(path, f"it has an output {each.name!r:.80}, which nothing reads")


def check_adapters(path: Path, session: ort.InferenceSession, known: Values, adapters: Values) -> None:
    """Refuse a graph with an input that nothing feeds, or without the adapters of the manifest.

    Args:
        known: inputs that are fed in every pass.

    Raises:
        BundleError: `graph`.
    """
    optional = {each.name: each for each in session.get_overridable_initializers()}
    needed = {each.name: each for each in session.get_inputs() if each.name not in known}
    for name in needed:
        if name not in adapters:
            raise _refused(path, f"it has an input {name!r:.80}, which the manifest does not name")
    for name, value in adapters.items():
        found = needed.get(name) or optional.get(name)
        if found is None:
            raise _refused(path, f"it has no input {name!r}, which the manifest names")
        _check(path, f"its input {name!r}", found, value)


def _check(path: Path, what: str, found: Any, wanted: Value) -> None:
    """Compare an input or output; a size that the graph names, and does not fix, is left to the engine."""
    sizes = tuple(found.shape)
    same = len(sizes) == len(wanted.sizes) and not any(
        isinstance(own, int) and own != size for own, size in zip(sizes, wanted.sizes, strict=True)
    )
    if found.type != wanted.kind or not same:
        shown = [size if isinstance(size, int) else "any" for size in sizes]
        expected = ["any" if size is ANY else size for size in wanted.sizes]
        raise _refused(
            path, f"{what} is {found.type} {shown!s:.80} where the manifest gives {wanted.kind} {expected}"
        )


def _refused(path: Path, why: str) -> BundleError:
    return BundleError(
        f"{path} does not fit the manifest: {why}", "run `omnidraft export` again", fault="graph"
    )


def lazy_zeros(shape: tuple[int, ...], kind: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    """Zeros in pages of their own.

    `np.zeros` does not have this property. From 4 MB on it asks the system for huge pages, so a write of a
    few bytes takes 2 MB: the buffers of a context of 8,192 positions are in memory from the first tokens on.
    Below that size the C library may reuse freed memory. It fills reused memory with zeros, so the whole
    buffer takes memory, and the memory stays with the process after the buffer is gone.

    The price: with small pages a pass at a full context of 8,192 positions takes longer, most in a model as
    small as the starters, whose passes are nearly all attention there.

    Raises:
        MemoryError: the system refuses to promise that much.
    """
    if sys.platform == "win32":  # it has no private mappings without a file
        return np.zeros(shape, kind)
    size = np.dtype(kind).itemsize * math.prod(shape)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError(f"no {size} bytes for a buffer") from error
    return np.frombuffer(pages, kind).reshape(shape)
