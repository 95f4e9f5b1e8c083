"""Block verification on trie decisions (Sun et al., ICLR 2025): a proposal is judged as a whole.

Optimal for a single path: a decision that the target likes better than the drafter makes up for one that it
likes less, where token-level verification would cap every ratio at 1. Exact by the same enumeration.
"""

from collections.abc import Sequence

from omnidraft.runtime.decoding.decision import DecisionProbs, decision_probs, resample_or_skip
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.sampling import Distribution
from omnidraft.runtime.decoding.translator import Proposal
from omnidraft.runtime.decoding.verifier import Rows, Verdict, bonus
from omnidraft.runtime.vocab.trie import ActiveTrie

# Measured by benchmarks/block_verification.py: what block verification adds to the tokens of a round, and to
# its host work, which grows with the target's vocabulary because it asks for every row.
GAIN = 0.03
EXTRA_SECONDS, EXTRA_SECONDS_PER_TOKEN = 0.2e-3, 6e-9


def block_pays(round_seconds: float, vocab_size: int) -> bool:
    """Whether a round is long enough for its gain to outweigh its host work.

    Args:
        round_seconds: of a round with token-level verification.
        vocab_size: width of the target's logits.
    """
    return GAIN * round_seconds > EXTRA_SECONDS + EXTRA_SECONDS_PER_TOKEN * vocab_size


def verify_block(
    proposal: Proposal, draft: Sequence[Distribution], rows: Rows, trie: ActiveTrie, random: RandomSource
) -> Verdict:
    """Accept the longest run of decisions that the block's own distribution lets stand (method section 4.2).

    reach[i] = b_i is the probability that the decisions before i stand, given them: b_0 = 1 and
    b_{i+1} = min(1, b_i P_i / Q_i). From the end backwards: all stand with b_N; else the round ends at
    decision i with h_i, replaced by a draw from max(0, b_i P_i - Q_i); else one step back. Decision 0
    always ends it.

    The chain spans splits: given what the drafter alone decides, b_i is still the probability that the
    decisions before i stand, so h_i may use the distribution given the split, and an end of the draft is one too.

    Args:
        as for `verify_trie`; every row up to a decision of ratio 0 is asked for.
    """
    distributions: list[DecisionProbs] = []
    reach = [1.0]
    for decision in proposal.decisions:
        distribution = decision_probs(decision, draft[decision.draft], rows(decision.row), trie)
        distributions.append(distribution)
        reach.append(min(1.0, reach[-1] * distribution.ratio))
        if reach[-1] == 0.0:  # nothing behind it can stand
            break
    if random.bernoulli(reach[-1]):
        return bonus(proposal, rows, trie, random)
    for i in reversed(range(len(distributions))):
        token = resample_or_skip(distributions[i], reach[i], random)
        if token is not None:
            at = proposal.decisions[i]
            return Verdict(at.row, token, False, at.draft + 1, at.draft)
    raise AssertionError("b_0 is 1, so the walk back ends at decision 0")
