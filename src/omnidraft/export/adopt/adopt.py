"""Copy an adopted graph into a bundle, and measure the two properties that exact speculation needs.

The tokens that follow a token in a block must not change its row of logits: with one activation scale for a
block (dynamic int8), a rejected draft token changes the rows before it. And positions that were dropped by
a rewind must not change later logits. Neither check needs torch.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from omnidraft.errors import ExportError
from omnidraft.export.adopt.optimum_directory import OptimumDirectory
from omnidraft.export.graph.contract import GraphContract
from omnidraft.runtime.decoding.model import Logits, Model

TOLERANCE = 1e-5  # largest difference of logits that count as equal
_TAILS = 6  # number of continuations of the same tokens
_TAIL, _KEPT = 4, 2  # tokens of a block that differ, and tokens before them


@dataclass(frozen=True)
class Adoption:
    """What was measured of an adopted graph: largest differences of logits, in float32."""

    rows: float  # difference of a row when other tokens follow it in its block
    rewind: float  # difference between a rewound context and a context that never saw the dropped tokens
    block: float  # difference between tokens scored as a block and one by one; this is rounding, not a fault
    positions: int  # number of positions compared


def adopt(source: OptimumDirectory, folder: Path, max_length: int) -> GraphContract:
    """Copy a graph and its weights into a folder of the bundle, and return the graph's contract.

    No link: who writes a file of the source later would write into the bundle, and each further bundle of the
    same source would change the time of the entry, which refuses a load of this one at that moment.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (source.graph.name, *source.data):
        shutil.copyfile(source.graph.with_name(name), folder / name)
    return replace(source.contract, max_length=max_length)


def check_adopted(name: str, model: Model, prompts: Sequence[Sequence[int]]) -> Adoption:
    """Measure an adopted graph on some prompts."""
    long = [ids for ids in prompts if len(ids) > 2 * _KEPT]
    if not long:
        raise ExportError(
            f"{name} could not be checked: no prompt has {2 * _KEPT} tokens in its vocabulary",
            "check that tokenizer.json is of this model",
        )
    parts = [_measure(model, ids) for ids in long]
    adoption = Adoption(
        rows=max(p.rows for p in parts),
        rewind=max(p.rewind for p in parts),
        block=max(p.block for p in parts),
        positions=sum(p.positions for p in parts),
    )
    if not adoption.rows <= TOLERANCE:  # NaN fails too
        raise ExportError(
            f"{name} gives a token other logits when other tokens follow it in a block "
            f"(by {adoption.rows:.2g}): one activation scale spans the block, as in dynamic int8, so a "
            "rejected token changes earlier rows",
            "give the fp32 graph, or export the checkpoint with --quant int8",
        )
    if not adoption.rewind <= TOLERANCE:
        raise ExportError(
            f"{name} gives other logits after a rewind (by {adoption.rewind:.2g}), so its context cannot be "
            "rewound",
            "give the checkpoint instead of the graph",
        )
    return adoption


def _measure(model: Model, ids: Sequence[int]) -> Adoption:
    half = len(ids) // 2
    head, rest = ids[:half], ids[half:]
    alone = _single(model, _begin(model, head), rest)
    block = _block(model, half, rest)
    rows = [_block(model, half, [*rest[:_KEPT], *tail])[:_KEPT] for tail in _tails(ids, model.vocab_size)]
    model.rewind(half)  # drops all these blocks
    again = _single(model, half, rest)
    return Adoption(
        rows=max(_difference(rows[0], row) for row in rows[1:]),
        rewind=_difference(alone, again),
        block=_difference(alone, block),
        positions=len(rest),
    )


def _begin(model: Model, head: Sequence[int]) -> int:
    model.rewind(0)
    model.score(head, num_logits=1)
    return model.length


def _block(model: Model, length: int, ids: Sequence[int]) -> Logits:
    """Logits of a block after the first `length` positions."""
    model.rewind(length)
    rows: Logits = model.score(ids).copy()
    return rows


def _single(model: Model, length: int, ids: Sequence[int]) -> Logits:
    """Logits of the same tokens, scored one by one."""
    model.rewind(length)
    return np.concatenate([model.score([token]).copy() for token in ids])


def _tails(ids: Sequence[int], vocab_size: int) -> list[list[int]]:
    """Continuations of a token: one from the prompt, the others from the whole vocabulary."""
    strange = [[(7919 * (t * _TAIL + i) + 1) % vocab_size for i in range(_TAIL)] for t in range(_TAILS - 1)]
    return [list(ids[:_TAIL]), *strange]


def _difference(a: Logits, b: Logits) -> float:
    return float(np.abs(a - b).max())
