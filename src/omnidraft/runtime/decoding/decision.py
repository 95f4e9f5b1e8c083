"""The two distributions of one decision: P, what the target would decide, and Q, what the drafter offered.

Both verifiers judge by these and nothing else (method section 4.2). The proposed option is looked up; all the
options of a row are computed only when a refusal needs them.

What the drafter alone decides is a *split*, known before the decision is judged: whether its next token
begins a spelling, is written out as several target tokens, or leads nowhere. Q is the distribution given the split,
so a chain of decisions may run through any number of them.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.sampling import Distribution
from omnidraft.runtime.decoding.translator import Decision, Step
from omnidraft.runtime.vocab.trie import ActiveTrie

Weights = npt.NDArray[np.float64]
TINY = 1e-300  # in place of a zero divisor: ratios stay finite


class DecisionProbs(Protocol):
    """P and Q of one decision.

    Attributes:
        ratio: P(a) / Q(a) of the proposed option a; 0 where nothing is proposed.
        wide: the target's distribution, where there are so many options that a try by thinning pays; else None.
    """

    ratio: float
    wide: Distribution | None

    def of_token(self, token: int) -> tuple[float, float]:
        """P and Q of the option that a target token falls into; asked only where `wide`."""

    def options(self) -> tuple[Weights, Weights]:
        """P and Q of all options, shapes [options]; Q sums to less than 1 where nothing may be proposed."""

    def emit(self, option: int, random: RandomSource) -> int:
        """A target token of an option, drawn from the target's distribution."""


def decision_probs(decision: Decision, q: Distribution, p: Distribution, trie: ActiveTrie) -> DecisionProbs:
    """The distributions of a decision.

    Args:
        decision: from `translate`.
        q: the drafter's distribution at the decision's draft token.
        p: the target's distribution at the decision's row.
        trie: the active trie that the draft was translated with, unchanged since.
    """
    if decision.step is Step.EXPAND:
        return _Expansion(decision.target_id, p)
    if decision.step is Step.BEGIN:
        return _Beginning(decision, q, p, trie)
    return _Inside(decision, q, p, trie)


class _Few:
    """Two or a handful of options, listed at once."""

    wide: Distribution | None = None

    def __init__(self, wanted: Weights, offered: Weights, proposed: int | None) -> None:
        self._wanted, self._offered = wanted, offered
        self.ratio = 0.0
        if proposed is not None:
            self.ratio = float(wanted[proposed]) / max(float(offered[proposed]), TINY)

    def of_token(self, token: int) -> tuple[float, float]:
        raise AssertionError("few options are listed, not thinned")

    def options(self) -> tuple[Weights, Weights]:
        return self._wanted, self._offered


class _Expansion(_Few):
    """A target token proposed with certainty; all others make one option."""

    def __init__(self, proposed: int, p: Distribution) -> None:
        self._proposed, self._distribution = np.array([proposed]), p
        chance = float(p.probability(self._proposed)[0])
        others = p.mass_outside(self._proposed)
        super().__init__(np.array([chance, others]), np.array([1.0, 0.0]), 0)

    def emit(self, option: int, random: RandomSource) -> int:
        return (
            int(self._proposed[0])
            if option == 0
            else random.sample(self._distribution.without(self._proposed))
        )


class _Beginning:
    """A draft token that begins a spelling: q renormalised over the root's children minus E.

    One option more than draft tokens: the target tokens that nothing spells now, proposed never.
    """

    def __init__(self, decision: Decision, q: Distribution, p: Distribution, trie: ActiveTrie) -> None:
        assert decision.node is not None
        self.wide: Distribution | None = p
        self._p, self._q, self._trie = p, q, trie
        self._mask = trie.root_mask
        if decision.excluded is not None:
            self._mask = self._mask.copy()
            self._mask[trie.children(decision.excluded)[0]] = 0.0
        self._possible = max(q.mass_under(self._mask), TINY)
        begun = self._offered(trie.draft_token(decision.node))
        self.ratio = p.mass(trie.targets(decision.node)) / max(begun, TINY)

    def of_token(self, token: int) -> tuple[float, float]:
        leaf = int(self._trie.map.leaf_of[token])
        if leaf < 0 or not self._trie.active[leaf]:
            return 1.0, 0.0  # nothing spells it, so nothing was offered in its place; P is of no account
        first = int(self._trie.map.leaf_firsts[leaf])
        node = self._trie.root(first)
        assert node is not None
        return self._p.mass(self._trie.targets(node)), self._offered(first)

    def options(self) -> tuple[Weights, Weights]:
        wanted = self._trie.root_masses(self._p)
        offered = np.zeros_like(wanted)
        offered[:-1] = self._q.masked(self._mask)
        offered /= self._possible
        return wanted, offered

    def emit(self, option: int, random: RandomSource) -> int:
        if option == len(self._mask):
            return random.sample(self._p.without(self._trie.spelled()))
        node = self._trie.root(option)
        assert node is not None
        return random.sample(self._p, self._trie.targets(node))

    def _offered(self, token: int) -> float:
        return float(self._q.probability(np.array([token]))[0] * self._mask[token]) / self._possible


class _Inside(_Few):
    """A draft token inside a node: it goes on to a child, ends the token, or fits neither."""

    def __init__(self, decision: Decision, q: Distribution, p: Distribution, trie: ActiveTrie) -> None:
        node = decision.parent if decision.step is Step.GO_ON else decision.node
        assert node is not None
        self._distribution, self._ending = p, trie.terminal(node)
        tokens, self._targets, self._owner = trie.children(node)
        wanted = np.bincount(self._owner, p.probability(self._targets), len(tokens)).astype(np.float64)
        offered = q.probability(tokens)
        if self._ending is not None:  # END is one more option, proposed whenever no child is
            wanted = np.append(wanted, p.probability(np.array([self._ending])))
            offered = np.append(offered, max(0.0, 1.0 - float(offered.sum())))
        proposed = len(tokens) if decision.step is Step.END else None
        if decision.step is Step.GO_ON:
            assert decision.node is not None
            proposed = int(np.searchsorted(tokens, trie.draft_token(decision.node)))
        super().__init__(wanted / wanted.sum(), offered, proposed)

    def emit(self, option: int, random: RandomSource) -> int:
        if self._ending is not None and option == len(self._wanted) - 1:
            return self._ending
        return random.sample(self._distribution, self._targets[self._owner == option])


def resample_or_skip(distribution: DecisionProbs, reach: float, random: RandomSource) -> int | None:
    """Replace a decision, or pass it by: a token drawn from max(0, reach P - Q), or None.

    With S the sum of that residual, None has probability (1 - reach) / (S + 1 - reach) (Sun et al., ICLR
    2025, the step-back of block verification); with reach 1, as in token-level verification, never.

    Where the options are many, first one try by thinning: None with 1 - reach, else a token of the target's
    distribution that stands with its share of the residual. A try that gives neither leaves the distribution as it was to the
    full computation, and most tries give one, which spares a pass over both vocabularies.
    """
    if distribution.wide is not None:
        if random.bernoulli(1.0 - reach):
            return None
        token = random.rejection_sample(distribution.wide, lambda t: _share(reach, *distribution.of_token(t)))
        if token is not None:
            return token
    wanted, offered = distribution.options()
    left = reach * wanted - offered
    np.maximum(left, 0.0, out=left)
    excess = float(left.sum())
    if excess == 0.0 and reach == 1.0:  # P = Q up to rounding
        left, excess = wanted, 1.0
    if not random.bernoulli(excess / (excess + (1.0 - reach))):
        return None
    return distribution.emit(random.categorical(left), random)


def _share(reach: float, wanted: float, offered: float) -> float:
    """What the residual keeps of an option's probability."""
    return 1.0 - offered / max(reach * wanted, TINY)
