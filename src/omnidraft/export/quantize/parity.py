"""Compare exported graphs with torch, and the drafter's acceptance before and after quantisation.

Text stays correct even if a quantised drafter's tokens are never accepted, so the fault would go unnoticed:
acceptance is measured here, and a collapse stops the export.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.errors import ExportError
from omnidraft.pair_verdict import CHANCE
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.vocab.ngram_cache import NgramCache

DRAFTED = 4  # draft tokens in each round of the acceptance check
_NEW_TOKENS = 32


@dataclass(frozen=True)
class Parity:
    """A graph compared with torch on the same tokens."""

    max_difference: float  # largest difference of a logit, in float32
    greedy_agreement: float  # share of positions with the same argmax
    positions: int  # number of positions compared


@dataclass(frozen=True)
class StepParity:
    """A training graph compared with torch, after one step in two calls."""

    loss: float  # difference of the losses, relative to torch's loss
    gradient: float  # norm of the difference of the gradients, relative to the norm of torch's gradient
    # the same for the changes of the tensors and of AdamW's two moments; the largest of the three
    tensors: float

    @property
    def worst(self) -> float:
        """The larger difference of gradient and tensors; infinite if one of the three is not finite.

        The loss decides nothing that is learned: it is only reported.
        """
        finite = np.isfinite([self.loss, self.gradient, self.tensors]).all()
        return max(self.gradient, self.tensors) if finite else float("inf")


def torch_rows(
    checkpoint: Checkpoint, prompts: Sequence[Sequence[int]], layers: int | None = None
) -> list[np.ndarray]:
    """torch's float32 logits of every position of some prompts.

    Args:
        layers: use only the first layers; None for all.

    Returns:
        [positions, vocab] for each prompt.
    """
    from omnidraft.checkpoints.thin_model import logits_of, thin_model  # adopting works without torch

    thin = thin_model(checkpoint, layers)
    return [logits_of(thin, list(ids)) for ids in prompts]


def parity_of(graph: Model, prompts: Sequence[Sequence[int]], expected: Sequence[np.ndarray]) -> Parity:
    """Compare a graph with torch's logits of some prompts.

    The first half of each prompt is scored as one block and the rest token by token, with a rewind in
    between, so that prefill, decoding and rewinding are all compared.
    """
    worst, same, positions = 0.0, 0, 0
    for ids, rows in zip(prompts, expected, strict=True):
        logits = np.concatenate(list(_score_in_parts(graph, ids)))
        worst = max(worst, float(np.abs(logits - rows).max()))
        same += int((logits.argmax(axis=1) == rows.argmax(axis=1)).sum())
        positions += len(rows)
    return Parity(worst, same / positions, positions)


def _score_in_parts(graph: Model, ids: Sequence[int]) -> Iterator[np.ndarray]:
    graph.rewind(0)
    half = max(1, len(ids) // 2)
    yield graph.score(ids[:half]).copy()
    if half < len(ids):
        graph.score(ids[half:])  # dropped by the rewind: later logits must not depend on it
        graph.rewind(half)
    for i in range(half, len(ids)):
        yield graph.score(ids[i : i + 1]).copy()


def compare_with_torch(
    checkpoint: Checkpoint, graphs: Sequence[Model], prompts: Sequence[Sequence[int]]
) -> list[Parity]:
    """Parity of each graph with the checkpoint in float32, over the positions of some prompts."""
    expected = torch_rows(checkpoint, prompts)
    return [parity_of(graph, prompts, expected) for graph in graphs]


@dataclass(frozen=True)
class Acceptance:
    """How many of a drafter's tokens are accepted on some prompts, greedy, with a cold cache."""

    of_drafted: float  # share of all draft tokens
    of_evaluated: float  # share of the evaluated draft tokens: those up to and with the first rejection
    tokens_per_target_pass: float  # emitted tokens in a round


def measure_acceptance(
    target: Model,
    drafter: Drafter,
    make_cache: Callable[[], NgramCache],
    prompts: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> Acceptance:
    """Acceptance over prompts.

    Args:
        prompts: each as (target ids, draft ids).
    """
    models = DecoderModels(target, drafter, make_cache())
    rounds: list[Round] = []
    for ids, draft_ids in prompts:
        room = min(_NEW_TOKENS, target.max_length - len(ids))
        if room > 0:
            config = GenerationConfig(max_new_tokens=room)
            rounds += decode_prompt(models, ids, draft_ids, config, FixedLength(DRAFTED), SplitMix64(0))
    drafted = sum(len(r.draft) for r in rounds)
    accepted = sum(r.accepted_drafts for r in rounds)
    evaluated = sum(r.evaluated for r in rounds)
    emitted = sum(len(r.emitted) for r in rounds)
    return Acceptance(accepted / max(1, drafted), accepted / max(1, evaluated), emitted / max(1, len(rounds)))


def refuse_collapse(before: Acceptance, after: Acceptance, quantization: str) -> None:
    """Stop an export if quantisation broke the drafter."""
    if before.of_drafted >= CHANCE and after.of_drafted < 0.5 * before.of_drafted:
        raise ExportError(
            f"{quantization} breaks the drafter: {after.of_drafted:.1%} of its "
            f"tokens are accepted, {before.of_drafted:.1%} before quantisation",
            "export with --quant int8 or fp32",
        )
