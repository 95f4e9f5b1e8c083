"""Responses of a torch target with its rows, and how well a drafter does on prompts; both greedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedModel

from benchmarks.support.greedy_batch import Step, greedy_steps
from benchmarks.support.torch_model import TorchModel
from omnidraft.learning.positions.target_rows import TargetRows
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import Mode, Pair, Settings, rule_for, speculate
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap


@dataclass(frozen=True)
class Response:
    """What a target said to a prompt of target ids, with its distributions at temperature 1.

    Attributes:
        hidden: the last hidden states behind the rows, shape [n, target width], where they were asked for.
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
    """Greedy responses, each with the rows that they were chosen by: no second pass over the target.

    Args:
        target: a transformers decoder.
        prompts: in target ids; those of a batch are filled up to its longest.
        max_new_tokens: of a response.
        eos_ids: end a response, and are part of it.
        top: ids that are kept of a row.
        batch_size: prompts at once.
        hidden: also keep hidden states.
    """
    training = target.training
    target.train(False)
    try:
        for at in range(0, len(prompts), batch_size):
            some = prompts[at : at + batch_size]
            passes = greedy_steps(target, some, max_new_tokens=max_new_tokens, eos_ids=eos_ids, hidden=hidden)
            yield from _collected(some, passes, top)
    finally:
        target.train(training)


def _collected(prompts: Sequence[Sequence[int]], passes: Iterable[Step], top: int) -> Iterator[Response]:
    """The answers of one batch; only the likeliest ids of a row outlive its pass."""
    said = [list[_Said]() for _ in prompts]
    for each in passes:
        count = min(top, each.distributions.shape[1])
        p, ids = (values.cpu().numpy() for values in each.distributions.topk(count))
        whole = count == each.distributions.shape[1]
        rest = np.zeros(len(p)) if whole else np.maximum(1.0 - p.sum(axis=1, dtype=np.float64), 0.0)
        hidden = [None] * len(p) if each.hidden is None else each.hidden.cpu().numpy()
        for row, (b, token) in enumerate(zip(each.which.tolist(), each.tokens.tolist(), strict=True)):
            said[b].append(_Said(token, ids[row], p[row], rest[row], hidden[row]))
    for prompt, answer in zip(prompts, said, strict=True):
        rows = TargetRows(
            np.stack([s.ids for s in answer]).astype(np.int32),
            np.stack([s.probabilities for s in answer]).astype(np.float64),
            np.array([s.rest for s in answer]),
        )
        states = [s.hidden for s in answer if s.hidden is not None]
        yield Response(
            tuple(prompt), tuple(s.token for s in answer), rows, np.stack(states) if states else None
        )


@dataclass(frozen=True)
class _Said:
    """A token, and the likeliest ids of the distribution that it was chosen by."""

    token: int
    ids: npt.NDArray[np.int64]
    probabilities: npt.NDArray[np.float32]
    rest: float
    hidden: npt.NDArray[np.float32] | None


def measure_drafter(
    target: PreTrainedModel,
    drafter: PreTrainedModel,
    vocab_map: VocabMap,
    prompts: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    start: Sequence[int] = (),
    eos_ids: Sequence[int] = (),
    num_draft_tokens: int = 4,
    max_new_tokens: int = 96,
    mode: Mode = "trie",
    on_prompt: Callable[[], None] | None = None,
) -> Statistics:
    """Greedy speculation on prompts by the runtime's own loop, with a cache that is empty at first.

    Args:
        target, drafter: transformers decoders.
        vocab_map: of the pair.
        prompts: each in target ids and in draft ids.
        start: ids that every draft context begins with (bos).
        eos_ids: the target's ends.
        num_draft_tokens, max_new_tokens, mode: see `Request`.
        on_prompt: called after each.
    """
    found = Statistics()
    pair = Pair(TorchModel(target), Drafter(TorchModel(drafter), start), NgramCache(vocab_map))
    settings = Settings(rule_for(mode, 0.0), SamplingConfig(0.0), max_new_tokens, set(eos_ids))
    for prompt, draft_prompt in prompts:
        length = FixedLength(num_draft_tokens)
        for each in speculate(pair, prompt, draft_prompt, settings, length, SplitMix64(0)):
            found.add(each)
        if on_prompt is not None:
            on_prompt()
    return found
