"""Verification of a proposal: spec/04-speculation.md, sections 5 to 8.

Each decision has options with two probabilities: P by the target, Q by the drafter. All rules use these two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum

from vectorlib.reference.random_source import Distribution, RandomSource
from vectorlib.reference.translator import Decision, Proposal
from vectorlib.reference.vocab_map import Trie

Options = dict[
    int, tuple[float, float]
]  # option -> (P, Q); an option is a draft token, or one of the next three
END, UNSPELLED, OTHER = -1, -2, -3
LEAST = 1e-300  # a divisor of zero counts as this


@dataclass(frozen=True)
class Verdict:
    """Accepted proposed tokens, the token after them, and draft tokens evaluated and accepted."""

    accepted: int
    token: int
    is_bonus: bool
    evaluated: int
    accepted_drafts: int


Verifier = Callable[[Proposal, Sequence[Distribution], Sequence[Distribution], Trie, RandomSource], Verdict]


def options_of(decision: Decision, q: Distribution, p: Distribution, trie: Trie) -> Options:
    """P and Q of a decision; the options are in the order in which a draw goes through them."""
    if decision.step == "expand":
        probability = p.probability(decision.target_id)
        return {decision.target_id: (probability, 1.0), OTHER: (1.0 - probability, 0.0)}
    if decision.step == "begin":
        return _options_at_root(decision, q, p, trie)
    node = decision.path[:-1] if decision.step == "go on" else decision.path
    node_mass = p.mass(trie.below(node))
    children = trie.children(node)
    options = {x: (p.mass(trie.below((*node, x))) / node_mass, q.probability(x)) for x in children}
    ending = trie.ending(node)
    if ending is not None:  # END is proposed whenever the draft token is not a child
        end_q = max(0.0, 1.0 - fsum(map(q.probability, children)))
        options[END] = (p.probability(ending) / node_mass, end_q)
    return options


def _options_at_root(decision: Decision, q: Distribution, p: Distribution, trie: Trie) -> Options:
    """Q is q renormalised over the root's children without those that the draft token is known not to be."""
    roots = trie.children(())
    excluded = [] if decision.excluded is None else trie.children(decision.excluded)
    possible = fsum(q.probability(x) for x in roots if x not in excluded)
    options: Options = {}
    for x in roots:
        drafted = 0.0 if x in excluded else q.probability(x) / possible
        options[x] = (p.mass(trie.below((x,))), drafted)
    options[UNSPELLED] = (p.mass(trie.unspelled()), 0.0)
    return options


def ratio_of(decision: Decision, options: Options) -> float:
    """P / Q of the proposed option; 0 for a dead end, which proposes nothing."""
    if decision.step == "dead end":
        return 0.0
    if decision.step == "expand":
        proposed = decision.target_id
    else:
        proposed = END if decision.step == "end" else decision.path[-1]
    p, q = options[proposed]
    return p / (q if q > 0.0 else LEAST)


def emit(option: int, decision: Decision, p: Distribution, trie: Trie, random: RandomSource) -> int:
    """A target token of an option."""
    if option == UNSPELLED:
        return random.sample(restricted(p, trie.unspelled()))
    if option == OTHER:
        return random.sample(without(p, decision.target_id))
    if decision.step == "expand":
        return option
    node = {"begin": (), "go on": decision.path[:-1]}.get(decision.step, decision.path)
    if option == END:
        ending = trie.ending(node)
        assert ending is not None
        return ending
    return random.sample(p, trie.below((*node, option)))


def restricted(p: Distribution, tokens: Sequence[int]) -> Distribution:
    """The distribution given that the token is one of `tokens`."""
    return Distribution(tuple(w if t in tokens else 0.0 for t, w in enumerate(p.weights)))


def without(p: Distribution, token: int) -> Distribution:
    """The distribution given that the token is another one than `token`."""
    return Distribution(tuple(0.0 if t == token else w for t, w in enumerate(p.weights)))


def resample_or_skip(
    decision: Decision, options: Options, reach: float, p: Distribution, trie: Trie, random: RandomSource
) -> int | None:
    """A token of max(0, reach P - Q) in place of the decision; None with (1 - reach) / (S + 1 - reach)."""
    if decision.step == "begin":  # it has many options, so one try of rejection sampling comes first
        if random.bernoulli(random.check_difference(1.0 - reach)):
            return None
        token = random.rejection_sample(
            p, lambda t: random.check_difference(_residual_share(t, options, reach, trie))
        )
        if token is not None:
            return token
    residual = [max(0.0, reach * p_x - q_x) for p_x, q_x in options.values()]
    random.check_residual(fsum(residual) + 1.0 - reach, sum(x > 0.0 for x in residual) + (reach < 1.0))
    if fsum(residual) == 0.0 and reach == 1.0:
        residual = [p_x for p_x, _ in options.values()]
    if reach < 1.0 and not random.bernoulli(fsum(residual) / (fsum(residual) + 1.0 - reach)):
        return None
    return emit(list(options)[random.categorical(residual)], decision, p, trie, random)


def _residual_share(token: int, options: Options, reach: float, trie: Trie) -> float:
    """Share of reach P that the residual keeps, for the option that the token belongs to."""
    if token in trie.unspelled():
        return 1.0
    p, q = options[trie.vocab_map.spelling(token)[0]]
    return 1.0 - q / (reach * p)


def verify_token(
    proposal: Proposal, q: Sequence[Distribution], p: Sequence[Distribution], trie: Trie, random: RandomSource
) -> Verdict:
    """Speculative sampling on decisions, one after another."""
    for at in proposal.decisions:
        options = options_of(at, q[at.draft], p[at.row], trie)
        if not random.bernoulli(random.check_ratio(ratio_of(at, options))):
            token = resample_or_skip(at, options, 1.0, p[at.row], trie, random)
            assert token is not None
            return Verdict(at.row, token, False, at.draft + 1, at.draft)
    return _bonus(proposal, p, trie, random)


def verify_block(
    proposal: Proposal, q: Sequence[Distribution], p: Sequence[Distribution], trie: Trie, random: RandomSource
) -> Verdict:
    """Block verification: accept all decisions with b_n; else go back to the first that gives a token."""
    reach, evaluated = [1.0], list[Options]()
    for at in proposal.decisions:
        evaluated.append(options_of(at, q[at.draft], p[at.row], trie))
        reach.append(min(1.0, reach[-1] * random.check_ratio(ratio_of(at, evaluated[-1]))))
        if reach[-1] == 0.0:
            break
    if random.bernoulli(reach[-1]):
        return _bonus(proposal, p, trie, random)
    for i in range(len(evaluated) - 1, -1, -1):
        at = proposal.decisions[i]
        token = resample_or_skip(at, evaluated[i], reach[i], p[at.row], trie, random)
        if token is not None:
            return Verdict(at.row, token, False, at.draft + 1, at.draft)
    raise AssertionError("b_0 is 1, so decision 0 gives a token")


def verify_match(
    proposal: Proposal, q: Sequence[Distribution], p: Sequence[Distribution], trie: Trie, random: RandomSource
) -> Verdict:
    """A draw from the target at each position; a proposed token is accepted if it is the token drawn."""
    used = [0, *proposal.ends]
    for i, proposed in enumerate(proposal.tokens):
        token = random.sample(p[i])
        if token != proposed:
            return Verdict(i, token, False, used[i + 1], used[i])
    return Verdict(len(proposal.tokens), random.sample(p[len(proposal.tokens)]), True, used[-1], used[-1])


def verify_paper(
    proposal: Proposal, q: Sequence[Distribution], p: Sequence[Distribution], trie: Trie, random: RandomSource
) -> Verdict:
    """The paper's rule, approximate above temperature 0."""
    used = [0, *proposal.ends]
    for i, proposed in enumerate(proposal.tokens):
        q_row = paper_distribution(trie, q[used[i] : used[i + 1]], proposed)
        p_row = [p[i].probability(t) for t in range(len(p[i].weights))]
        if not random.bernoulli(p_row[proposed] / q_row[proposed]):
            residual = [max(0.0, a - b) for a, b in zip(p_row, q_row, strict=True)]
            random.check_residual(fsum(residual), sum(x > 0.0 for x in residual))
            token = random.categorical(residual if any(residual) else p_row)
            return Verdict(i, token, False, used[i + 1], used[i])
    return Verdict(len(proposal.tokens), random.sample(p[len(proposal.tokens)]), True, used[-1], used[-1])


def paper_distribution(trie: Trie, q: Sequence[Distribution], proposed: int) -> list[float]:
    """The paper's q' over target tokens: an n-gram takes its mass from its first draft token."""
    direct, spelling = trie.vocab_map.direct, trie.vocab_map.spelling(proposed)
    row = [0.0] * len(trie.vocab_map.target)
    for d, t in enumerate(direct):
        if t >= 0:
            row[t] = q[0].probability(d)
    if len(spelling) > 1:
        product = 1.0
        for d, distribution in zip(spelling, q, strict=True):
            product *= distribution.probability(d)
        row[proposed] = product
        if direct[spelling[0]] >= 0:
            row[direct[spelling[0]]] = max(0.0, q[0].probability(spelling[0]) - product)
    return row


def _bonus(proposal: Proposal, p: Sequence[Distribution], trie: Trie, random: RandomSource) -> Verdict:
    """All decisions are accepted: sample one more token, below the node that the draft ended in."""
    below = None if proposal.tail is None else trie.below(proposal.tail)
    token = random.sample(p[len(proposal.tokens)], below)
    return Verdict(len(proposal.tokens), token, True, proposal.used, proposal.used)


def draft_after(
    draft: Sequence[int], proposal: Proposal, verdict: Verdict, trie: Trie
) -> tuple[int, list[int]]:
    """What the drafter's context becomes: draft tokens to remove, then draft tokens to append."""
    whole = verdict.accepted
    while 0 < whole < len(proposal.ends) and proposal.ends[whole] == proposal.ends[whole - 1]:
        whole -= 1  # an expansion that is accepted in part is spelled token by token
    kept = proposal.ends[whole - 1] if whole else 0
    rest = [*proposal.tokens[whole : verdict.accepted], verdict.token]
    return len(draft) - kept, [d for t in rest for d in trie.vocab_map.spelling(t)]


VERIFIERS: dict[str, Verifier] = {
    "token": verify_token,
    "block": verify_block,
    "match": verify_match,
    "paper": verify_paper,
}
