"""Translate a draft into target tokens: walk the active trie and note the decision at every draft token.

Only the draft and the trie are read, never a probability. So one target pass over the proposed tokens is
enough to verify all of them (method section 4.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from omnidraft.runtime.vocab.trie import ActiveTrie, Node


class Step(Enum):
    """What the walk does at a draft token."""

    BEGIN = "begin"  # at the root: the draft token begins a spelling
    GO_ON = "go on"  # inside a node: it continues one
    END = "end"  # inside a node: it does not, and the node is a whole token
    DEAD_END = "dead end"  # inside a node: it does not, and no token ends at the node; nothing is proposed
    EXPAND = "expand"  # one of several target tokens that spell a long draft token


@dataclass(frozen=True)
class Decision:
    """One decision of the walk, which the verifier accepts or refuses.

    Attributes:
        row: index of the target row that verifies it: the number of target tokens proposed before it.
        draft: index of the draft token, whose distribution q proposes it.
        node: the node that the walk goes to (BEGIN, GO_ON), or that it is in (END, DEAD_END).
        parent: the node that the walk leaves; for GO_ON.
        excluded: the node of which this draft token is known not to be a child (`E`); for BEGIN.
    """

    step: Step
    row: int
    draft: int
    node: Node | None = None
    parent: Node | None = None
    excluded: Node | None = None
    target_id: int = -1


@dataclass
class Proposal:
    """A draft in target tokens.

    Attributes:
        tokens: proposed target ids, to be scored in one pass.
        ends: for each proposed token, the number of draft tokens that are used once it is accepted.
        tail: the node that the draft ends in, and the bonus is drawn below it; None where the bonus may be
            any token.
        used: number of draft tokens that the decisions cover.
    """

    tokens: list[int] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    tail: Node | None = None
    used: int = 0


def translate(draft: Sequence[int], trie: ActiveTrie, *, max_tokens: int, expand: bool = True) -> Proposal:
    """Translate draft tokens into target tokens, as far as they lead.

    Args:
        max_tokens: proposed target tokens at most. A draft token that would exceed it ends the walk. The
            draft alone decides this, so the output's distribution is the same.
        expand: also translate draft tokens that are longer than a target token.
    """
    proposal = Proposal()
    node: Node | None = None
    excluded: Node | None = None
    for i, token in enumerate(draft):
        if node is not None:
            child = trie.child(node, token)
            ending = trie.terminal(node)
            if child is None and ending is None:
                proposal.decisions.append(Decision(Step.DEAD_END, len(proposal.tokens), i, node=node))
                proposal.used = i + 1
                return proposal
            if child is None:
                assert ending is not None
                proposal.decisions.append(Decision(Step.END, len(proposal.tokens), i, node=node))
                _emit(proposal, ending, i)
                node, excluded = None, node
            else:
                proposal.decisions.append(Decision(Step.GO_ON, len(proposal.tokens), i, child, parent=node))
                node = _finish(proposal, trie, child, i)
                continue
        if len(proposal.tokens) >= max_tokens:
            break
        child = trie.root(token)
        longer = trie.map.expansions.row(token) if expand and child is None else ()
        if child is not None:
            proposal.decisions.append(Decision(Step.BEGIN, len(proposal.tokens), i, child, excluded=excluded))
            node = _finish(proposal, trie, child, i)
        elif 0 < len(longer) <= max_tokens - len(proposal.tokens):
            for target_id in longer:
                step = Decision(Step.EXPAND, len(proposal.tokens), i, target_id=int(target_id))
                proposal.decisions.append(step)
                _emit(proposal, int(target_id), i + 1)
        else:
            break
        excluded = None
    proposal.tail = node
    return proposal


def translate_longest(
    draft: Sequence[int], trie: ActiveTrie, *, max_tokens: int, expand: bool = True
) -> Proposal:
    """Translate left to right, the longest active spelling first (method section 4.1).

    Unlike the walk of `translate` it may return to a shorter spelling where an n-gram was not completed, so
    it proposes more tokens. The proposal does not have the distribution of the trie walk. So it serves rules
    that need no such distribution: greedy, match and paper.
    """
    proposal = Proposal()
    at = 0
    while at < len(draft) and len(proposal.tokens) < max_tokens:
        spelled, end = _longest(draft, at, trie)
        if spelled is not None:
            tokens = [spelled]
        else:
            tokens = [int(t) for t in trie.map.expansions.row(draft[at])] if expand else []
        if not 0 < len(tokens) <= max_tokens - len(proposal.tokens):
            break
        for token in tokens:
            _emit(proposal, token, end)
        at = end
    return proposal


def _longest(draft: Sequence[int], at: int, trie: ActiveTrie) -> tuple[int | None, int]:
    """The longest target token that draft[at:end] spells, and end; None and at + 1 where nothing does."""
    best, end = None, at + 1
    node = trie.root(draft[at])
    while node is not None:
        ending = trie.terminal(node)
        if ending is not None:
            best, end = ending, at + node.depth
        at_end = at + node.depth == len(draft)
        node = None if at_end else trie.child(node, draft[at + node.depth])
    return best, end


def _finish(proposal: Proposal, trie: ActiveTrie, node: Node, i: int) -> Node | None:
    """The node; or None where nothing can follow in it: its token is emitted, without a decision."""
    proposal.used = i + 1
    ending = trie.terminal(node)
    if ending is None or trie.active[node.low + 1 : node.high].any():
        return node
    _emit(proposal, ending, i + 1)
    return None


def _emit(proposal: Proposal, target_id: int, used: int) -> None:
    proposal.tokens.append(target_id)
    proposal.ends.append(used)
    proposal.used = max(proposal.used, used)
