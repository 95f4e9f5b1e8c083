"""Draft tokens to target tokens: the walk of the trie, and the longest match of the paper."""

from collections.abc import Sequence

import pytest

from omnidraft.runtime.decoding.translator import Proposal, Step, translate, translate_longest
from support.toy import DRAFT, GRAMS, TARGET, toy_cache, toy_map

ALL = tuple(GRAMS)


def ids(names: str) -> list[int]:
    return [DRAFT.index(name) for name in names.split()]


def names(tokens: Sequence[int]) -> list[str]:
    return [TARGET[t] for t in tokens]


def walk(draft: str, grams: Sequence[str] = ALL, max_tokens: int = 64, expand: bool = True) -> Proposal:
    trie = toy_cache(toy_map(), grams).trie
    return translate(ids(draft), trie, max_tokens=max_tokens, expand=expand)


def longest(draft: str, grams: Sequence[str] = ALL, max_tokens: int = 64, expand: bool = True) -> Proposal:
    trie = toy_cache(toy_map(), grams).trie
    return translate_longest(ids(draft), trie, max_tokens=max_tokens, expand=expand)


BEGIN, GO_ON, END, DEAD_END, EXPAND = Step.BEGIN, Step.GO_ON, Step.END, Step.DEAD_END, Step.EXPAND


@pytest.mark.parametrize(
    "draft", ["f la ke s o", "f la o", "s f la s f", "la ke la s", "sfo f o f la ke", "f"]
)
@pytest.mark.parametrize("grams", [(), ("FO",), ALL])
def test_a_proposal_is_the_draft_so_far(draft: str, grams: Sequence[str]) -> None:
    """The proposed tokens spell a prefix of the draft; each row index is the number of tokens before it."""
    vocab_map = toy_map()
    for proposal in (walk(draft, grams), longest(draft, grams)):
        text = "".join(DRAFT[d] for d in ids(draft))
        written = b"".join(vocab_map.bytes_of(t) for t in proposal.tokens).decode().lower()
        assert text.startswith(written)
        assert len(proposal.ends) == len(proposal.tokens)
        assert proposal.ends == sorted(proposal.ends) and proposal.ends[-1:] <= [proposal.used]
        assert all(
            0 <= d.row <= len(proposal.tokens) and 0 <= d.draft < len(ids(draft)) for d in proposal.decisions
        )
