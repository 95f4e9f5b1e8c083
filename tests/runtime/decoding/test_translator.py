"""Draft tokens to target tokens: the walk of the trie, and the longest match of the paper."""

from collections.abc import Sequence

import pytest

from omnidraft.runtime.decoding.translator import translate, translate_longest
from support.toy import DRAFT, GRAMS, toy_cache, toy_map

ALL = tuple(GRAMS)


def ids(names: str) -> list[int]:
    return [DRAFT.index(name) for name in names.split()]


@pytest.mark.parametrize(
    "draft", ["f la ke s o", "f la o", "s f la s f", "la ke la s", "sfo f o f la ke", "f"]
)
@pytest.mark.parametrize("grams", [(), ("FO",), ALL])
def test_a_proposal_is_the_draft_so_far(draft: str, grams: Sequence[str]) -> None:
    """The proposed tokens spell a prefix of the draft; each row index is the number of tokens before it."""
    vocab_map = toy_map()
    trie = toy_cache(vocab_map, grams).trie
    for translated in (translate, translate_longest):
        proposal = translated(ids(draft), trie, max_tokens=64)
        text = "".join(DRAFT[d] for d in ids(draft))
        written = b"".join(vocab_map.bytes_of(t) for t in proposal.tokens).decode().lower()
        assert text.startswith(written)
        assert len(proposal.ends) == len(proposal.tokens)
        assert proposal.ends == sorted(proposal.ends) and proposal.ends[-1:] <= [proposal.used]
        assert all(
            0 <= d.row <= len(proposal.tokens) and 0 <= d.draft < len(ids(draft)) for d in proposal.decisions
        )
