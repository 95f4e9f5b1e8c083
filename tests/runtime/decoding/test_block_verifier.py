"""The worked numbers of spec/04-speculation.md, with uniforms as inputs, for both verifications."""

import numpy as np
import pytest

from omnidraft.runtime.decoding.decision import decision_probs
from omnidraft.runtime.decoding.distribution import Categorical
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.translator import Proposal, Step, translate
from omnidraft.runtime.decoding.verifier import Verdict, Verifier, block_pays, verify_block, verify_tokens
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.toy import ragged

DRAFT, TARGET = ["f", "la", "ke", "o"], ["F", "LA", "KE", "O", "FLAKE", "X"]
P = np.array([0.3, 0.1, 0.1, 0.1, 0.3, 0.1])
Q = [np.array(q) for q in ([0.5, 0.2, 0.1, 0.2], [0.1, 0.6, 0.2, 0.1], [0.2, 0.2, 0.5, 0.1])]


class GivenUniforms(SplitMix64):
    """A random source whose uniform numbers are inputs; a test asserts that all are used."""

    def __init__(self, uniforms: list[float]) -> None:
        super().__init__(0)
        self.left = list(uniforms)

    def uniform(self) -> float:
        return self.left.pop(0)


def cache() -> NgramCache:
    spellings = [[0], [1], [2], [3], [0, 1, 2], []]
    ngrams = NgramCache(
        VocabMap(
            target_bytes=ragged([list(t.encode()) for t in TARGET], np.uint8),
            direct=np.arange(4, dtype=np.int32),
            spellings=ragged(spellings),
            expansions=ragged([[]] * 4),
            leaves=np.array([0, 4, 1, 2, 3], dtype=np.int32),
            draft_allowed=np.ones(4, dtype=np.bool_),
            draft_fingerprint="d" * 64,
            target_fingerprint="t" * 64,
        )
    )
    assert ngrams.insert(TARGET.index("FLAKE"))
    return ngrams


def proposal_of(draft: str) -> Proposal:
    return translate([DRAFT.index(d) for d in draft.split()], cache().trie, max_tokens=8)


def verified(verify: Verifier, draft: str, uniforms: list[float]) -> tuple[list[str], Verdict]:
    """The emitted tokens and the verdict; every row of the target is P."""
    proposal, random = proposal_of(draft), GivenUniforms(uniforms)
    distributions = [Categorical(q) for q in Q]
    verdict = verify(proposal, distributions, lambda row: Categorical(P), cache().trie, random)
    assert not random.left, "the number of uniforms is part of the rule"
    tokens = [*proposal.tokens[: verdict.accepted], verdict.token]
    return [TARGET[t] for t in tokens], verdict


def test_the_ratios_are_the_worked_ones() -> None:
    steps: dict[str, list[Step]] = {}
    ratios: dict[str, list[float]] = {}
    for draft in ("f la ke", "f la o"):
        for decision in proposal_of(draft).decisions:
            probs = decision_probs(decision, Categorical(Q[decision.draft]), Categorical(P), cache().trie)
            ratios.setdefault(draft, []).append(probs.ratio)
            steps.setdefault(draft, []).append(decision.step)
    assert steps == {
        "f la ke": [Step.BEGIN, Step.GO_ON, Step.GO_ON],
        "f la o": [Step.BEGIN, Step.GO_ON, Step.DEAD_END],
    }
    assert ratios["f la ke"] == pytest.approx([1.2, 0.5 / 0.6, 2.0])
    assert ratios["f la o"] == pytest.approx([1.2, 0.5 / 0.6, 0.0])


@pytest.mark.parametrize(
    ("verify", "draft", "uniforms", "expected", "accepted"),
    [
        # b = 1 at the end: only the bonus takes a number, and 0.65 of P is FLAKE.
        (verify_block, "f la ke", [0.65], ["FLAKE", "FLAKE"], 3),
        (verify_tokens, "f la ke", [0.84, 0.0], ["F"], 1),  # 0.84 >= 5 / 6; then END
        (verify_tokens, "f la ke", [0.83, 0.95], ["FLAKE", "X"], 3),
        (verify_block, "f la o", [0.5, 0.1], ["FLAKE"], 2),
        (verify_block, "f la o", [0.66, 0.1], ["FLAKE"], 2),  # just below 2 / 3
        (verify_block, "f la o", [0.67, 0.1], ["F"], 1),  # just above: one decision back
        (verify_tokens, "f la o", [0.5, 0.1], ["FLAKE"], 2),
        (verify_tokens, "f la o", [0.9, 0.1], ["F"], 1),
    ],
)
def test_worked_rounds(
    verify: Verifier, draft: str, uniforms: list[float], expected: list[str], accepted: int
) -> None:
    emitted, verdict = verified(verify, draft, uniforms)
    assert emitted == expected
    assert verdict.accepted_drafts == accepted
    assert verdict.is_bonus == (accepted == 3)
    assert verdict.evaluated == accepted + (not verdict.is_bonus)


def test_block_pays_where_a_round_is_long() -> None:
    assert not block_pays(2e-3, 8_000)
    assert block_pays(10e-3, 8_000)
    assert not block_pays(20e-3, 151_936)
    assert block_pays(40e-3, 151_936)


def test_the_way_back_goes_through_a_kept_token_by_rejection_sampling() -> None:
    """o, then f: BEGIN o (P .1, Q .2: b = 1/2), BEGIN f (ratio 1.2, b = .6), the draft ends below f.

    0.7 refuses the block (b = .6). BEGIN f, reach 1/2: bernoulli(1/2) with .6 is False; 0.95 of P is X, which
    nothing spells: it is kept without a further number.
    """
    distributions = [Categorical(Q[0]), Categorical(Q[0])]
    random = GivenUniforms([0.7, 0.6, 0.95])
    verdict = verify_block(
        proposal_of("o f"), distributions, lambda row: Categorical(P), cache().trie, random
    )
    assert (verdict.accepted, TARGET[verdict.token], random.left) == (1, "X", [])
    # 0.4 skips this decision; BEGIN o, reach 1: 0.05 of P is F, kept with 1 - .5 / .6 = 1/6 > 0.1.
    random = GivenUniforms([0.7, 0.4, 0.05, 0.1])
    verdict = verify_block(
        proposal_of("o f"), distributions, lambda row: Categorical(P), cache().trie, random
    )
    assert (verdict.accepted, TARGET[verdict.token], random.left) == (0, "F", [])
    # 0.2 does not keep it: the residual (f .1, la -, ke 0, o -, unspelled .1), 0.6 of which is unspelled: X.
    random = GivenUniforms([0.7, 0.4, 0.05, 0.2, 0.6, 0.0])
    verdict = verify_block(
        proposal_of("o f"), distributions, lambda row: Categorical(P), cache().trie, random
    )
    assert (verdict.accepted, TARGET[verdict.token], random.left) == (0, "X", [])
