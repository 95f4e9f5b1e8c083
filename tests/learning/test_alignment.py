"""Alignment of a response of the target with the drafter: every special case of method section 5.1."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.errors import SettingError
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.learning.positions.alignment import Aligned, Aligner, SparseDistributions
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.learning.positions.target_rows import TargetRows, dense_rows, top_rows
from omnidraft.runtime.decoding.decision import decision_probs
from omnidraft.runtime.decoding.distribution import Categorical
from omnidraft.runtime.decoding.translator import translate
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.trie import ActiveTrie
from support.aligning import ALIGNER, PROMPT, Distributions, distributions_of
from support.places import ROOT, STARTERS
from support.toy import DRAFT, TARGET, toy_map


def align(
    names: Sequence[str], p: Distributions | None = None, aligner: Aligner = ALIGNER
) -> tuple[Aligned, Distributions]:
    p = distributions_of(len(names)) if p is None else p
    return aligner.align(PROMPT, [TARGET.index(n) for n in names], dense_rows(p), before=3), p


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


def p_of(p: Distributions, row: int, *names: str) -> float:
    return float(sum(p[row, TARGET.index(n)] for n in names))


def test_the_drafter_reads_its_prompt_and_the_spellings() -> None:
    aligned, _ = align(["FLAKE", "S", "FO"])
    assert [DRAFT[d] for d in aligned.draft_ids] == ["s", "o", "f", "la", "ke", "s", "f", "o"]
    assert aligned.prompt_length == 2 and aligned.num_rows == 7
    assert aligned.tokens.rows.tolist() == [0, 3, 4] and aligned.tokens.lengths.tolist() == [3, 1, 2]
    assert aligned.owners.tolist() == [0, 0, 0, 1, 2, 2]
    assert aligned.tokens.direct.tolist() == [False, True, False]
    assert aligned.tokens.before.tolist() == [3, TARGET.index("FLAKE"), TARGET.index("S")]


def test_the_root_distribution_gathers_every_token_below_a_first_draft_token() -> None:
    aligned, p = align(["FLAKE"])
    ((distribution, other, weight),) = at(aligned.trie_distributions, 0)
    sayable = 1.0 - p_of(p, 0, "X")  # nothing spells X
    assert other == 0.0 and weight == pytest.approx(sayable)
    expected = {"s": ["S"], "f": ["F", "FLAKE", "FO", "FLAS"], "la": ["LA", "LAKE"], "ke": ["KE"], "o": ["O"]}
    assert distribution == pytest.approx({d: p_of(p, 0, *ts) / sayable for d, ts in expected.items()})


def test_inside_a_spelling_the_distribution_is_that_of_the_decision() -> None:
    aligned, p = align(["FLAKE"])
    ((distribution, other, weight),) = at(aligned.trie_distributions, 1)
    mass = p_of(p, 0, "F", "FLAKE", "FO", "FLAS")
    expected = {"la": p_of(p, 0, "FLAKE", "FLAS") / mass, "o": p_of(p, 0, "FO") / mass}
    assert distribution == pytest.approx(expected) and weight == 1.0
    assert other == pytest.approx(p_of(p, 0, "F") / mass)  # END: all draft tokens that go on in nothing
    ((distribution, other, _),) = at(aligned.trie_distributions, 2)
    mass = p_of(p, 0, "FLAKE", "FLAS")
    assert distribution == pytest.approx({"ke": p_of(p, 0, "FLAKE") / mass, "s": p_of(p, 0, "FLAS") / mass})
    assert other == 0.0  # no token ends at f, la


def test_after_a_token_that_could_have_gone_on() -> None:
    """P(child | u) for children; for others P(END | u) times the next root distribution outside them."""
    aligned, p = align(["F", "O"])
    ((distribution, other, weight),) = at(aligned.trie_distributions, 1)
    mass = p_of(p, 0, "F", "FLAKE", "FO", "FLAS")
    end = p_of(p, 0, "F") / mass
    kept = {"s": p_of(p, 1, "S"), "f": p_of(p, 1, "F", "FLAKE", "FO", "FLAS"), "ke": p_of(p, 1, "KE")}
    sayable = 1.0 - p_of(p, 1, "X")
    total = 1.0 - end + end * sayable  # an END that leads to X cannot be drafted
    expected = {d: end * sayable * x / sum(kept.values()) / total for d, x in kept.items()}
    expected |= {
        "la": p_of(p, 0, "FLAKE", "FLAS") / mass / total,
        "o": p_of(p, 0, "FO") / mass / total,
    }
    assert (
        distribution == pytest.approx(expected)
        and other == pytest.approx(0.0)
        and weight == pytest.approx(total)
    )


def test_after_a_leaf_the_next_row_alone_says_what_comes() -> None:
    aligned, p = align(["FLAKE", "S"])
    ((distribution, _, _),) = at(aligned.trie_distributions, 3)
    assert distribution["s"] == pytest.approx(p_of(p, 1, "S") / (1.0 - p_of(p, 1, "X")))


@pytest.mark.parametrize("name", [n for n in TARGET if n != "X"])
def test_the_distributions_along_a_spelling_multiply_to_the_tokens_probability(name: str) -> None:
    """So the forward KL over the positions of a spelling is the KL of the token, by the chain rule."""
    aligned, p = align([name])
    product = 1.0
    for depth in range(int(aligned.tokens.lengths[0])):
        ((distribution, _, _),) = at(aligned.trie_distributions, depth)
        product *= distribution[DRAFT[aligned.draft_ids[2 + depth]]]
    children = {"F": ("F", "FLAKE", "FO", "FLAS"), "LA": ("LA", "LAKE")}
    if name in children:  # END is decided by the next draft token, which belongs to the next place
        product *= p_of(p, 0, name) / p_of(p, 0, *children[name])
    assert product == pytest.approx(p_of(p, 0, name) / (1.0 - p_of(p, 0, "X")))


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


def test_a_token_without_a_spelling_takes_no_draft_position() -> None:
    """The drafter continues from the same position, so two rows of the target belong to one row of the
    drafter.
    """
    aligned, p = align(["S", "X", "O"])
    assert [DRAFT[d] for d in aligned.draft_ids] == ["s", "o", "s", "o"]
    assert aligned.tokens.lengths.tolist() == [1, 0, 1] and aligned.tokens.rows.tolist() == [0, 1, 1]
    first, second = at(aligned.trie_distributions, 1)
    for row, (distribution, _, weight) in ((1, first), (2, second)):
        assert weight == pytest.approx(1.0 - p_of(p, row, "X"))
        assert distribution["s"] == pytest.approx(p_of(p, row, "S") / weight)
    certain = np.eye(len(TARGET))[[TARGET.index("X")]]
    aligned, _ = align(["X"], certain)
    assert len(aligned.trie_distributions) == 0 and len(aligned.owners) == 0  # nothing to learn, and no error


def test_only_active_spellings_are_taught() -> None:
    """With the trie of an empty cache FLAKE is not a child of f, as in the verifier."""
    cold = Aligner(ActiveTrie(toy_map()), max_length=64)
    aligned, p = align(["FLAKE", "S"], aligner=cold)
    ((distribution, _, weight),) = at(aligned.trie_distributions, 0)
    assert distribution["f"] == pytest.approx(p_of(p, 0, "F") / weight)
    assert weight == pytest.approx(p_of(p, 0, "S", "F", "LA", "KE", "O"))
    assert not at(aligned.trie_distributions, 1) and not at(aligned.trie_distributions, 2)
    assert [DRAFT[d] for d in aligned.draft_ids[2:]] == ["f", "la", "ke", "s"]


def test_a_cut_row_puts_what_it_lost_into_other() -> None:
    p = distributions_of(1, 4)
    token = int(p[0].argmin())
    rows = top_rows(p, [token], 3)
    assert token in rows.ids[0] and rows.of(0, token) == pytest.approx(p[0, token])
    assert rows.rest[0] == pytest.approx(1.0 - rows.probabilities[0].sum()) and rows.finite
    aligned = ALIGNER.align(PROMPT, [TARGET.index("S")], TargetRows(*_only(p, ["S", "FO"])))
    ((distribution, other, _),) = at(aligned.trie_distributions, 0)
    assert distribution == pytest.approx({"s": p_of(p, 0, "S"), "f": p_of(p, 0, "FO")})
    assert sum(distribution.values()) + other == pytest.approx(1.0)
    # The probability of a token that its row does not list is unknown, not 0.
    aligned = ALIGNER.align(PROMPT, [TARGET.index("KE")], TargetRows(*_only(p, ["S", "FO"])))
    assert np.isnan(aligned.tokens.probabilities).all()


def _only(p: Distributions, names: list[str]) -> tuple[npt.NDArray[np.int32], Distributions, Distributions]:
    ids = np.array([[TARGET.index(n) for n in names]], dtype=np.int32)
    kept = p[:, ids[0]]
    return ids, kept, 1.0 - kept.sum(axis=1)


def test_a_distribution_keeps_the_likeliest_ids() -> None:
    few = Aligner(ALIGNER.trie, max_length=64, keep=2)
    aligned, _ = align(["S"], aligner=few)
    whole, _ = align(["S"])
    ((distribution, other, _),), ((all_of_it, _, _),) = (
        at(aligned.trie_distributions, 0),
        at(whole.trie_distributions, 0),
    )
    assert distribution == dict(sorted(all_of_it.items(), key=lambda item: -item[1])[:2])
    assert other == pytest.approx(1.0 - sum(distribution.values()))


def test_the_intersection_has_the_rest_of_the_distribution_beside_it() -> None:
    aligned, p = align(["S"])
    ((distribution, other, weight),) = at(aligned.direct_distributions, 0)
    pairs = {"s": "S", "f": "F", "la": "LA", "ke": "KE", "o": "O"}
    assert distribution == pytest.approx({d: p_of(p, 0, t) for d, t in pairs.items()})
    assert other == 0.0 and weight == pytest.approx(sum(distribution.values()))


def test_what_does_not_fit_the_context_is_dropped_by_whole_tokens() -> None:
    short = Aligner(ALIGNER.trie, max_length=len(PROMPT) + 4)
    aligned, _ = align(["S", "FLAKE", "FO"], aligner=short)
    assert len(aligned.draft_ids) == len(PROMPT) + 4 and len(aligned.tokens.ids) == 2
    assert len(aligned.target_rows) == len(aligned.direct_distributions) == 2
    assert aligned.trie_distributions.rows.max() < aligned.num_rows


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
        before = b"".join(pieces[: aligned.tokens.rows[i]])
        assert before == text.encode()[: aligned.tokens.starts[i]]
        assert len(before) == aligned.tokens.starts[i]
    assert aligned.tokens.ends[-1] == len(text.encode()) and b"".join(pieces) == text.encode()
    assert (aligned.tokens.lengths > 1).any()
    distributions = aligned.trie_distributions
    assert np.abs(distributions.probabilities.sum(axis=1) + distributions.other - 1.0).max() < 1e-9
    assert (
        (distributions.probabilities >= 0).all()
        and (distributions.other >= 0).all()
        and set(distributions.rows) <= set(range(aligned.num_rows))
    )


def test_aligning_needs_no_torch() -> None:
    code = "import sys, omnidraft.learning.positions.alignment; print('torch' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    assert process.stdout.strip() == "False", process.stderr
