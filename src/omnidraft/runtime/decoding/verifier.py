"""Verification: accept as much of a proposal as leaves the output's distribution exactly the target's.

Pure functions: distributions and a source of randomness come in, a verdict goes out. `verify_tokens` is
speculative sampling on the decisions of the trie walk, one after another (method section 4.2).
`verify_block` verifies the decisions together. `verify_match` needs no drafter's distributions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from omnidraft import defaults
from omnidraft.runtime.decoding.decision import DecisionProbs, decision_probs, resample_or_skip
from omnidraft.runtime.decoding.distribution import Distribution, Workspace
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.translator import Proposal
from omnidraft.runtime.vocab.trie import ActiveTrie

Probs = Callable[[int], Distribution]  # the target's distribution after n proposed tokens

# Measured by benchmarks/block_verification.py of commit 8a60be2: what block verification adds to the tokens
# of a round, and to its host work, which grows with the target's vocabulary because every row is asked for.
GAIN = defaults.BLOCK_GAIN
EXTRA_SECONDS, EXTRA_SECONDS_PER_TOKEN = defaults.BLOCK_EXTRA_SECONDS, defaults.BLOCK_EXTRA_SECONDS_PER_TOKEN


@dataclass(frozen=True)
class Verdict:
    """The outcome of a verification.

    Attributes:
        accepted: number of proposed target tokens that are accepted.
        token: the target token after them: a correction, or the bonus when all are accepted.
        is_bonus: whether every decision was accepted.
        evaluated: number of draft tokens that were verified.
        accepted_drafts: number of those that were accepted.
    """

    accepted: int
    token: int
    is_bonus: bool
    evaluated: int
    accepted_drafts: int

    def tokens(self, proposal: Proposal) -> list[int]:
        """The target tokens of the round: the accepted ones, and the one after them."""
        return [*proposal.tokens[: self.accepted], self.token]


class Verifier(Protocol):
    """A rule that verifies the decisions of a proposal."""

    def __call__(
        self,
        proposal: Proposal,
        draft: Sequence[Distribution],
        probs: Probs,
        trie: ActiveTrie,
        random: RandomSource,
        workspace: Workspace | None = None,
    ) -> Verdict:
        """
        Args:
            draft: the drafter's distributions, one for each draft token, as they were sampled from.
            probs: the target's distribution at each proposed position and after the last.
            trie: the active trie that the proposal was translated with, unchanged since.
        """


def verify_tokens(
    proposal: Proposal,
    draft: Sequence[Distribution],
    probs: Probs,
    trie: ActiveTrie,
    random: RandomSource,
    workspace: Workspace | None = None,
) -> Verdict:
    """Speculative sampling on trie decisions, one after another: exact at every temperature.

    Args:
        see `Verifier`.
    """
    for decision in proposal.decisions:
        decided = decision_probs(decision, draft[decision.draft], probs(decision.row), trie, workspace)
        if not random.bernoulli(decided.ratio):
            token = resample_or_skip(decided, 1.0, random)
            assert token is not None, "with reach 1 a refused decision is always replaced"
            return Verdict(decision.row, token, False, decision.draft + 1, decision.draft)
    return _bonus(proposal, probs, trie, random)


def verify_block(
    proposal: Proposal,
    draft: Sequence[Distribution],
    probs: Probs,
    trie: ActiveTrie,
    random: RandomSource,
    workspace: Workspace | None = None,
) -> Verdict:
    """Block verification on trie decisions (Sun et al., ICLR 2025; method section 4.2).

    It is optimal for a single path: a decision that the target likes better than the drafter makes up for one
    that it likes less, where token-level verification would cap every ratio at 1. It is exact by the same
    enumeration.

    reach[i] = b_i is the probability that the decisions before i are accepted, given them: b_0 = 1 and
    b_{i+1} = min(1, b_i P_i / Q_i). From the end backwards: all are accepted with b_N; else the round ends at
    decision i with h_i, replaced by a draw from max(0, b_i P_i - Q_i); else one step back. Decision 0 always
    ends the round.

    The chain spans splits: given what the drafter alone decides, b_i is still the probability that the
    decisions before i are accepted. So h_i may use the distribution given the split, and the end of the draft
    is a split too.

    Args:
        see `Verifier`; every row up to a decision of ratio 0 is asked for.
    """
    decided: list[DecisionProbs] = []
    reach = [1.0]
    for decision in proposal.decisions:
        probs_of = decision_probs(decision, draft[decision.draft], probs(decision.row), trie, workspace)
        decided.append(probs_of)
        reach.append(min(1.0, reach[-1] * probs_of.ratio))
        if reach[-1] == 0.0:  # no later decision can be accepted
            break
    if random.bernoulli(reach[-1]):
        return _bonus(proposal, probs, trie, random)
    for i in reversed(range(len(decided))):
        token = resample_or_skip(decided[i], reach[i], random)
        if token is not None:
            decision = proposal.decisions[i]
            return Verdict(decision.row, token, False, decision.draft + 1, decision.draft)
    raise AssertionError("b_0 is 1, so the walk back ends at decision 0")


def block_pays(round_seconds: float, vocab_size: int) -> bool:
    """Whether a round is long enough for the gain of block verification to outweigh its host work.

    Args:
        round_seconds: of a round with token-level verification.
        vocab_size: width of the target's logits.
    """
    return GAIN * round_seconds > EXTRA_SECONDS + EXTRA_SECONDS_PER_TOKEN * vocab_size


def _bonus(proposal: Proposal, probs: Probs, trie: ActiveTrie, random: RandomSource) -> Verdict:
    """Everything accepted: sample the bonus token, restricted to the subtree of `tail` if there is one."""
    below = None if proposal.tail is None else trie.targets(proposal.tail)
    token = random.sample(probs(len(proposal.tokens)), below)
    return Verdict(len(proposal.tokens), token, True, proposal.used, proposal.used)


def verify_match(proposal: Proposal, probs: Probs, random: RandomSource) -> Verdict:
    """Sample from the target and accept while the sample is what was proposed: exact for any translator."""
    used = 0
    for i, proposed in enumerate(proposal.tokens):
        token = random.sample(probs(i))
        if token != proposed:
            return Verdict(i, token, False, proposal.ends[i], used)
        used = proposal.ends[i]
    token = random.sample(probs(len(proposal.tokens)))
    return Verdict(len(proposal.tokens), token, True, used, used)
