"""Greedy responses of a torch target, with the distributions that each token was chosen by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedModel

from benchmarks.support.greedy_batch import Step, greedy_steps
from omnidraft.learning.positions.target_rows import TargetRows


@dataclass(frozen=True)
class Response:
    """A target's answer to a prompt, with its distributions at temperature 1.

    Attributes:
        prompt: in target ids.
        tokens: the answer, n target ids.
        rows: the distribution at each token.
        hidden: the last hidden states behind the rows, shape [n, target width], where they were requested.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    rows: TargetRows
    hidden: npt.NDArray[np.float32] | None = None


def respond(
    target: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int = 128,
    eos_ids: Sequence[int] = (),
    top: int = 64,
    batch_size: int = 16,
    hidden: bool = False,
) -> Iterator[Response]:
    """Greedy responses, each with the rows that its tokens were chosen by: no second pass over the target.

    Args:
        target: a transformers decoder.
        prompts: in target ids; each batch is padded to its longest prompt.
        max_new_tokens: maximum length of a response.
        eos_ids: ids that end a response, and are part of it.
        top: number of ids that are kept of a row.
        batch_size: number of prompts in a batch.
        hidden: whether to keep hidden states too.
    """
    training = target.training
    target.train(False)
    try:
        for at in range(0, len(prompts), batch_size):
            batch = prompts[at : at + batch_size]
            steps = greedy_steps(target, batch, max_new_tokens=max_new_tokens, eos_ids=eos_ids, hidden=hidden)
            yield from _collected(batch, steps, top)
    finally:
        target.train(training)


def _collected(prompts: Sequence[Sequence[int]], steps: Iterable[Step], top: int) -> Iterator[Response]:
    """The responses of one batch; only the likeliest ids of a row are kept after its pass."""
    answers = [list[_Token]() for _ in prompts]
    for step in steps:
        count = min(top, step.distributions.shape[1])
        p, ids = (values.cpu().numpy() for values in step.distributions.topk(count))
        whole = count == step.distributions.shape[1]
        rest = np.zeros(len(p)) if whole else np.maximum(1.0 - p.sum(axis=1, dtype=np.float64), 0.0)
        hidden = [None] * len(p) if step.hidden is None else step.hidden.cpu().numpy()
        for row, (b, token) in enumerate(zip(step.which.tolist(), step.tokens.tolist(), strict=True)):
            answers[b].append(_Token(token, ids[row], p[row], rest[row], hidden[row]))
    for prompt, answer in zip(prompts, answers, strict=True):
        rows = TargetRows(
            np.stack([t.ids for t in answer]).astype(np.int32),
            np.stack([t.probabilities for t in answer]).astype(np.float64),
            np.array([t.rest for t in answer]),
        )
        states = [t.hidden for t in answer if t.hidden is not None]
        tokens = tuple(t.token for t in answer)
        yield Response(tuple(prompt), tokens, rows, np.stack(states) if states else None)


@dataclass(frozen=True)
class _Token:
    """A token, and the likeliest ids of the distribution that it was chosen by."""

    token: int
    ids: npt.NDArray[np.int64]
    probabilities: npt.NDArray[np.float32]
    rest: float
    hidden: npt.NDArray[np.float32] | None
