"""The adaptive head in training: inputs and labels, that it learns, and that the drafter is unaffected."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from benchmarks.support.small_models import MODELS, SIZES  # noqa: E402
from omnidraft.errors import SettingError  # noqa: E402
from omnidraft.learning.positions.alignment import Aligned, Aligner  # noqa: E402
from omnidraft.learning.positions.draft_targets import full_trie  # noqa: E402
from omnidraft.learning.positions.head_example import HeadExample, head_example  # noqa: E402
from omnidraft.learning.positions.target_rows import dense_rows  # noqa: E402
from omnidraft.runtime.decoding.early_stop import survival_of  # noqa: E402
from omnidraft.training import Trainer, TrainerOptions  # noqa: E402
from omnidraft.training.head.head import AcceptanceHead, head_loss  # noqa: E402
from omnidraft.training.head.head_batch import Drawn, head_batch, tempered  # noqa: E402
from omnidraft.training.head.head_states import draws_of  # noqa: E402
from support.toy import DRAFT, TARGET, toy_cache  # noqa: E402
from support.toy_training import MAP, START, tiny_drafter, toy_responses  # noqa: E402

FAST = TrainerOptions(learning_rate=3e-3, batch_size=8, head="joint", head_learning_rate=1e-2)
ALLOWED = torch.from_numpy(MAP.draft_allowed)


@pytest.fixture(scope="module")
def responses() -> list[Aligned]:
    return toy_responses(280)


def d(text: str) -> list[int]:
    return [DRAFT.index(x) for x in text.split()]


def aligned(text: str, trie: Any = None) -> Aligned:
    """A response in which every row is uniform over all target tokens."""
    tokens = [TARGET.index(t) for t in text.split()]
    rows = dense_rows(np.full((len(tokens), len(TARGET)), 1 / len(TARGET)))
    return Aligner(full_trie(MAP) if trie is None else trie, max_length=99).align([START], tokens, rows)


def test_what_is_right_after_each_place() -> None:
    """`S F O` is also the one draft token sfo; nothing writes X, so it has no place."""
    example = head_example(aligned("LA S F O FLAKE X KE"))
    assert example.draft_ids.tolist() == [START, *d("la s f o f la ke ke")]
    assert example.positions.tolist() == [*range(8)] and example.next_ids.tolist() == d("la s f o f la ke ke")
    longer = [[i for i in row if i >= 0] for row in example.longer.tolist()]
    assert longer == [[], d("sfo"), [], [], [], [], [], []]
    # Every token except X begins with one of these: F, FLAKE, FO and FLAS with f, LA and LAKE with la.
    first = {i: round(float(p), 6) for i, p in zip(example.ids[0], example.chances[0], strict=True) if i >= 0}
    assert first == {d("s")[0]: 0.1, d("f")[0]: 0.4, d("la")[0]: 0.2, d("ke")[0]: 0.1, d("o")[0]: 0.1}


def test_a_token_that_is_not_active_cannot_be_drafted_right() -> None:
    cache = toy_cache(MAP, ["LAKE"])
    example = head_example(aligned("FLAKE LAKE S", cache.trie))
    # FLAKE is not cached, so inside it there is no distribution and no place.
    assert example.positions.tolist() == [0, 3, 4, 5] and example.next_ids.tolist() == [-1, *d("la ke s")]


def test_a_greedy_draw_is_right_where_the_response_says_it() -> None:
    example = head_example(aligned("LA S F O"))
    batch = head_batch([example], [np.zeros(4)])
    logits = torch.full((1, 4, len(DRAFT)), -5.0)
    for place, (token, likely) in enumerate([("la", 2.0), ("sfo", 2.0), ("la", 2.0), ("#", 2.0)]):
        logits[0, place, DRAFT.index(token)] = likely
    logits[0, 3, DRAFT.index("o")] = 1.0  # the likeliest token that may be drawn: # may not
    drawn = batch.draws(logits, ALLOWED, 0.0)
    assert drawn.ids.tolist() == [d("la sfo la o")] and drawn.labels.tolist() == [[1.0, 1.0, 0.0, 1.0]]
    q = np.exp([2.0, 2.0, 2.0, 1.0]) / (np.exp([2.0, 2.0, 2.0, 1.0]) + 6 * np.exp(-5.0))
    assert torch.allclose(drawn.odds, torch.tensor(np.log(q / (1 - q)))[None].float(), atol=1e-3)


def test_a_drawn_token_passes_with_p_over_q() -> None:
    """By hand: q is uniform over the seven draft tokens that may be drawn; p is as in the tests above."""
    example = head_example(aligned("LA S"))
    for token, label in (("s", 0.7), ("f", 1.0), ("la", 1.0), ("i", 0.0)):
        u = (DRAFT.index(token) + 0.5) / 7
        batch = head_batch([example], [np.array([u, u])])
        drawn = batch.draws(torch.zeros(1, 2, len(DRAFT)), ALLOWED, 1.0)
        assert drawn.ids[0, 0] == DRAFT.index(token)
        assert float(drawn.labels[0, 0]) == pytest.approx(label, abs=1e-6)
        assert float(torch.sigmoid(drawn.odds[0, 0])) == pytest.approx(1 / 7, abs=1e-6)
    # A token that writes several target tokens is accepted only where exactly these come next.
    uniforms = np.full(4, (DRAFT.index("sfo") + 0.5) / 7)
    batch = head_batch([head_example(aligned("LA S F O"))], [uniforms])
    drawn = batch.draws(torch.zeros(1, 4, len(DRAFT)), ALLOWED, 1.0)
    assert drawn.ids.tolist() == [[DRAFT.index("sfo")] * 4]
    assert drawn.labels.tolist() == [[0.0, 1.0, 0.0, 0.0]]
    half = tempered(torch.tensor([[0.5, 0.25]]), 0.5)
    assert torch.allclose(half, torch.tensor([[0.25, 0.0625]]) / (0.25 + 2 * 0.0625))
    assert torch.allclose(tempered(torch.tensor([[0.5, 0.25]]), 0.01), torch.tensor([[1.0, 0.0]]), atol=1e-6)


def test_a_draw_at_the_end_of_a_distribution_is_a_token() -> None:
    """In float32 the sum of a distribution can be below the largest number below 1."""
    largest = np.nextafter(np.float32(1), np.float32(0))
    batch = head_batch([head_example(aligned("LA S"))], [np.full(2, largest)])
    random, short = torch.Generator().manual_seed(0), 0
    for _ in range(40):
        logits = 3 * torch.randn(1, 2, len(DRAFT), generator=random)
        sums = torch.softmax(logits.masked_fill(~ALLOWED, -torch.inf), -1).cumsum(-1)
        short += int((sums[..., -1] <= float(largest)).sum())
        assert ALLOWED[batch.draws(logits, ALLOWED, 1.0).ids].all()
    assert short > 0


@pytest.mark.parametrize("name", MODELS)
def test_a_drawn_token_is_read_as_if_it_stood_there(name: str) -> None:
    """Every family, with windows shorter than the text too: one pass for all places equals one for each."""
    model_type, extra = MODELS[name]
    torch.manual_seed(0)
    sizes = {**SIZES, **extra, **({"sliding_window": 4} if extra.get("sliding_window") else {})}
    config = AutoConfig.for_model(model_type, **sizes)
    model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    rng = np.random.default_rng(0)

    def example(length: int, positions: list[int]) -> HeadExample:
        ids = rng.integers(3, 300, length).astype(np.int32)
        none = np.zeros((len(positions), 0), dtype=np.int32)
        at = np.array(positions, dtype=np.int32)
        return HeadExample(ids, at, at, none, none.astype(np.float32), none)

    examples = [example(12, [2, 5, 6, 11]), example(9, [0, 7])]
    batch = head_batch(examples, [np.zeros(4), np.zeros(2)])
    seen: list[Any] = []

    def draw(logits: Any) -> Any:
        seen.append(logits)
        return Drawn(batch.positions * 7 + 11, batch.positions.float(), batch.positions.float())

    model.train()
    hidden, drawn = draws_of(model, batch, draw)
    assert model.training and torch.equal(drawn.labels, batch.positions.float())
    model.eval()
    for b, each in enumerate(examples):
        for n, at in enumerate(each.positions.tolist()):
            ids = [*each.draft_ids[: at + 1].tolist(), at * 7 + 11]
            with torch.no_grad():
                out = model(torch.tensor([ids]), output_hidden_states=True)
            assert torch.allclose(hidden[b, n], out.hidden_states[-1][0, -1], atol=1e-5)
            assert torch.allclose(seen[0][b, n], out.logits[0, -2], atol=1e-4)


def test_gradients_are_those_of_finite_differences() -> None:
    torch.manual_seed(0)
    head = AcceptanceHead(6, 2).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn_like(parameter))
    hidden, labels = torch.randn(9, 6, dtype=torch.float64), torch.rand(9, dtype=torch.float64)

    def loss() -> Any:
        total, weight = head_loss(head(hidden), labels, 6.0)
        return total / weight

    loss().backward()
    for parameter in head.parameters():
        assert parameter.grad is not None
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for i in range(0, len(flat), 5):
            kept, step = float(flat[i]), 1e-6
            flat[i] = kept + step
            up = float(loss().detach())
            flat[i] = kept - step
            down = float(loss().detach())
            flat[i] = kept
            assert float(gradient[i]) == pytest.approx((up - down) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("weight", [1.0, 6.0])
def test_the_logits_are_those_of_the_probability(weight: float) -> None:
    """For any weight of a refusal, the loss is least where sigmoid(logit) is the mean of the labels."""
    labels = torch.tensor([1.0] * 7 + [0.0] * 3)

    def loss(logit: float) -> float:
        total, count = head_loss(torch.full((10,), logit), labels, weight)
        return float(total / count)

    best = math.log(0.7 / 0.3)
    assert loss(best) < min(loss(best - 0.05), loss(best + 0.05))


def test_what_fills_a_batch_up_counts_for_nothing() -> None:
    logits, labels = torch.randn(7), torch.rand(7)
    known = torch.tensor([True, False, True, True, False, True, False])
    padded, alone = head_loss(logits, labels, 6.0, known), head_loss(logits[known], labels[known], 6.0)
    assert torch.allclose(torch.stack(padded), torch.stack(alone))


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """The share of pairs in which the accepted token has a higher score than the refused one."""
    pairs = scores[labels > 0.5][:, None] - scores[labels < 0.5][None]
    return float((pairs > 0).mean() + 0.5 * (pairs == 0).mean())


def predicted(trainer: Trainer, responses: list[Aligned]) -> tuple[np.ndarray, np.ndarray]:
    """The head's probabilities for the drafter's greedy draws, and the labels of these draws."""
    assert trainer.head is not None
    examples = [head_example(r) for r in responses]
    batch = head_batch(examples, [np.zeros(len(e.positions)) for e in examples])
    hidden, drawn = draws_of(trainer.model, batch, lambda logits: batch.draws(logits, ALLOWED, 0.0))
    with torch.no_grad():
        probabilities = torch.sigmoid(trainer.head.head(hidden) + drawn.odds)
    for acceptance, odds, both in zip(
        *(  # as a session computes it
            x[batch.known][:5].double().tolist()
            for x in (trainer.head.head(hidden), drawn.odds, probabilities)
        ),
        strict=True,
    ):
        assert survival_of(1 / (1 + math.exp(-acceptance)), 1 / (1 + math.exp(-odds))) == pytest.approx(
            both, abs=1e-5
        )
    return probabilities[batch.known].numpy(), drawn.labels[batch.known].numpy()


@pytest.mark.parametrize("mode", ["joint", "interleaved"])
def test_the_head_learns_what_is_accepted(responses: list[Aligned], mode: Any) -> None:
    """On new responses: it ranks draws far better than chance, and its probabilities fit the labels."""
    trainer = Trainer(tiny_drafter(), replace(FAST, head=mode))
    reports = trainer.train(responses)
    probabilities, labels = predicted(trainer, toy_responses(24, seed=5))
    area = auc(probabilities, labels)
    print(f"{mode}: AUC {area:.3f}, predicted {probabilities.mean():.3f}, accepted {labels.mean():.3f}")
    assert 0.2 < labels.mean() < 0.8 and area > 0.62  # standard error of 576 draws: 0.023
    assert abs(probabilities.mean() - labels.mean()) < 0.1
    assert all(math.isfinite(report.terms["head"]) for report in reports)


@pytest.mark.parametrize("mode", ["joint", "interleaved"])
def test_the_drafter_never_feels_the_head(responses: list[Aligned], mode: Any) -> None:
    alone, beside = (Trainer(tiny_drafter(), replace(FAST, head=h)) for h in (None, mode))
    for trainer in (alone, beside):
        trainer.train(responses[:24])
    assert alone.parameters.keys() == beside.parameters.keys()
    assert all(torch.equal(alone.parameters[n], beside.parameters[n]) for n in alone.parameters)


def test_the_replay_holds_the_latest(responses: list[Aligned]) -> None:
    trainer = Trainer(tiny_drafter(), replace(FAST, head="interleaved", head_buffer=12))
    trainer.train(responses[:8])
    trainer.step(responses[8:16])
    assert trainer.head is not None and len(trainer.head.buffer) == 12
    latest = [head_example(r).draft_ids.tolist() for r in responses[8:16]]
    assert [e.draft_ids.tolist() for e in trainer.head.buffer][4:] == latest


@pytest.mark.parametrize("options", [replace(FAST, lora_rank=4), replace(FAST, head="interleaved"),
                                     replace(FAST, head_temperature=1.0, head_blocks=2)])  # fmt: skip
def test_a_head_is_resumed_with_its_replay(
    responses: list[Aligned], options: TrainerOptions, tmp_path: Path
) -> None:
    whole, first, second = (Trainer(tiny_drafter(), options) for _ in range(3))
    for at in range(4):
        whole.step(responses[8 * at : 8 * at + 8])
    for at in range(2):
        first.step(responses[8 * at : 8 * at + 8])
    first.save(tmp_path / "state")
    second.resume(tmp_path / "state")
    for at in range(2, 4):
        second.step(responses[8 * at : 8 * at + 8])
    assert whole.head is not None and second.head is not None
    assert len(whole.head.buffer) == len(second.head.buffer) == (32 if options.head == "interleaved" else 0)
    for unbroken, resumed in (
        (whole.parameters, second.parameters),
        (whole.head.parameters, second.head.parameters),
    ):
        assert all(torch.equal(unbroken[n], resumed[n]) for n in unbroken)
    assert any(float(p.detach().abs().max()) > 0 for p in second.head.parameters.values())
    with pytest.raises(SettingError, match="made with head "):
        Trainer(tiny_drafter(), replace(options, head=None)).resume(tmp_path / "state")


def test_settings_outside_their_ranges() -> None:
    for changes, message in (
        ({"head": "apart"}, 'head "apart" is unknown; use joint or interleaved'),
        ({"head_buffer": 0}, "head_buffer 0 is not a number of at least 1"),
        ({"reject_weight": 0.5}, "reject_weight 0.5 is not a number of at least 1"),
    ):
        with pytest.raises(SettingError, match=message):
            TrainerOptions(**changes)
    with pytest.raises(SettingError, match=r"a head of 4 blocks is outside 1..3"):
        Trainer(tiny_drafter(), replace(FAST, head_blocks=4))
