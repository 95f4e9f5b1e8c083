"""P and Q of one decision: what the target would decide, and what the drafter offered (method section 4.2).

Both verifiers use these numbers and nothing else. The proposed option is looked up; all options of a row are
computed only when a refusal needs them.

The drafter alone decides a *split*, which is known before the decision is verified: whether its next token
begins a spelling, is written as several target tokens, or leads nowhere. Q is the distribution given the
split, so a chain of decisions may run through any number of splits.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.distribution import Distribution, Row, Workspace
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.translator import Decision, Step
from omnidraft.runtime.vocab.trie import ActiveTrie

Weights = npt.NDArray[np.float64]
TINY = 1e-300  # replaces a divisor of zero, so that ratios stay finite
_PART = 4096  # ids that are looked up at once, so that no array of the size of a vocabulary is made
_ROUNDING = 1e-4  # the sum of many float32 probabilities is closer to 1 than this


class DecisionProbs(Protocol):
    """P and Q of one decision.

    Attributes:
        ratio: P(a) / Q(a) of the proposed option a; 0 where nothing is proposed.
        wide: the target's distribution, of a decision between many options, for which rejection sampling
            pays; else None.
    """

    ratio: float
    wide: Distribution | None

    def of_token(self, token: int) -> tuple[float, float]:
        """P and Q of the option that a target token belongs to; asked only where `wide` is set."""

    def options(self) -> tuple[Weights, Weights]:
        """P and Q of all options, shapes [options]; Q sums to less than 1 where nothing may be proposed.

        They live until the next call for any decision of the same workspace. The caller may overwrite Q.
        """

    def emit(self, option: int, random: RandomSource) -> int:
        """A target token of an option, drawn from the target's distribution."""


def decision_probs(
    decision: Decision,
    q: Distribution,
    p: Distribution,
    trie: ActiveTrie,
    workspace: Workspace | None = None,
) -> DecisionProbs:
    """P and Q of a decision.

    Args:
        q: the drafter's distribution at the decision's draft token.
        p: the target's distribution at the decision's row.
        trie: the active trie that the draft was translated with, unchanged since.
        workspace: lends memory for the options of a round.
    """
    if decision.step is Step.EXPAND:
        return _Expansion(decision.target_id, p)
    if decision.step is Step.BEGIN:
        return _Beginning(decision, q, p, trie, workspace or Workspace())
    return _Inside(decision, q, p, trie)


class _Few:
    """A decision between a few options."""

    wide: Distribution | None = None

    def of_token(self, token: int) -> tuple[float, float]:
        raise AssertionError("rejection sampling is for decisions between many options")


class _Expansion(_Few):
    """A target token proposed with certainty; all other tokens make one option."""

    def __init__(self, proposed: int, p: Distribution) -> None:
        self._proposed, self._p = np.array([proposed]), p
        self.ratio = p.mass(self._proposed)

    def options(self) -> tuple[Weights, Weights]:
        others = 1.0 - self.ratio
        if others <= _ROUNDING:  # it may be rounding alone
            others = self._p.mass_outside(self._proposed)
        return np.array([self.ratio, others]), np.array([1.0, 0.0])

    def emit(self, option: int, random: RandomSource) -> int:
        return int(self._proposed[0]) if option == 0 else random.sample(self._p.without(self._proposed))


class _Beginning:
    """A draft token that begins a spelling: q renormalised over the root's children minus E.

    There is one option more than draft tokens: the target tokens without an active spelling. It is never
    proposed.
    """

    def __init__(
        self, decision: Decision, q: Distribution, p: Distribution, trie: ActiveTrie, workspace: Workspace
    ) -> None:
        assert decision.node is not None
        self.wide: Distribution | None = p
        self._p, self._q, self._trie, self._workspace = p, q, trie, workspace
        self._excluded = None if decision.excluded is None else trie.children(decision.excluded)[0]
        self._possible = max(q.mass_under(self._mask()), TINY)
        proposed = max(self._q_option(trie.draft_token(decision.node)), TINY)
        self.ratio = p.mass(trie.targets(decision.node)) / proposed

    def of_token(self, token: int) -> tuple[float, float]:
        leaf = int(self._trie.map.leaf_of[token])
        if leaf < 0 or not self._trie.active[leaf]:
            return 1.0, 0.0  # no active spelling, so Q is 0 and the value of P does not matter
        first = int(self._trie.map.leaf_firsts[leaf])
        node = self._trie.root(first)
        assert node is not None
        return self._p.mass(self._trie.targets(node)), self._q_option(first)

    def options(self) -> tuple[Weights, Weights]:
        p_options = root_masses(self._trie, self._p, self._workspace)
        q_options = self._workspace.array("q", len(p_options))
        self._q.masked(self._mask(), q_options[:-1])
        q_options[-1] = 0.0
        q_options /= self._possible
        return p_options, q_options

    def emit(self, option: int, random: RandomSource) -> int:
        if option == self._trie.map.draft_size:
            return random.sample(self._p.without(*self._trie.spelled()))
        node = self._trie.root(option)
        assert node is not None
        return random.sample(self._p, self._trie.targets(node))

    def _mask(self) -> Row:
        """1 for each draft token of which Q is not 0; lives until the next such mask."""
        mask: Row = self._trie.root_mask
        if self._excluded is not None:
            mask = self._workspace.array("mask", len(mask), mask.dtype)
            mask[:] = self._trie.root_mask
            mask[self._excluded] = 0.0
        return mask

    def _q_option(self, token: int) -> float:
        if not self._trie.root_mask[token] or (self._excluded is not None and token in self._excluded):
            return 0.0
        return self._q.mass(np.array([token])) / self._possible


class _Inside(_Few):
    """A draft token inside a node: it continues to a child, ends the target token, or fits neither."""

    def __init__(self, decision: Decision, q: Distribution, p: Distribution, trie: ActiveTrie) -> None:
        node = decision.parent if decision.step is Step.GO_ON else decision.node
        assert node is not None
        self._p, self._ending = p, trie.terminal(node)
        tokens, self._targets, self._owner = trie.children(node)
        p_options = np.bincount(self._owner, p.probability(self._targets), len(tokens)).astype(np.float64)
        q_options = q.probability(tokens)
        if self._ending is not None:  # END is one more option, proposed whenever no child is
            p_options = np.append(p_options, p.probability(np.array([self._ending])))
            q_options = np.append(q_options, max(0.0, 1.0 - float(q_options.sum())))
        self._p_options, self._q_options = p_options / p_options.sum(), q_options
        proposed = len(tokens) if decision.step is Step.END else None
        if decision.step is Step.GO_ON:
            assert decision.node is not None
            proposed = int(np.searchsorted(tokens, trie.draft_token(decision.node)))
        self.ratio = 0.0
        if proposed is not None:
            self.ratio = float(self._p_options[proposed]) / max(float(q_options[proposed]), TINY)

    def options(self) -> tuple[Weights, Weights]:
        return self._p_options, self._q_options

    def emit(self, option: int, random: RandomSource) -> int:
        if self._ending is not None and option == len(self._p_options) - 1:
            return self._ending
        return random.sample(self._p, self._targets[self._owner == option])


def root_masses(trie: ActiveTrie, distribution: Distribution, workspace: Workspace | None = None) -> Weights:
    """The target's mass below each child of the trie's root, shape [draft vocab + 1].

    The last entry is the mass of the target tokens without an active spelling.

    Args:
        workspace: lends the masses their memory.
    """
    masses = (workspace or Workspace()).array("p", trie.map.draft_size + 1)
    masses.fill(0.0)
    direct_drafts, direct_targets = trie.direct
    targets, firsts = trie.gram_roots
    for at in range(0, len(direct_drafts), _PART):
        part = slice(at, at + _PART)
        masses[direct_drafts[part]] = distribution.probability(direct_targets[part])
    for at in range(0, len(targets), _PART):
        part = slice(at, at + _PART)
        np.add.at(masses, firsts[part], distribution.probability(targets[part]))
    if len(direct_drafts) + len(targets) < trie.map.target_size:
        rest = 1.0 - float(masses.sum())
        # A rest that may be rounding alone would let a token of probability 0 be drawn.
        masses[-1] = rest if rest > _ROUNDING else distribution.mass_outside(*trie.spelled())
    return masses


def resample_or_skip(probs: DecisionProbs, reach: float, random: RandomSource) -> int | None:
    """Replace a decision by a token drawn from max(0, reach P - Q), or skip it.

    With S the sum of that residual, the decision is skipped with probability (1 - reach) / (S + 1 - reach)
    (the step back of block verification, Sun et al., ICLR 2025). With reach 1, as in token-level
    verification, it is never skipped.

    Where there are many options, one attempt of rejection sampling comes first: skip with 1 - reach, else
    draw a token of the target's distribution and keep it with its share of the residual. An attempt that
    gives neither leaves the distribution as it was to the full computation. Most attempts succeed, which
    saves a pass over both vocabularies.

    Returns:
        the token, or None where the decision is skipped.
    """
    if probs.wide is not None:
        if random.bernoulli(1.0 - reach):
            return None
        token = random.rejection_sample(probs.wide, lambda t: _share(reach, *probs.of_token(t)))
        if token is not None:
            return token
    p_options, q_options = probs.options()
    q_options /= reach
    residual = np.subtract(p_options, q_options, out=q_options)
    np.maximum(residual, 0.0, out=residual)
    excess = reach * float(residual.sum())
    if excess == 0.0 and reach == 1.0:  # P = Q up to rounding
        residual, excess = p_options, 1.0
    if not random.bernoulli(excess / (excess + (1.0 - reach))):
        return None
    return probs.emit(random.categorical(residual), random)


def _share(reach: float, p: float, q: float) -> float:
    """The part of an option's probability that the residual keeps."""
    return 1.0 - q / max(reach * p, TINY)
