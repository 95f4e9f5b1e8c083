"""The losses of benchmarks/losses against their formulas in plain loops, and against finite differences."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from benchmarks.losses.chunks import Labelled, View, chunks_of  # noqa: E402
from benchmarks.losses.likelihoods import ALM_TEMPERATURE, ULD_FACTOR, VOCAGNOLM_SHARE  # noqa: E402
from benchmarks.losses.table import LEARNED, PLAIN, loss_named  # noqa: E402
from benchmarks.losses.trainer import trainer_for  # noqa: E402
from benchmarks.losses.transport import attention_cost, transported  # noqa: E402
from omnidraft.training.data.batch import collate  # noqa: E402
from omnidraft.training.objectives.losses import loss_of  # noqa: E402
from omnidraft.training.trainer_options import TrainerOptions  # noqa: E402
from support.aligning import ALIGNER, PROMPT, dense_rows, distributions_of, top_rows  # noqa: E402
from support.toy import DRAFT, TARGET, toy_map  # noqa: E402
from support.toy_training import tiny_drafter, toy_responses  # noqa: E402

NAMES = (*PLAIN, *LEARNED)
WIDTH, TARGET_WIDTH, SEED = 3, 4, 1
ANSWERS = (["FLAKE", "S", "X", "F", "O", "FO"], ["LA", "LAKE", "S"])
Values = Any  # arrays of float64


def answers(cut: int | None = None) -> list[Labelled]:
    found = []
    for seed, names in enumerate(ANSWERS):
        tokens, p = [TARGET.index(name) for name in names], distributions_of(len(names), seed)
        rows = dense_rows(p) if cut is None else top_rows(p, tokens, cut)
        hidden = np.random.default_rng(seed).normal(size=(len(names), TARGET_WIDTH)).astype(np.float16)
        found.append(Labelled(ALIGNER.align(PROMPT[seed:], tokens, rows), hidden, TARGET.index("O")))
    return found


def view_of(cut: int | None = None) -> View:
    """A drafter of random logits; its states and embeddings are random, too."""
    given, random = answers(cut), torch.Generator().manual_seed(5)
    batch = collate([each.aligned for each in given]).to("cpu", torch.float64)

    def drawn(*shape: int) -> Tensor:
        values: Tensor = torch.randn(*shape, generator=random, dtype=torch.float64)
        return values

    count = len(batch.sequences)
    logits, states = drawn(count, len(DRAFT)).requires_grad_(), drawn(count, WIDTH).requires_grad_()
    embedding = drawn(len(DRAFT), WIDTH).requires_grad_()
    others = drawn(len(TARGET), TARGET_WIDTH)
    return View(logits, states, embedding, others, batch, chunks_of(given).double())


def loss_at(name: str) -> Any:
    """The loss; with this seed DSKD's projected drafter is right at some places."""
    torch.manual_seed(SEED)
    loss: Any = loss_named(name, WIDTH, TARGET_WIDTH)
    return loss.double() if name in LEARNED else loss


def log_softmax(values: Values) -> Values:
    return values - np.log(np.exp(values).sum(axis=-1, keepdims=True))


def softmax(values: Values) -> Values:
    return np.exp(log_softmax(np.asarray(values)))


def places() -> list[tuple[int, int, int]]:
    """(row of logits, draft token, target token) of the draft tokens, spelled with the toy's map."""
    found, row, number = [], 0, 0
    for names in ANSWERS:
        for name in names:
            for piece in toy_map().spell(TARGET.index(name)):
                found.append((row, int(piece), number))
                row += 1
            number += 1
        row += 1
    return found


def target_rows(cut: int | None) -> list[tuple[int, dict[int, float], float]]:
    """(emitted id, listed probabilities, the rest) of the target tokens."""
    found = []
    for seed, names in enumerate(ANSWERS):
        p = distributions_of(len(names), seed)
        for i, name in enumerate(names):
            own, row = TARGET.index(name), dict(enumerate(p[i]))
            ranks = sorted(row, key=lambda t: -math.inf if t == own else -row[t])
            listed = {t: row[t] for t in ranks[: cut or len(row)]}
            found.append((own, listed, 1.0 - sum(listed.values())))
    return found


def losses_in_loops(view: View) -> list[float]:
    log_q = log_softmax(view.logits.detach().numpy())
    return [-float(log_q[row, piece]) for row, piece, _ in places()]


def expected_uld(view: View, cut: int | None) -> float:
    distances, row = [], 0
    starts: dict[int, int] = {}
    number = 0
    for names in ANSWERS:
        for name in names:
            starts[number] = row
            row += len(toy_map().spell(TARGET.index(name)))
            number += 1
        row += 1
    for number, (_, listed, rest) in enumerate(target_rows(cut)):
        p = sorted(listed.values(), reverse=True)
        q = sorted(softmax(view.logits[starts[number]].detach().numpy()), reverse=True)
        size = min(len(p), len(q))
        whole = sum(abs(p[i] - q[i]) for i in range(size))
        distances.append(whole + abs(sum(p[size:]) + rest - sum(q[size:])))
    ce = losses_in_loops(view)
    return float(sum(ce) / len(ce) + ULD_FACTOR * sum(distances) / len(distances))


def expected_alm(view: View, cut: int | None) -> float:
    ce, parts = losses_in_loops(view), []
    for number, (own, listed, _) in enumerate(target_rows(cut)):
        spelled = [x for x, (_, _, owner) in zip(ce, places(), strict=True) if owner == number]
        if spelled:
            p = listed[own] ** (1 / ALM_TEMPERATURE)
            q = math.exp(-sum(spelled)) ** (1 / ALM_TEMPERATURE)
            parts.append(p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q)))
    return float(sum(parts) / len(parts))


def expected_vocagnolm(view: View, cut: int | None) -> float:
    ce, rows = losses_in_loops(view), target_rows(cut)
    teacher = [-math.log(rows[owner][1][rows[owner][0]]) for _, _, owner in places()]
    order = sorted(range(len(ce)), key=lambda j: teacher[j] - ce[j])
    kept = order[: round(VOCAGNOLM_SHARE * len(ce))]
    return sum(ce[j] for j in kept) / len(kept)


def by_answer() -> list[tuple[list[int], list[int]]]:
    """Draft tokens and target tokens of each answer, by number."""
    first = len(ANSWERS[0])
    drafts = [owner < first for _, _, owner in places()]
    numbers = range(len(drafts))
    return [
        ([j for j in numbers if drafts[j]], list(range(first))),
        ([j for j in numbers if not drafts[j]], [first + i for i in range(len(ANSWERS[1]))]),
    ]


def scaled(values: Values) -> Values:
    return values / values.std(ddof=1)


def hidden_states() -> Values:
    return np.concatenate([each.hidden for each in answers()]).astype(np.float64)


def expected_dskd(view: View, cut: int | None, loss: Any) -> float:
    query, value, back = (w.weight.detach().numpy() for w in (loss.query, loss.value, loss.to_target))
    e, other = view.embedding.detach().numpy(), view.target_embedding.numpy()
    states, log_q = view.states.detach().numpy(), log_softmax(view.logits.detach().numpy())
    rows, hidden = target_rows(cut), hidden_states()
    ids = sorted({token for _, listed, _ in rows for token in listed})
    fitted, near, far = [], [], []
    for number, (drafts, targets) in enumerate(by_answer()):
        last = PROMPT[number:][-1]
        pieces = [places()[j][1] for j in drafts]
        read = [last, *pieces[:-1]]
        own = np.array([[*e[a], *e[b]] for a, b in zip(read, pieces, strict=True)])
        emitted = [rows[t][0] for t in targets]
        before = [TARGET.index("O"), *emitted[:-1]]
        keys = scaled(np.array([[*other[a], *other[b]] for a, b in zip(before, emitted, strict=True)]))
        scores = (own @ query.T) @ keys.T / math.sqrt(2 * TARGET_WIDTH)
        moved = softmax(scores) @ ((scaled(hidden[targets]) + scaled(other[emitted])) @ value.T)
        for j, state in zip(drafts, moved, strict=True):
            row, piece, _ = places()[j]
            log_p1 = log_softmax(e @ state)
            fitted.append(-log_p1[piece])
            if int(log_p1.argmax()) == piece:
                near.append(sum(math.exp(a) * (a - b) for a, b in zip(log_p1, log_q[row], strict=True)))
        back_states = softmax(scores.T) @ (states[[places()[j][0] for j in drafts]] @ back.T)
        for t, state in zip(targets, back_states, strict=True):
            log_q2 = dict(zip(ids, log_softmax(other[ids] @ state), strict=True))
            listed, total = rows[t][1], sum(rows[t][1].values())
            far.append(sum(p / total * (math.log(p / total) - log_q2[i]) for i, p in listed.items()))
    assert near, "the test has no place where the projected drafter is right"
    parts = (losses_in_loops(view), fitted, near, far)
    return 0.5 * sum(sum(part) / len(part) for part in parts)


def sinkhorn_in_logs(cost: Values) -> float:
    """The same plan from potentials, rather than from scalings of the kernel."""
    m, n = cost.shape
    f, g = np.zeros(m), np.zeros(n)
    for _ in range(20):
        f = -0.1 * (math.log(m) + np.log(np.exp((g[None] - cost) / 0.1).sum(axis=1)))
        g = -0.1 * (math.log(n) + np.log(np.exp((f[:, None] - cost) / 0.1).sum(axis=0)))
    return float((np.exp((f[:, None] + g[None] - cost) / 0.1) * cost).sum())


def expected_transport(view: View, loss: Any) -> float:
    e, other = view.embedding.detach().numpy(), view.target_embedding.numpy()
    states, emitted = view.states.detach().numpy(), [own for own, _, _ in target_rows(None)]
    layers = [
        (states[[row for row, _, _ in places()]], hidden_states() @ loss.last.weight.detach().numpy().T)
    ]
    if loss.first is not None:
        read = other[emitted] @ loss.first.weight.detach().numpy().T
        layers.append((e[[piece for _, piece, _ in places()]], read))
    whole = 0.0
    for own, others in layers:
        costs = [1.0 - softmax(own[d] @ others[t].T / math.sqrt(WIDTH)) for d, t in by_answer()]
        whole += sum(sinkhorn_in_logs(cost) for cost in costs) / len(costs)
    ce = losses_in_loops(view)
    return 0.5 * sum(ce) / len(ce) + 0.5 * whole


def expected(name: str, view: View, cut: int | None, loss: Any) -> float:
    """The loss from its formula, in float64 and without a tensor."""
    if name == "likelihood":
        ce = losses_in_loops(view)
        return sum(ce) / len(ce)
    if name == "dskd":
        return expected_dskd(view, cut, loss)
    if name in LEARNED:
        return expected_transport(view, loss)
    return {"uld": expected_uld, "alm": expected_alm, "vocagnolm": expected_vocagnolm}[name](view, cut)


@pytest.mark.parametrize("cut", [None, 4], ids=["whole", "cut"])
@pytest.mark.parametrize("name", NAMES)
def test_a_loss_is_its_formula(name: str, cut: int | None) -> None:
    view, loss = view_of(cut), loss_at(name)
    assert loss_of(loss(view)).item() == pytest.approx(expected(name, view, cut, loss), rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    view, loss = view_of(4), loss_at(name)

    def value(logits: Tensor, states: Tensor) -> Tensor:
        given = View(logits, states, view.embedding, view.target_embedding, view.batch, view.chunks)
        return loss_of(loss(given))

    assert torch.autograd.gradcheck(value, (view.logits, view.states), check_undefined_grad=False)
    read = torch.autograd.grad(value(view.logits, view.states), (view.logits, view.states), allow_unused=True)
    assert read[0] is not None and read[0].abs().max() > 1e-6
    assert (read[1] is not None and read[1].abs().max() > 1e-6) == (name in LEARNED)


def test_transport_is_that_of_the_best_assignment() -> None:
    """With little entropy the plan is the best of all assignments of equal numbers (Birkhoff)."""
    cost = np.random.default_rng(2).uniform(size=(4, 4))
    best = min(sum(cost[i, p[i]] for i in range(4)) for p in itertools.permutations(range(4))) / 4
    found = transported(torch.from_numpy(cost), entropy=0.01, rounds=1000).item()
    assert found == pytest.approx(best, abs=3e-3)


def test_a_state_goes_free_of_cost_to_its_only_partner() -> None:
    cost = attention_cost(20.0 * torch.eye(3), 20.0 * torch.eye(3))
    assert cost.diagonal().max() < 1e-3 and transported(cost.double()) < 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_training_lowers_a_loss(name: str) -> None:
    """The trainer learns the drafter's weights and the loss's own matrices."""
    drafter, target = tiny_drafter(), tiny_drafter(1)
    random = np.random.default_rng(0)
    given = [
        Labelled(each, random.normal(size=(len(each.tokens), 32)).astype(np.float16), 0)
        for each in toy_responses(4)
    ]
    target.resize_token_embeddings(len(TARGET))
    trainer = trainer_for(name, drafter, target, TrainerOptions(learning_rate=1e-2))
    reports = [trainer.learn(given) for _ in range(20)]
    assert reports[-1].loss < reports[0].loss and not trainer.skipped
