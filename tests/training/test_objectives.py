"""Every objective against finite differences and against values computed by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from omnidraft.learning.positions.alignment import Aligned  # noqa: E402
from omnidraft.training.data.batch import DistributionTensors, TensorBatch, collate  # noqa: E402
from omnidraft.training.objectives import OBJECTIVES, objective  # noqa: E402
from omnidraft.training.objectives.divergence import divergence  # noqa: E402
from omnidraft.training.objectives.losses import cross_entropy, loss_of, trie_acceptance  # noqa: E402
from support.aligning import ALIGNER, PROMPT, dense_rows, distributions_of, top_rows  # noqa: E402
from support.toy import DRAFT, TARGET  # noqa: E402

RESPONSES = (["FLAKE", "S", "X", "F", "O", "FO"], ["LA", "LAKE", "S"])


def responses(*, cut: int | None = None) -> list[Aligned]:
    """Two responses of the toy target with complete or cut rows."""
    aligned = []
    for seed, names in enumerate(RESPONSES):
        tokens, p = [TARGET.index(n) for n in names], distributions_of(len(names), seed)
        rows = dense_rows(p) if cut is None else top_rows(p, tokens, cut)
        aligned.append(ALIGNER.align(PROMPT[seed:], tokens, rows))
    return aligned


def batch_of(**settings: Any) -> TensorBatch:
    return collate(responses(**settings)).to("cpu", torch.float64)


def logits_for(batch: TensorBatch, seed: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = len(batch.sequences), len(DRAFT)
    drawn: Tensor = torch.randn(shape, generator=generator, dtype=torch.float64)
    return drawn.requires_grad_()


@pytest.mark.parametrize("cut", [None, 4], ids=["whole", "cut"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradients_are_those_of_finite_differences(name: str, cut: int | None) -> None:
    batch = batch_of(cut=cut)
    tested, logits = objective(name), logits_for(batch)

    def loss(z: Tensor) -> Tensor:
        return loss_of(tested(z, batch))

    assert torch.autograd.gradcheck(loss, (logits,))
    (gradient,) = torch.autograd.grad(loss(logits), logits)
    assert gradient.abs().max() > 1e-4 and gradient.isfinite().all()


def distributions(ids: list[int], p: list[float], other: float) -> DistributionTensors:
    return DistributionTensors(
        torch.tensor([0]), torch.tensor([ids]), torch.tensor([p], dtype=torch.float64),
        torch.tensor([other], dtype=torch.float64), torch.tensor([1.0], dtype=torch.float64),
    )  # fmt: skip


def test_divergences_by_hand() -> None:
    """q = (.5, .25, .25); the distribution lists token 0 with .2 and token 2 with .3, OTHER has .5."""
    rows = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64).log() + 3.0
    distribution = distributions([0, 2, -1], [0.2, 0.3, 0.0], 0.5)
    forward = 0.2 * math.log(0.2 / 0.5) + 0.3 * math.log(0.3 / 0.25) + 0.5 * math.log(0.5 / 0.25)
    reverse = 0.5 * math.log(0.5 / 0.2) + 0.25 * math.log(0.25 / 0.3) + 0.25 * math.log(0.25 / 0.5)
    assert divergence(rows, distribution, "forward").item() == pytest.approx(forward)
    assert divergence(rows, distribution, "reverse").item() == pytest.approx(reverse)
    # Renormalised over tokens 0 and 1, whose q is then 2/3 and 1/3.
    inside = distributions([0, 1], [0.5, 0.5], 0.0)
    allowed = torch.tensor([True, True, False])
    expected = 0.5 * math.log(0.5 / (2 / 3)) + 0.5 * math.log(0.5 / (1 / 3))
    assert divergence(rows, inside, "forward", allowed).item() == pytest.approx(expected)


def test_nothing_pushes_mass_out_of_the_intersection() -> None:
    """A drafter that is right on the intersection: the bare sum would move its mass out, ours does not."""
    tokens = [TARGET.index("S")]
    p = np.zeros((1, len(TARGET)))
    p[0, [TARGET.index(t) for t in ("S", "O", "X")]] = 0.4, 0.4, 0.2
    batch = collate([ALIGNER.align(PROMPT, tokens, dense_rows(p))]).to("cpu", torch.float64)
    q = torch.full((len(batch.sequences), len(DRAFT)), 1e-9, dtype=torch.float64)
    q[:, DRAFT.index("s")] = q[:, DRAFT.index("o")] = 0.4
    q[:, DRAFT.index("i")] = 0.2  # maps to nothing
    logits = q.log().requires_grad_()
    outside = DRAFT.index("i")

    def direct(z: Tensor) -> Tensor:
        return loss_of(objective("omnidraft-dm")(z, batch))

    def gradient(loss: Tensor) -> float:
        return float(torch.autograd.grad(loss, logits, retain_graph=True)[0][0, outside])

    inside = [DRAFT.index("s"), DRAFT.index("o")]
    rows = torch.log_softmax(logits, dim=1)[0, inside]
    target = torch.tensor([0.4, 0.4], dtype=torch.float64)
    bare = (rows.exp() * (rows - torch.log(1.2 * target))).sum()  # p is slightly higher than q inside
    assert gradient(bare) < -1e-3  # descent would raise the logit outside
    assert gradient(direct(logits)) == pytest.approx(0.0, abs=1e-6)
    # With too little mass on the intersection, descent lowers the logit outside.
    shifted = logits + torch.nn.functional.one_hot(torch.tensor(outside), len(DRAFT)).double()
    assert gradient(direct(shifted)) > 1e-3


def test_row_j_predicts_draft_token_j() -> None:
    """Logits with all mass on the next token have cross-entropy 0; shifted by one row they do not."""
    batch = batch_of()
    sure = torch.zeros(len(batch.sequences), len(DRAFT), dtype=torch.float64)
    read = batch.input_ids[batch.sequences, batch.positions]
    following = batch.input_ids[
        batch.sequences, (batch.positions + 1).clamp_max(batch.input_ids.shape[1] - 1)
    ]
    sure[torch.arange(len(sure)), following] = 50.0
    assert cross_entropy(sure, batch).max() < 1e-12
    late = torch.zeros_like(sure)
    late[torch.arange(len(sure)), read] = 50.0
    assert cross_entropy(late, batch).mean() > 10.0


def test_omnidraft_by_hand() -> None:
    """Two target tokens: S, which is direct, and FO, an n-gram; the drafter is uniform over its 8 tokens."""
    p = distributions_of(2, 3)
    aligned = ALIGNER.align(PROMPT, [TARGET.index("S"), TARGET.index("FO")], dense_rows(p))
    batch = collate([aligned]).to("cpu", torch.float64)
    flat = torch.zeros(len(batch.sequences), len(DRAFT), dtype=torch.float64)
    u = 1.0 / len(DRAFT)
    pairs = [p[0, TARGET.index(t)] for t in ("S", "F", "LA", "KE", "O")]
    dm = sum(u * math.log(u / x) for x in pairs) + (1 - 5 * u) * math.log((1 - 5 * u) / (1 - sum(pairs)))
    ngram = -math.log(u)
    assert loss_of(objective("omnidraft-dm")(flat, batch)).item() == pytest.approx(dm)
    assert loss_of(objective("omnidraft")(flat, batch)).item() == pytest.approx(dm + 0.2 * ngram)


def test_trie_kl_is_the_kl_of_whole_tokens() -> None:
    """For one token: the sum over its path is log p(t) - log q(spelling), up to the entropy terms."""
    p = np.zeros((1, len(TARGET)))
    p[0, TARGET.index("FLAKE")] = 1.0
    batch = collate([ALIGNER.align(PROMPT, [TARGET.index("FLAKE")], dense_rows(p))]).to("cpu", torch.float64)
    logits = logits_for(batch)
    terms = objective("trie-kl")(logits, batch)
    assert terms["trie"].count == 3.0
    assert terms["trie"].sum.item() == pytest.approx(cross_entropy(logits, batch).sum().item())


def test_a_batch_is_the_sum_of_its_responses() -> None:
    """Padding and order have no effect: sums and counts add up."""
    both, logits = batch_of(), logits_for(batch_of())
    parts = [collate([r]).to("cpu", torch.float64) for r in responses()]
    rows = [logits[both.sequences == b] for b in range(2)]
    for name in OBJECTIVES:
        tested = objective(name)
        whole = tested(logits, both)
        each = [tested(z, part) for z, part in zip(rows, parts, strict=True)]
        for term in whole:
            assert whole[term].sum.item() == pytest.approx(sum(e[term].sum.item() for e in each)), name
            assert float(whole[term].count) == pytest.approx(sum(float(e[term].count) for e in each)), name


LOGITS = [[2.0, 1.0, 0.0, -1.0, 0.5], [0.0, 0.0, 3.0, 0.0, 0.0]]
WEIGHTS = [1.0, 0.5]


def acceptance_loss(p: list[list[float]], other: list[float]) -> float:
    """Of two distributions over the draft tokens 0 and 2; the tokens that are not listed are one option."""
    listed = DistributionTensors(
        torch.arange(2), torch.tensor([[0, 2]] * 2), torch.tensor(p), torch.tensor(other),
        torch.tensor(WEIGHTS),
    )  # fmt: skip
    batch: Any = SimpleNamespace(trie=listed)
    return float(loss_of(trie_acceptance(torch.tensor(LOGITS), batch)))


def test_trie_acceptance_is_the_share_that_decisions_refuse() -> None:
    """By hand from q of token 0, of token 2 and of all others; no drafter is better than P itself."""
    q = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    q = np.stack([q[:, 0], q[:, 2], q[:, [1, 3, 4]].sum(axis=1)], axis=1)
    p, other = [[0.7, 0.1], [0.2, 0.3]], [0.2, 0.5]
    accepted = np.minimum(q, np.column_stack([p, other])).sum(axis=1)
    assert acceptance_loss(p, other) == pytest.approx(np.average(1.0 - accepted, weights=WEIGHTS), abs=1e-6)
    best = acceptance_loss(q[:, :2].astype(np.float32).tolist(), q[:, 2].tolist())
    assert best == pytest.approx(0.0, abs=1e-6)
