"""Draft tokens to target tokens: the walk of the trie, and the longest match of the paper."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from omnidraft.runtime.decoding.baselines import paper_proposal
from omnidraft.runtime.decoding.distribution import Categorical
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


def steps(proposal: Proposal) -> list[tuple[Step, int, int]]:
    """(step, row that verifies it, draft token) of each decision."""
    return [(d.step, d.row, d.draft) for d in proposal.decisions]


BEGIN, GO_ON, END, DEAD_END, EXPAND = Step.BEGIN, Step.GO_ON, Step.END, Step.DEAD_END, Step.EXPAND


def test_direct_tokens_are_one_decision_each() -> None:
    proposal = walk("s o", ())
    assert names(proposal.tokens) == ["S", "O"]
    assert steps(proposal) == [(BEGIN, 0, 0), (BEGIN, 1, 1)]
    assert (proposal.ends, proposal.used, proposal.tail) == ([1, 2], 2, None)


def test_an_ngram_that_completes_is_one_token_whose_end_is_forced() -> None:
    proposal = walk("f la ke s")
    assert names(proposal.tokens) == ["FLAKE", "S"]
    assert steps(proposal) == [(BEGIN, 0, 0), (GO_ON, 0, 1), (GO_ON, 0, 2), (BEGIN, 1, 3)]
    assert proposal.ends == [3, 4]
    assert proposal.decisions[3].excluded is None  # a forced end says nothing of the next token


def test_an_ngram_that_ends_early_keeps_the_token_and_what_it_is_not() -> None:
    """`f s`: F ends; s begins the next token and is known not to be a child of f."""
    proposal = walk("f s")
    assert names(proposal.tokens) == ["F", "S"]
    assert steps(proposal) == [(BEGIN, 0, 0), (END, 0, 1), (BEGIN, 1, 1)]
    assert proposal.ends == [1, 2]
    excluded = proposal.decisions[2].excluded
    assert excluded is not None and excluded == proposal.decisions[1].node
    trie = toy_cache(toy_map(), ALL).trie
    assert trie.children(excluded)[0].tolist() == sorted(ids("la o"))


def test_the_exclusion_holds_for_one_token_only() -> None:
    proposal = walk("f s s")
    assert [d.excluded is not None for d in proposal.decisions] == [False, False, True, False]


def test_a_dead_end_proposes_nothing_and_ends_the_walk() -> None:
    """`f la` alone is not a token, and `o` does not continue it."""
    proposal = walk("s f la o s")
    assert names(proposal.tokens) == ["S"]
    assert steps(proposal) == [(BEGIN, 0, 0), (BEGIN, 1, 1), (GO_ON, 1, 2), (DEAD_END, 1, 3)]
    assert (proposal.ends, proposal.used) == ([1], 4)
    node = proposal.decisions[-1].node
    assert node is not None and node.depth == 2


def test_a_draft_that_ends_inside_a_node_leaves_its_tail_for_the_bonus() -> None:
    proposal = walk("s f la")
    assert names(proposal.tokens) == ["S"]
    assert proposal.tail is not None
    trie = toy_cache(toy_map(), ALL).trie
    assert sorted(names(trie.targets(proposal.tail).tolist())) == ["FLAKE", "FLAS"]
    assert proposal.used == 3


def test_a_tail_may_itself_be_a_token() -> None:
    proposal = walk("f")
    assert proposal.tokens == [] and proposal.tail is not None
    trie = toy_cache(toy_map(), ALL).trie
    assert sorted(names(trie.targets(proposal.tail).tolist())) == ["F", "FLAKE", "FLAS", "FO"]


def test_inactive_ngrams_take_no_part() -> None:
    """With an empty cache f ends at once: no leaf below it is active."""
    proposal = walk("f la ke", ())
    assert names(proposal.tokens) == ["F", "LA", "KE"]
    assert [d.step for d in proposal.decisions] == [BEGIN, BEGIN, BEGIN]


def test_a_long_draft_token_is_expanded() -> None:
    proposal = walk("o sfo s")
    assert names(proposal.tokens) == ["O", "S", "F", "O", "S"]
    assert steps(proposal) == [(BEGIN, 0, 0), (EXPAND, 1, 1), (EXPAND, 2, 1), (EXPAND, 3, 1), (BEGIN, 4, 2)]
    assert names([d.target_id for d in proposal.decisions if d.step is EXPAND]) == ["S", "F", "O"]
    assert proposal.ends == [1, 2, 2, 2, 3]


def test_a_kept_token_may_be_a_long_one() -> None:
    proposal = walk("f sfo")
    assert names(proposal.tokens) == ["F", "S", "F", "O"]
    assert steps(proposal)[:3] == [(BEGIN, 0, 0), (END, 0, 1), (EXPAND, 1, 1)]


def test_expansion_can_be_left_out() -> None:
    proposal = walk("o sfo s", expand=False)
    assert names(proposal.tokens) == ["O"] and proposal.used == 1


@pytest.mark.parametrize("translate_with", [walk, longest])
@pytest.mark.parametrize("stranger", ["i", "#"])
def test_a_draft_token_that_maps_to_nothing_ends_the_proposal(
    translate_with: Callable[..., Proposal], stranger: str
) -> None:
    proposal = translate_with(f"s {stranger} s")
    assert names(proposal.tokens) == ["S"] and proposal.used == 1


@pytest.mark.parametrize("translate_with", [walk, longest])
@pytest.mark.parametrize(
    ("draft", "most", "tokens"),
    [
        ("s s s", 2, ["S", "S"]),
        ("f la ke s", 1, ["FLAKE"]),
        ("s sfo", 3, ["S"]),  # an expansion is proposed whole or not at all
        ("s sfo", 4, ["S", "S", "F", "O"]),
        ("s", 0, []),
        ("sfo", 0, []),
    ],
)
def test_max_tokens_cuts(
    translate_with: Callable[..., Proposal], draft: str, most: int, tokens: list[str]
) -> None:
    proposal = translate_with(draft, max_tokens=most)
    assert names(proposal.tokens) == tokens
    assert len(proposal.ends) == len(tokens)


def test_a_token_beyond_the_limit_is_not_tested() -> None:
    """`f s` at a limit of one: END of F is proposed, but s is not, because no row would verify it."""
    proposal = walk("f s", max_tokens=1)
    assert names(proposal.tokens) == ["F"]
    assert steps(proposal) == [(BEGIN, 0, 0), (END, 0, 1)]


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


def test_longest_match_takes_the_longest() -> None:
    assert names(longest("f la ke").tokens) == ["FLAKE"]
    assert names(longest("f o").tokens) == ["FO"]


def test_longest_match_falls_back_to_a_shorter_spelling() -> None:
    """`f la o` completes neither FLAKE nor FLAS: F is proposed, and the rest is translated on its own."""
    proposal = longest("f la o")
    assert names(proposal.tokens) == ["F", "LA", "O"]
    assert proposal.ends == [1, 2, 3]


def test_longest_match_falls_back_at_the_end_of_the_draft() -> None:
    proposal = longest("s f la")
    assert names(proposal.tokens) == ["S", "F", "LA"]
    assert proposal.tail is None and proposal.used == 3


def test_a_fall_back_may_complete_another_ngram() -> None:
    """`f la ke` without FLAKE in the cache: F, then LAKE."""
    assert names(longest("f la ke", ("FLAS", "LAKE")).tokens) == ["F", "LAKE"]


def test_a_key_that_is_a_prefix_of_another_does_not_hide_it() -> None:
    """FO is cached before and after FLAKE, f is a token itself: the order of learning does not matter."""
    for grams in (("FO", "FLAKE"), ("FLAKE", "FO")):
        assert names(longest("f la ke f o f", grams).tokens) == ["FLAKE", "FO", "F"]


def test_the_papers_worked_example() -> None:
    """`Snow f la ke is`, q = .60 .50 .80 .90 .40: flake has q' = 0.36 and `f` keeps 0.14 (method 4.1)."""
    trie = toy_cache(toy_map(), ("FLAKE",)).trie
    draft, q = ids("s f la ke o"), [0.60, 0.50, 0.80, 0.90, 0.40]  # s: Snow, o: is
    distributions = []
    for token, chance in zip(draft, q, strict=True):
        weights = np.full(len(DRAFT), (1.0 - chance) / (len(DRAFT) - 1))
        weights[token] = chance
        distributions.append(Categorical(weights))
    proposal = translate_longest(draft, trie, max_tokens=64)
    assert names(proposal.tokens) == ["S", "FLAKE", "O"] and proposal.ends == [1, 4, 5]
    snow = paper_proposal(trie, distributions[0:1], TARGET.index("S"))
    flake = paper_proposal(trie, distributions[1:4], TARGET.index("FLAKE"))
    end = paper_proposal(trie, distributions[4:5], TARGET.index("O"))
    assert snow[TARGET.index("S")] == pytest.approx(0.60)
    assert flake[TARGET.index("FLAKE")] == pytest.approx(0.36)
    assert flake[TARGET.index("F")] == pytest.approx(0.14)
    assert flake[TARGET.index("S")] == pytest.approx(0.5 / 7)  # the others keep q
    assert flake[TARGET.index("X")] == 0.0  # without a direct pair nothing is proposed
    assert end[TARGET.index("O")] == pytest.approx(0.40)
