"""A draft in target tokens: spec/speculation.md, section 4."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vectorlib.reference.vocab_map import Path, Trie


@dataclass(frozen=True)
class Decision:
    """What a draft token decided.

    Attributes:
        step: begin, go on, end, dead end or expand.
        row: the target row that judges it. draft: index of the draft token.
        path: the node that is entered, or that the walk stands in.
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
        found: dict[str, Any] = {"step": self.step, "row": self.row, "draft": self.draft}
        if self.step == "expand":
            return {**found, "target_id": self.target_id}
        excluded = {} if self.excluded is None else {"excluded": list(self.excluded)}
        return {**found, "path": list(self.path), **excluded}


@dataclass
class Proposal:
    """Proposed tokens, the decisions that led there, and where the draft ended."""

    tokens: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # draft tokens that are used up with each proposed token
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


def walk(draft: Sequence[int], trie: Trie, most: int, expand: bool = True) -> Proposal:
    """One decision for each draft token, in order, as far as they lead."""
    found = Proposal()
    path: Path = ()
    excluded: Path | None = None
    for i, token in enumerate(draft):
        if path and token not in trie.children(path):
            ending = trie.ending(path)
            if ending is None:
                found.decide("dead end", i, i + 1, path=path)
                return found
            found.decide("end", i, 0, path=path)
            found.emit(ending, i)
            path, excluded = (), path
        if not path and len(found.tokens) == most:
            return found
        if token in trie.children(path):
            step = "go on" if path else "begin"
            path = (*path, token)
            found.decide(step, i, i + 1, path=path, excluded=excluded)
            ending = trie.ending(path)
            if ending is not None and not trie.children(path):  # END is forced
                found.emit(ending, i + 1)
                path = ()
        elif not _expand(found, trie.words.expansion(token) if expand else [], i, most):
            return found
        excluded = None
    found.tail = path or None
    return found


def _expand(found: Proposal, longer: Sequence[int], i: int, most: int) -> bool:
    if not longer or len(longer) > most - len(found.tokens):
        return False
    for token in longer:
        found.decide("expand", i, i + 1, target_id=token)
        found.emit(token, i + 1)
    return True


def longest_match(draft: Sequence[int], trie: Trie, most: int, expand: bool = True) -> Proposal:
    """Left to right, the longest active spelling first; for greedy, match and paper."""
    found, at = Proposal(), 0
    while at < len(draft):
        spans = [
            n for n in range(len(draft) - at, 0, -1) if trie.ending(tuple(draft[at : at + n])) is not None
        ]
        size = spans[0] if spans else 1
        ending = trie.ending(tuple(draft[at : at + size]))
        longer = trie.words.expansion(draft[at]) if expand else []
        tokens = [ending] if ending is not None else longer
        if not 0 < len(tokens) <= most - len(found.tokens):
            return found
        at += size
        for token in tokens:
            found.emit(token, at)
    return found
