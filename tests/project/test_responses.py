"""A target's answers for training: tokens, their distributions, and the hidden states behind them."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.support.responses import respond  # noqa: E402
from support.toy_training import tiny_drafter  # noqa: E402


def test_rows_of_a_response_are_the_targets_distributions_at_temperature_1() -> None:
    """Greedy answers, and rows that are the softmax of the logits."""
    target = tiny_drafter(3).eval()
    prompts = [[1, 2, 3], [4], [5, 6, 1, 2, 3]]
    for prompt, response in zip(prompts, respond(target, prompts, max_new_tokens=6, top=8), strict=True):
        assert response.prompt == tuple(prompt) and len(response.tokens) == 6 and response.rows.finite
        with torch.no_grad():
            ids = torch.tensor([[*prompt, *response.tokens]])
            expected = target(ids).logits[0, len(prompt) - 1 : -1].softmax(-1).numpy()
        assert [int(row.argmax()) for row in expected] == list(response.tokens)
        distributions = np.take_along_axis(expected, response.rows.ids.astype(np.int64), axis=1)
        assert np.abs(distributions - response.rows.probabilities).max() < 1e-5


def test_hidden_states_are_those_that_the_rows_came_from() -> None:
    """The target's head on the hidden states gives the rows."""
    target = tiny_drafter(3).eval()
    responses = list(respond(target, [[1, 2, 3], [4]], max_new_tokens=5, top=8, hidden=True))
    assert len(responses) == 2
    for response in responses:
        assert response.hidden is not None and response.hidden.shape == (5, 32)
        distributions = target.lm_head(torch.from_numpy(response.hidden)).softmax(-1).detach().numpy()
        kept = np.take_along_axis(distributions, response.rows.ids.astype(np.int64), axis=1)
        assert np.abs(kept - response.rows.probabilities).max() < 1e-5


def test_an_answer_ends_with_its_end_token() -> None:
    target = tiny_drafter(3).eval()
    (free,) = respond(target, [[1, 2, 3]], max_new_tokens=6)
    eos = free.tokens[2]
    first = free.tokens.index(eos)
    responses = list(respond(target, [[1, 2, 3], [4, 4]], max_new_tokens=6, eos_ids=[eos]))
    assert responses[0].tokens == free.tokens[: first + 1] and len(responses[0].rows) == first + 1
