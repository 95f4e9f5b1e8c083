"""Alignment of a response of the target with the drafter: every special case of method section 5.1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from omnidraft.errors import SettingError
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.learning.positions.alignment import Aligned, Aligner, SparseDistributions
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.runtime.decoding.decision import decision_probs
from omnidraft.runtime.decoding.distribution import Categorical
from omnidraft.runtime.decoding.translator import translate
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from support.aligning import ALIGNER, PROMPT, Distributions, dense_rows, distributions_of, top_rows
from support.places import STARTERS
from support.toy import DRAFT, TARGET, toy_map


def align(
    names: Sequence[str], p: Distributions | None = None, aligner: Aligner = ALIGNER
) -> tuple[Aligned, Distributions]:
    p = distributions_of(len(names)) if p is None else p
    return aligner.align(PROMPT, [TARGET.index(n) for n in names], dense_rows(p)), p


def at(distributions: SparseDistributions, row: int) -> list[tuple[dict[str, float], float, float]]:
    """The distributions of a row: by draft token, OTHER, weight."""
    values = []
    for n in np.flatnonzero(distributions.rows == row):
        listed = {
            DRAFT[d]: float(x)
            for d, x in zip(distributions.ids[n], distributions.probabilities[n], strict=True)
            if d >= 0
        }
        values.append((listed, float(distributions.other[n]), float(distributions.weights[n])))
    return values


@pytest.mark.parametrize("name", ["FLAKE", "FLAS", "FO", "LAKE"])
@pytest.mark.parametrize("seed", range(3))
def test_the_distributions_are_those_that_the_verifier_tests_by(name: str, seed: int) -> None:
    """The runtime's own P of each decision on the way into a spelling."""
    trie, token = ALIGNER.trie, TARGET.index(name)
    aligned, p = align([name], distributions_of(1, seed))
    spelling, distribution = toy_map().spell(token), Categorical(p[0])
    uniform = Categorical(np.full(len(DRAFT), 1.0 / len(DRAFT)))
    decisions = translate(spelling, trie, max_tokens=4).decisions
    assert len(decisions) == len(spelling)
    for depth, decision in enumerate(decisions):
        expected, _ = decision_probs(decision, uniform, distribution, trie).options()
        ((ours, other, weight),) = at(aligned.trie_distributions, depth)
        if depth == 0:  # all draft tokens, then what nothing spells
            listed = [ours.get(d, 0.0) * weight for d in DRAFT] + [1.0 - weight]
        else:
            assert decision.parent is not None
            children = [DRAFT[d] for d in trie.children(decision.parent)[0]]
            listed = [ours.get(d, 0.0) for d in children]
            listed += [other] if trie.terminal(decision.parent) is not None else []
        assert listed == pytest.approx(expected.tolist())


@pytest.mark.parametrize(
    ("prompt", "tokens", "count", "message"),
    [
        ([], [0], 1, "prompt is empty"),
        (PROMPT, [0, 1], 1, "2 tokens has 1 target rows"),
        (PROMPT, [len(TARGET)], 1, f"outside 0..{len(TARGET) - 1}"),
        ([len(DRAFT)], [0], 1, f"outside 0..{len(DRAFT) - 1}"),
    ],
)
def test_what_cannot_be_aligned_is_refused(
    prompt: list[int], tokens: list[int], count: int, message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        ALIGNER.align(prompt, tokens, dense_rows(distributions_of(count)))


@pytest.mark.parametrize("value", [float("nan"), -0.5, 1.0])
def test_a_row_that_is_no_distribution_is_refused(value: float) -> None:
    p = distributions_of(2)
    p[1, 3] = value
    with pytest.raises(SettingError, match="is not a distribution"):
        ALIGNER.align(PROMPT, [0, 1], dense_rows(p))


@pytest.mark.parametrize(
    "text", ["Tom has 12 pens, 100 in all.\n  Why?", "naïve Größe 東京です", "def f(x):\n    return x"]
)
def test_both_models_have_read_the_same_text_at_every_place(text: str) -> None:
    """By byte offsets, with the real tokenizers: target row i and its draft row follow one prefix."""
    drafter, target = (LibraryTokenizer.from_file(STARTERS / name) for name in ("drafter", "a"))
    vocab_map = build_vocab_map(drafter, target)
    tokens = target.encode(text)
    rows = top_rows(np.random.default_rng(0).dirichlet(np.full(len(target), 0.01), len(tokens)), tokens, 64)
    aligned = Aligner(full_trie(vocab_map), max_length=512).align([1], tokens, rows)
    pieces = [drafter.tokens[d] or b"" for d in aligned.draft_ids[1:]]
    for i in range(len(tokens)):
        before = b"".join(target.tokens[t] or b"" for t in tokens[:i])
        assert b"".join(pieces[: aligned.rows[i]]) == before
    assert b"".join(pieces) == text.encode()
    assert (np.diff(aligned.rows) > 1).any()
    distributions = aligned.trie_distributions
    assert np.abs(distributions.probabilities.sum(axis=1) + distributions.other - 1.0).max() < 1e-9
    assert (
        (distributions.probabilities >= 0).all()
        and (distributions.other >= 0).all()
        and set(distributions.rows) <= set(range(aligned.num_rows))
    )
