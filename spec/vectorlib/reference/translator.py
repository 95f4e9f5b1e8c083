"""A draft in target tokens, and copies of the context: spec/04-speculation.md, section 4."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vectorlib.reference.vocab_map import Path, Trie

MAX_DRAFT_TOKENS = 48


@dataclass(frozen=True)
class Decision:
    """What a draft token decided.

    Attributes:
        step: begin, go on, end, dead end or expand.
        row: the target row that the decision is verified with.
        draft: index of the draft token.
        path: the node that the draft token enters, or the node that it does not lead on from.
        excluded: begin: the node whose children the draft token is known not to be.
        target_id: expand: the proposed token.
    """

    step: str
    row: int
    draft: int
    path: Path = ()
    excluded: Path | None = None
    target_id: int = -1

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"step": self.step, "row": self.row, "draft": self.draft}
        if self.step == "expand":
            return {**fields, "target_id": self.target_id}
        excluded = {} if self.excluded is None else {"excluded": list(self.excluded)}
        return {**fields, "path": list(self.path), **excluded}


@dataclass
class Proposal:
    """Proposed tokens, the decisions that led to them, and where the draft ended.

    Attributes:
        ends: for each proposed token, the number of draft tokens used up with it.
        tail: the node that the draft ended in; None at the root.
        used: draft tokens that the proposal covers.
    """

    tokens: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    tail: Path | None = None
    used: int = 0

    def emit(self, token: int, used: int) -> None:
        self.tokens.append(token)
        self.ends.append(used)
        self.used = max(self.used, used)

    def decide(self, step: str, draft: int, used: int, **more: Any) -> None:
        self.decisions.append(Decision(step, len(self.tokens), draft, **more))
        self.used = max(self.used, used)


def translate(draft: Sequence[int], trie: Trie, max_tokens: int, expand: bool = True) -> Proposal:
    """The walk over the trie: one decision for each draft token, in order, until one leads nowhere."""
    proposal = Proposal()
    path: Path = ()
    excluded: Path | None = None
    for i, token in enumerate(draft):
        if path and token not in trie.children(path):
            ending = trie.ending(path)
            if ending is None:
                proposal.decide("dead end", i, i + 1, path=path)
                return proposal
            proposal.decide("end", i, 0, path=path)
            proposal.emit(ending, i)
            path, excluded = (), path
        if not path and len(proposal.tokens) == max_tokens:
            return proposal
        if token in trie.children(path):
            step = "go on" if path else "begin"
            path = (*path, token)
            proposal.decide(step, i, i + 1, path=path, excluded=excluded)
            ending = trie.ending(path)
            if ending is not None and not trie.children(path):  # END is forced
                proposal.emit(ending, i + 1)
                path = ()
        elif not _expand(proposal, trie.vocab_map.expansion(token) if expand else [], i, max_tokens):
            return proposal
        excluded = None
    proposal.tail = path or None
    return proposal


def _expand(proposal: Proposal, expansion: Sequence[int], i: int, max_tokens: int) -> bool:
    if not expansion or len(expansion) > max_tokens - len(proposal.tokens):
        return False
    for token in expansion:
        proposal.decide("expand", i, i + 1, target_id=token)
        proposal.emit(token, i + 1)
    return True


def translate_longest(draft: Sequence[int], trie: Trie, max_tokens: int, expand: bool = True) -> Proposal:
    """From left to right, the longest active spelling first; for greedy, match and paper."""
    proposal, at = Proposal(), 0
    while at < len(draft):
        sizes = range(len(draft) - at, 0, -1)
        spelled = [n for n in sizes if trie.ending(tuple(draft[at : at + n])) is not None]
        size = spelled[0] if spelled else 1
        ending = trie.ending(tuple(draft[at : at + size]))
        expansion = trie.vocab_map.expansion(draft[at]) if expand else []
        tokens = [ending] if ending is not None else expansion
        if not 0 < len(tokens) <= max_tokens - len(proposal.tokens):
            return proposal
        at += size
        for token in tokens:
            proposal.emit(token, at)
    return proposal


def _repeated(tokens: Sequence[int]) -> tuple[int, int]:
    """Where the latest earlier occurrence of the last 4, 3 or 2 tokens ends, and how many; 0 for none."""
    for n in (4, 3, 2):
        for at in range(len(tokens) - 1, n - 1, -1):
            if tokens[at - n : at] == tokens[-n:]:
                return at, n
    return 0, 0


def copied(tokens: Sequence[int], count: int = MAX_DRAFT_TOKENS) -> list[int]:
    """What followed the latest earlier occurrence of the last 4, 3 or 2 tokens, the longest first."""
    (at, _), text = _repeated(tokens), list(tokens)
    for i in range(count if at else 0):  # the copy may run into itself
        text.append(text[at + i])
    return text[len(tokens) :]


def matched(tokens: Sequence[int]) -> int:
    """Tokens before the copied ones that are the last tokens of the text too, 6 at most; 0 without a copy."""
    at, n = _repeated(tokens)
    lengths = range(n, min(6, at) + 1) if at else ()
    return max((m for m in lengths if tokens[at - m : at] == tokens[-m:]), default=0)
