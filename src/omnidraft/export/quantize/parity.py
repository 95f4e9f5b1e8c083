"""Honest checks of what was exported: against torch, and the drafter's acceptance before and after rounding.

A quantised drafter that is never accepted still gives correct text, so nobody notices: it is measured here,
and a collapse stops the export.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.errors import ExportError
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import Pair, Round, Settings, rule_for, speculate
from omnidraft.runtime.vocab.ngram_cache import NgramCache

DRAFTED = 4  # draft tokens in each round of the acceptance check
_NEW_TOKENS = 32
_MEANINGFUL = 0.02  # below this share an untrained pair agrees by chance, and there is nothing to collapse


@dataclass(frozen=True)
class Parity:
    """A graph against torch on the same tokens.

    Attributes:
        max_difference: of any logit, in float32.
        greedy_agreement: share of positions with the same argmax.
        positions: compared.
    """

    max_difference: float
    greedy_agreement: float
    positions: int


@dataclass(frozen=True)
class StepParity:
    """A training graph against torch, after one step in two calls.

    Attributes:
        loss: difference of the losses, as a share of torch's.
        gradient: norm of the difference, as a share of the norm of torch's.
        tensors: the same of how far the step moved the tensors and AdamW's moments, the largest of the three.
    """

    loss: float
    gradient: float
    tensors: float

    @property
    def worst(self) -> float:
        """The largest; infinite where one is no number."""
        found = max(self.loss, self.gradient, self.tensors)
        return found if np.isfinite([self.loss, self.gradient, self.tensors]).all() else float("inf")


def torch_rows(
    checkpoint: Checkpoint, prompts: Sequence[Sequence[int]], layers: int | None = None
) -> list[np.ndarray]:
    """torch's float32 logits of every position of some prompts, of the first `layers` layers if given."""
    from omnidraft.checkpoints.thin_model import logits_of, thin_model  # torch, which adopting does without

    thin = thin_model(checkpoint, layers)
    return [logits_of(thin, list(ids)) for ids in prompts]


def parity_of(graph: Model, prompts: Sequence[Sequence[int]], wanted: Sequence[np.ndarray]) -> Parity:
    """A graph compared with torch's logits of some prompts.

    Half of every prompt goes in as one block and the rest token by token, with a rewind in between, so that
    prefill, decoding and rollback are all compared.
    """
    worst, same, positions = 0.0, 0, 0
    for ids, rows in zip(prompts, wanted, strict=True):
        found = np.concatenate(list(_score_in_parts(graph, ids)))
        worst = max(worst, float(np.abs(found - rows).max()))
        same += int((found.argmax(axis=1) == rows.argmax(axis=1)).sum())
        positions += len(rows)
    return Parity(worst, same / positions, positions)


def _score_in_parts(graph: Model, ids: Sequence[int]) -> Iterator[np.ndarray]:
    graph.rewind(0)
    half = max(1, len(ids) // 2)
    yield graph.score(ids[:half]).copy()
    if half < len(ids):
        graph.score(ids[half:])  # thrown away: what follows must not see it
        graph.rewind(half)
    for i in range(half, len(ids)):
        yield graph.score(ids[i : i + 1]).copy()


def compare_with_torch(
    checkpoint: Checkpoint, graphs: Sequence[Model], prompts: Sequence[Sequence[int]]
) -> list[Parity]:
    """Parity of each graph with the checkpoint in float32, over the positions of some prompts."""
    wanted = torch_rows(checkpoint, prompts)
    return [parity_of(graph, prompts, wanted) for graph in graphs]


@dataclass(frozen=True)
class Acceptance:
    """A drafter's worth on some prompts, greedy, cold cache."""

    of_drafted: float
    of_tested: float  # of the draft tokens that were judged: those before the first refusal, and it
    tokens_per_target_pass: float


def measure_acceptance(
    target: Model,
    drafter: Drafter,
    make_cache: Callable[[], NgramCache],
    prompts: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> Acceptance:
    """Acceptance over prompts given as (target ids, draft ids), one cold cache for all of them."""
    pair = Pair(target, drafter, make_cache())
    rounds: list[Round] = []
    for ids, draft_ids in prompts:
        room = min(_NEW_TOKENS, target.max_length - len(ids))
        if room > 0:
            settings = Settings(rule_for("trie", 0.0), SamplingConfig(), room, ())
            rounds += speculate(pair, ids, draft_ids, settings, FixedLength(DRAFTED), SplitMix64(0))
    drafted = sum(len(r.draft) for r in rounds)
    passed = sum(r.passed for r in rounds)
    tested = sum(r.tested for r in rounds)
    emitted = sum(len(r.emitted) for r in rounds)
    return Acceptance(passed / max(1, drafted), passed / max(1, tested), emitted / max(1, len(rounds)))


def refuse_collapse(before: Acceptance, after: Acceptance, quantization: str) -> None:
    """Stop an export whose drafter quantisation broke.

    Raises:
        ExportError: acceptance fell below half of the unquantised pair's.
    """
    if before.of_drafted >= _MEANINGFUL and after.of_drafted < 0.5 * before.of_drafted:
        raise ExportError(
            f"{quantization} breaks the drafter: {after.of_drafted:.1%} of its "
            f"tokens are accepted, {before.of_drafted:.1%} before quantisation",
            "export with --quant int8 or fp32",
        )
