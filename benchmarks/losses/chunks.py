"""What the losses read of a batch: the target's tokens and rows, and both models' hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.positions.batch import row_starts
from omnidraft.training.data.batch import TensorBatch


@dataclass(frozen=True)
class Labelled:
    """An aligned answer with what the target knew while it wrote it.

    Attributes:
        hidden: the target's last hidden state before each of the n tokens, [n or more, width].
        before: the last target id of the prompt.
    """

    aligned: Aligned
    hidden: np.ndarray[tuple[int, int], np.dtype[np.float16]]
    before: int


@dataclass(frozen=True)
class Chunks:
    """The T target tokens of a batch. Each is a chunk: the drafter writes its spelling.

    Attributes:
        answers: answer that each belongs to, [T].
        rows: row of logits where its spelling begins, [T].
        lengths: draft tokens of the spelling, [T]; 0 where nothing spells it.
        tokens, before: the target id, and the one before it, [T].
        log_p: the target's log-probability of it, [T].
        ids, p, rest: the target's row there, descending, [T, K], [T, K] and [T]; padding has id -1 and p 0.
        hidden: the target's last hidden state there, [T, width].
        owners: chunk of each draft token of the batch, [M].
    """

    answers: Tensor
    rows: Tensor
    lengths: Tensor
    tokens: Tensor
    before: Tensor
    log_p: Tensor
    ids: Tensor
    p: Tensor
    rest: Tensor
    hidden: Tensor
    owners: Tensor

    def double(self) -> Chunks:
        """The same with float64 numbers."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return Chunks(**{k: v.double() if v.is_floating_point() else v for k, v in values.items()})


@dataclass(frozen=True)
class View:
    """What a loss is computed from.

    Attributes:
        logits, states: the drafter's logits and last hidden states, [R, draft vocab] and [R, width].
        embedding: the drafter's embeddings, [draft vocab, width]; they are its output head, too.
        target_embedding: those of the target, [target vocab, its width].
    """

    logits: Tensor
    states: Tensor
    embedding: Tensor
    target_embedding: Tensor
    batch: TensorBatch
    chunks: Chunks


def chunks_of(answers: Sequence[Labelled]) -> Chunks:
    """The target's tokens of a batch, in the order of `collate`; numbers are float32."""
    aligned = [each.aligned for each in answers]
    widest = max(each.target_rows.ids.shape[1] for each in aligned)
    starts = row_starts(aligned)
    lengths = np.concatenate([each.vocab_map.spellings.lengths[each.tokens] for each in aligned])
    rows = [_sorted(each, widest) for each in aligned]
    ids, p, rest, own = (np.concatenate([row[i] for row in rows]) for i in range(4))
    joined: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {
        "answers": np.concatenate([np.full(len(each.tokens), i) for i, each in enumerate(aligned)]),
        "rows": np.concatenate([each.rows + s for each, s in zip(aligned, starts, strict=True)]),
        "lengths": lengths.astype(np.int64),
        "tokens": np.concatenate([each.tokens.astype(np.int64) for each in aligned]),
        "before": np.concatenate([[e.before, *e.aligned.tokens[:-1]] for e in answers]).astype(np.int64),
        "log_p": np.log(np.maximum(own, 1e-8)).astype(np.float32),
        "ids": ids.astype(np.int64),
        "p": p.astype(np.float32),
        "rest": rest.astype(np.float32),
        "hidden": np.concatenate([e.hidden[: len(e.aligned.tokens)] for e in answers]).astype(np.float32),
        "owners": np.repeat(np.arange(len(lengths)), lengths),
    }
    return Chunks(**{name: torch.from_numpy(value) for name, value in joined.items()})


Row = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def _sorted(aligned: Aligned, width: int) -> tuple[Row, Row, Row, Row]:
    """An answer's rows, descending and padded to a width, their rests, and the p of the emitted tokens."""
    rows = aligned.target_rows
    order = np.argsort(-rows.probabilities, axis=1, kind="stable")
    ids = np.full((len(rows), width), -1, dtype=np.int64)
    p = np.zeros((len(rows), width))
    ids[:, : order.shape[1]] = np.take_along_axis(rows.ids, order, axis=1)
    p[:, : order.shape[1]] = np.take_along_axis(rows.probabilities, order, axis=1)
    own = np.where(ids == aligned.tokens[:, None], p, 0.0).sum(axis=1)
    return ids, p, rows.rest, np.where(own > 0, own, rows.rest)
