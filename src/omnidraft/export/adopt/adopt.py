"""A graph from elsewhere goes into a bundle as it is, and is asked what can be asked without torch.

Two things must hold or speculation is not exact. What follows a token in a block must not change its row:
with one activation scale for a block (dynamic int8) a refused draft token does. And what was forgotten must
leave no trace in what comes later.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from omnidraft.errors import ExportError
from omnidraft.export.adopt.optimum_directory import OptimumDirectory
from omnidraft.export.graph.contract import GraphContract
from omnidraft.runtime.decoding.model import Logits, Model

TOLERANCE = 1e-5  # of a logit, for what must be equal
_TAILS = 6  # texts that follow the same tokens
_TAIL, _KEPT = 4, 2  # tokens of a block that differ, and that come before them


@dataclass(frozen=True)
class Adoption:
    """What was measured of an adopted graph: differences of any logit, in float32.

    Attributes:
        rows: of a row, when other tokens follow it in its block.
        rewind: after a verification was forgotten, against a context that never saw it.
        block: of tokens scored as a block against one by one; rounding, and no fault.
        positions: compared.
    """

    rows: float
    rewind: float
    block: float
    positions: int


def adopt(found: OptimumDirectory, folder: Path, max_length: int) -> GraphContract:
    """Link or copy a graph and its weights into a folder of the bundle; its contract.

    Raises:
        ExportError: the model does not know so many positions.
    """
    limit = found.contract.max_length
    if not 1 <= max_length <= limit:
        raise ExportError(
            f"a context of {max_length} positions does not fit {found.name}", f"give 1 to {limit}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in (found.graph.name, *found.data):
        _link(found.graph.with_name(name).resolve(), folder / name)
    return replace(found.contract, max_length=max_length)


def check_adopted(name: str, model: Model, prompts: Sequence[Sequence[int]]) -> Adoption:
    """Measure an adopted graph on some prompts.

    Raises:
        ExportError: rows depend on what follows them, or on what was forgotten.
    """
    long = [ids for ids in prompts if len(ids) > 2 * _KEPT]
    if not long:
        raise ExportError(f"{name} could not be checked: no prompt has {2 * _KEPT} tokens in its vocabulary")
    parts = [_measure(model, ids) for ids in long]
    found = Adoption(
        rows=max(p.rows for p in parts),
        rewind=max(p.rewind for p in parts),
        block=max(p.block for p in parts),
        positions=sum(p.positions for p in parts),
    )
    if not found.rows <= TOLERANCE:  # also where it is not a number
        raise ExportError(
            f"{name} gives a token other logits when other tokens follow it "
            f"in a block (by {found.rows:.2g}): one activation scale spans the "
            "block, as in dynamic int8, so a rejected token changes earlier "
            "rows",
            "give the fp32 graph, or the checkpoint to export it with --quant int8",
        )
    if not found.rewind <= TOLERANCE:
        raise ExportError(
            f"{name} gives other logits after a verification was forgotten (by "
            f"{found.rewind:.2g}), so its context cannot be rewound",
            "give the checkpoint to export it anew",
        )
    return found


def _measure(model: Model, ids: Sequence[int]) -> Adoption:
    half = len(ids) // 2
    head, rest = ids[:half], ids[half:]
    wanted = _single(model, _begin(model, head), rest)
    block = _block(model, half, rest)
    rows = [_block(model, half, [*rest[:_KEPT], *tail])[:_KEPT] for tail in _tails(ids, model.vocab_size)]
    model.rewind(half)  # after all these verifications
    again = _single(model, half, rest)
    return Adoption(
        rows=max(_difference(rows[0], other) for other in rows[1:]),
        rewind=_difference(wanted, again),
        block=_difference(wanted, block),
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
    model.rewind(length)
    return np.concatenate([model.score([token]).copy() for token in ids])


def _tails(ids: Sequence[int], vocab_size: int) -> list[list[int]]:
    """Texts to follow a token: one of the prompt's own, and others from all over the vocabulary."""
    strange = [[(7919 * (t * _TAIL + i) + 1) % vocab_size for i in range(_TAIL)] for t in range(_TAILS - 1)]
    return [list(ids[:_TAIL]), *strange]


def _difference(one: Logits, other: Logits) -> float:
    return float(np.abs(one - other).max())


def _link(source: Path, place: Path) -> None:
    """A second name for a file that is on the same disk, else a copy; either way it is hashed afterwards."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)
