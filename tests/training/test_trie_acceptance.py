"""The loss on the acceptance is the sum of min(P, q) by hand, and no drafter is better than P itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from omnidraft.errors import SettingError  # noqa: E402
from omnidraft.learning.positions.batch import Distributions  # noqa: E402
from omnidraft.training.objectives.loss import loss_of  # noqa: E402
from omnidraft.training.objectives.trie_acceptance import TrieAcceptance  # noqa: E402

LOGITS = [[2.0, 1.0, 0.0, -1.0, 0.5], [0.0, 0.0, 3.0, 0.0, 0.0]]
WEIGHTS = [1.0, 0.5]


def batch_of(p: list[list[float]], other: list[float]) -> Any:
    """Two distributions over the draft tokens 0 and 2; the tokens that are not listed are one option."""
    tensors = Distributions(
        rows=torch.arange(2), ids=torch.tensor([[0, 2]] * 2), probabilities=torch.tensor(p),
        other=torch.tensor(other), weights=torch.tensor(WEIGHTS),
    )  # fmt: skip
    return SimpleNamespace(trie=tensors)


def loss(kind: Any, p: list[list[float]], other: list[float]) -> float:
    logits = torch.tensor(LOGITS)
    return float(loss_of(TrieAcceptance(kind)(logits, batch_of(p, other))))


def q_by_hand() -> np.ndarray[Any, Any]:
    """q of token 0, of token 2 and of all others."""
    q = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    return np.stack([q[:, 0], q[:, 2], q[:, [1, 3, 4]].sum(axis=1)], axis=1)


@pytest.mark.parametrize("kind", ["refusals", "log"])
def test_the_loss_is_that_of_the_decisions(kind: str) -> None:
    p, other = [[0.7, 0.1], [0.2, 0.3]], [0.2, 0.5]
    accepted = np.minimum(q_by_hand(), np.column_stack([p, other])).sum(axis=1)
    each = 1.0 - accepted if kind == "refusals" else -np.log(accepted)
    assert loss(kind, p, other) == pytest.approx(np.average(each, weights=WEIGHTS), abs=1e-6)


@pytest.mark.parametrize("kind", ["refusals", "log"])
def test_the_least_loss_is_where_both_distributions_are_equal(kind: str) -> None:
    q = q_by_hand()
    assert loss(kind, q[:, :2].astype(np.float32).tolist(), q[:, 2].tolist()) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("kl", [-0.1, 1.5, float("nan")])
def test_a_share_of_the_divergence_is_a_share(kl: float) -> None:
    with pytest.raises(SettingError, match=r"share .* is not in 0\.\.1"):
        TrieAcceptance(kl=kl)
