"""What becomes of a proposal: spec/speculation.md, sections 5 to 8.

Each decision has options with the target's distribution P and the drafter's offer Q; all rules judge by these two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum

from vectorlib.reference.random_source import Chance, Distribution
from vectorlib.reference.translator import Decision, Proposal
from vectorlib.reference.vocab_map import Trie

Options = dict[int, tuple[float, float]]  # option -> (P, Q); a draft token, or one of the three below
END, UNSPELLED, OTHER = -1, -2, -3


@dataclass(frozen=True)
class Verdict:
    """Accepted proposed tokens, the token after them, and draft tokens judged and accepted."""

    accepted: int
    token: int
    is_bonus: bool
    tested: int
    passed: int


Judge = Callable[[Proposal, Sequence[Distribution], Sequence[Distribution], Trie, Chance], Verdict]


def options_of(decision: Decision, q: Distribution, p: Distribution, trie: Trie) -> Options:
    """P and Q of a decision, options in the order in which a draw walks them."""
    if decision.step == "expand":
        chance = p.probability(decision.target_id)
        return {decision.target_id: (chance, 1.0), OTHER: (1.0 - chance, 0.0)}
    if decision.step == "begin":
        return _at_root(decision, q, p, trie)
    node = decision.path[:-1] if decision.step == "go on" else decision.path
    everything = p.mass(trie.below(node))
    inside = trie.children(node)
    found = {x: (p.mass(trie.below((*node, x))) / everything, q.probability(x)) for x in inside}
    ending = trie.ending(node)
    if ending is not None:  # proposed whenever no child is
        found[END] = (p.probability(ending) / everything, max(0.0, 1.0 - fsum(map(q.probability, inside))))
    return found


def _at_root(decision: Decision, q: Distribution, p: Distribution, trie: Trie) -> Options:
    """q renormalised over the root's children minus those that the draft token is known not to be."""
    roots = trie.children(())
    excluded = [] if decision.excluded is None else trie.children(decision.excluded)
    possible = fsum(q.probability(x) for x in roots if x not in excluded)
    found: Options = {}
    for x in roots:
        offered = 0.0 if x in excluded else q.probability(x) / possible
        found[x] = (p.mass(trie.below((x,))), offered)
    found[UNSPELLED] = (p.mass(trie.unspelled()), 0.0)
    return found


def ratio_of(decision: Decision, options: Options) -> float:
    """P / Q of what is proposed; a dead end proposes nothing."""
    if decision.step == "dead end":
        return 0.0
    if decision.step == "expand":
        proposed = decision.target_id
    else:
        proposed = END if decision.step == "end" else decision.path[-1]
    wanted, offered = options[proposed]
    return wanted / offered


def emit(option: int, decision: Decision, p: Distribution, trie: Trie, chance: Chance) -> int:
    """A target token of an option."""
    if option == UNSPELLED:
        return chance.token(without(p, trie.unspelled(), False))
    if option == OTHER:
        return chance.token(without(p, [decision.target_id], True))
    if decision.step == "expand":
        return option
    node = {"begin": (), "go on": decision.path[:-1]}.get(decision.step, decision.path)
    if option == END:
        ending = trie.ending(node)
        assert ending is not None
        return ending
    return chance.token(p, trie.below((*node, option)))


def without(p: Distribution, tokens: Sequence[int], gone: bool) -> Distribution:
    """The distribution given that the token is none of some (gone), or one of them."""
    return Distribution(tuple(0.0 if (t in tokens) == gone else w for t, w in enumerate(p.weights)))


def replace(
    decision: Decision, options: Options, reach: float, p: Distribution, trie: Trie, chance: Chance
) -> int | None:
    """A token of max(0, reach P - Q) in the decision's place, or None with (1 - reach) / (S + 1 - reach)."""
    if decision.step == "begin":  # many options: a try by thinning comes first
        if chance.accept(1.0 - reach):
            return None

        def share(token: int) -> float:
            if token in trie.unspelled():
                return 1.0
            wanted, offered = options[trie.words.spelling(token)[0]]
            return 1.0 - offered / (reach * wanted)

        token = chance.thinned(p, share)
        if token is not None:
            return token
    left = [max(0.0, reach * wanted - offered) for wanted, offered in options.values()]
    if fsum(left) == 0.0 and reach == 1.0:
        left = [wanted for wanted, _ in options.values()]
    if reach < 1.0 and not chance.accept(fsum(left) / (fsum(left) + 1.0 - reach)):
        return None
    return emit(list(options)[chance.index(left)], decision, p, trie, chance)


def by_token(
    proposal: Proposal, q: Sequence[Distribution], p: Sequence[Distribution], trie: Trie, chance: Chance
) -> Verdict:
    """Speculative sampling on decisions, one after another."""
    for at in proposal.decisions:
        options = options_of(at, q[at.draft], p[at.row], trie)
        if not chance.accept(chance.clear(ratio_of(at, options))):
            token = replace(at, options, 1.0, p[at.row], trie, chance)
            assert token is not None
            return Verdict(at.row, token, False, at.draft + 1, at.draft)
    return _bonus(proposal, p, trie, chance)


def by_block(
    proposal: Proposal, q: Sequence[Distribution], p: Sequence[Distribution], trie: Trie, chance: Chance
) -> Verdict:
    """Block verification: all stand with b_N, else from the end back to the first that is replaced."""
    reach, judged = [1.0], []
    for at in proposal.decisions:
        judged.append(options_of(at, q[at.draft], p[at.row], trie))
        reach.append(min(1.0, reach[-1] * chance.clear(ratio_of(at, judged[-1]))))
        if reach[-1] == 0.0:
            break
    if chance.accept(reach[-1]):
        return _bonus(proposal, p, trie, chance)
    for i in range(len(judged) - 1, -1, -1):
        at = proposal.decisions[i]
        token = replace(at, judged[i], reach[i], p[at.row], trie, chance)
        if token is not None:
            return Verdict(at.row, token, False, at.draft + 1, at.draft)
    raise AssertionError("b_0 is 1")


def by_match(
    proposal: Proposal, q: Sequence[Distribution], p: Sequence[Distribution], trie: Trie, chance: Chance
) -> Verdict:
    """A draw from the target at each position; the proposal stands while it is what was drawn."""
    used = [0, *proposal.ends]
    for i, proposed in enumerate(proposal.tokens):
        token = chance.token(p[i])
        if token != proposed:
            return Verdict(i, token, False, used[i + 1], used[i])
    return Verdict(len(proposal.tokens), chance.token(p[len(proposal.tokens)]), True, used[-1], used[-1])


def by_paper(
    proposal: Proposal, q: Sequence[Distribution], p: Sequence[Distribution], trie: Trie, chance: Chance
) -> Verdict:
    """The paper's rule, approximate above temperature 0."""
    used = [0, *proposal.ends]
    for i, proposed in enumerate(proposal.tokens):
        offered = paper_distribution(trie, q[used[i] : used[i + 1]], proposed)
        wanted = [p[i].probability(t) for t in range(len(p[i].weights))]
        if not chance.accept(wanted[proposed] / offered[proposed]):
            left = [max(0.0, a - b) for a, b in zip(wanted, offered, strict=True)]
            return Verdict(i, chance.index(left if any(left) else wanted), False, used[i + 1], used[i])
    return Verdict(len(proposal.tokens), chance.token(p[len(proposal.tokens)]), True, used[-1], used[-1])


def paper_distribution(trie: Trie, q: Sequence[Distribution], proposed: int) -> list[float]:
    """The paper's q' over target tokens: an n-gram takes its product from its first sub-token's share."""
    direct, spelling = trie.words.direct, trie.words.spelling(proposed)
    found = [0.0] * len(trie.words.target)
    for d, t in enumerate(direct):
        if t >= 0:
            found[t] = q[0].probability(d)
    if len(spelling) > 1:
        product = 1.0
        for d, distribution in zip(spelling, q, strict=True):
            product *= distribution.probability(d)
        found[proposed] = product
        if direct[spelling[0]] >= 0:
            found[direct[spelling[0]]] = max(0.0, q[0].probability(spelling[0]) - product)
    return found


def _bonus(proposal: Proposal, p: Sequence[Distribution], trie: Trie, chance: Chance) -> Verdict:
    """All stand: one token more, below the node that the draft ended in."""
    below = None if proposal.tail is None else trie.below(proposal.tail)
    token = chance.token(p[len(proposal.tokens)], below)
    return Verdict(len(proposal.tokens), token, True, proposal.used, proposal.used)


def draft_after(
    draft: Sequence[int], proposal: Proposal, verdict: Verdict, trie: Trie
) -> tuple[int, list[int]]:
    """The round's output for the drafter: draft tokens to take back, then draft tokens to append."""
    whole = verdict.accepted
    while 0 < whole < len(proposal.ends) and proposal.ends[whole] == proposal.ends[whole - 1]:
        whole -= 1  # a long draft token that stands in part is spelled anew
    kept = proposal.ends[whole - 1] if whole else 0
    rest = [*proposal.tokens[whole : verdict.accepted], verdict.token]
    return len(draft) - kept, [d for t in rest for d in trie.words.spelling(t)]


JUDGES: dict[str, Judge] = {"token": by_token, "block": by_block, "match": by_match, "paper": by_paper}
