"""Vectors of `translate`: the walk over the trie, and the longest match."""

from collections.abc import Sequence
from typing import Any

from vectorlib.reference.ngram_cache import NgramCache
from vectorlib.reference.translator import translate, translate_longest
from vectorlib.reference.vocab_map import MAPS, Trie
from vectorlib.writer import VectorWriter, vector

# name, why, map, active n-grams, draft, most proposed tokens, expand
Case = tuple[str, str, str, str, str, int, bool]
CASES: list[Case] = [
    ("direct_pairs", "without n-grams each draft token becomes one target token",
     "toy", "", "s f la", 8, True),
    ("empty_draft", "nothing was drafted", "toy", "FLAKE", "", 8, True),
    ("completed", "an n-gram is one proposed token; END at its leaf is forced", "toy", "FLAKE", "f la ke", 8,
     True),
    ("early_end", "f may go on to la, but s follows: END, and s is looked at again",
     "toy", "FLAKE FO", "f s", 8, True),
    ("early_end_twice", "after an END the next draft token may lead to an END again",
     "toy", "FLAKE LAKE", "f f la s",
     8, True),
    ("dead_end", "f la is a prefix and not a token: nothing is proposed",
     "toy", "FLAKE FLAS", "f la o", 8, True),
    ("dead_end_longest", "the longest match falls back to f", "toy", "FLAKE", "f la f la", 8, True),
    ("tail_inside_with_end", "the draft ends at a node that is a token and has children",
     "toy", "FLAKE", "s f", 8, True),
    ("tail_inside_without_end", "the draft ends inside a token", "toy", "FLAKE", "s f la", 8, True),
    ("two_children", "f has the children la and o", "toy", "FLAKE FO FLAS", "f o f la s", 8, True),
    ("inactive_ngram", "an n-gram that was not learned is not proposed", "toy", "FO", "f la ke", 8, True),
    ("ngram_inside_ngram", "la ke is LAKE unless f precedes it", "toy", "FLAKE LAKE", "la ke f la ke", 8,
     True),
    ("kept_token_after_end_is_tested", "after END the draft token is not a child of f (the set E)",
     "toy",
     "FLAKE FO", "f ke", 8, True),
    ("expansion", "sfo is not a spelling; the target writes it as S F O", "toy", "FO", "sfo s", 8, True),
    ("expansion_after_end", "the draft token after END has an expansion", "toy", "FLAKE", "f sfo", 8, True),
    ("expansion_off", "modes direct and paper do not expand", "toy", "", "s sfo s", 8, False),
    ("expansion_does_not_fit", "two of three tokens would fit: none is proposed", "toy", "", "s sfo", 3,
     True),
    ("expansion_fits", "exactly three are left", "toy", "", "sfo s", 3, True),
    ("unmapped", "i maps to nothing: the walk ends there", "toy", "FLAKE", "s i s", 8, True),
    ("unmapped_first", "nothing can be proposed", "toy", "FLAKE", "i s", 8, True),
    ("unmapped_after_node", "END is proposed, then i ends the walk", "toy", "FLAKE", "f i", 8, True),
    ("max_tokens_0", "max_tokens 0: an empty proposal", "toy", "FLAKE", "s f", 0, True),
    ("max_tokens_cut", "the third token does not fit and gives no decision", "toy", "", "s f la", 2, True),
    ("max_tokens_ngram", "an n-gram is one token, whatever its length", "toy", "FLAKE", "f la ke s", 1, True),
    ("max_tokens_end", "END takes the last place: the next draft token gives no decision",
     "toy", "FLAKE", "f s", 1,
     True),
    ("alias", "F' has the bytes of F and is never proposed", "toy", "", "f", 8, True),
    ("role_pair", "control tokens with the same role are a direct pair", "toy", "", "s </s>", 8, True),
    ("prefix_keys_short", "AB, which is a prefix of ABC and ABCD", "deep", "AB ABC ABCD", "a b a", 8, True),
    ("prefix_keys_middle", "ABC between AB and ABCD", "deep", "AB ABC ABCD", "a b c b", 8, True),
    ("prefix_keys_long", "ABCD at the leaf", "deep", "AB ABC ABCD", "a b c d e", 8, True),
    ("prefix_keys_gap", "a b is not a token while only ABC is active", "deep", "ABC", "a b e", 8,
     True),
    ("prefix_keys_tail", "the draft ends in a b c", "deep", "AB ABC ABCD", "b a b c", 8, True),
    ("no_single_token", "d is not a token, d e is", "deep", "DE", "d e d a", 8, True),
    ("repeated", "CCC needs three times c", "deep", "CCC", "c c c c c", 8, True),
    ("begin_of_nothing", "c is a prefix of CCC only, which is not active", "deep", "AB", "a b c", 8, True),
    ("snow", "the worked example of the paper", "snow", "flake", "Snow f la ke is", 8, True),
    ("longer_begins", "ab is longer than a target token and begins a spelling, which is active", "begun",
     "ABC", "ab c ab", 8, True),
    ("longer_begins_inactive", "the spelling is not active: the target writes ab as A B", "begun", "",
     "ab c a", 8, True),
]  # fmt: skip

# name, why, map, n-grams in the order of their insertion, room for them (None: a prefilled cache), draft
CACHED: list[tuple[str, str, str, str, int | None, str]] = [
    ("evicted_beside", "e3 begins no direct pair; of its two n-grams one was evicted, the other is proposed",
     "halves", "e381 い ab", 2, "e3 81 84 a b"),
    ("evicted_last", "with the last n-gram of e3 its root is gone: nothing is proposed",
     "halves", "い ab", 1, "e3 81 84"),
    ("evicted_pair_stays", "f is a direct pair, so it is a root without an n-gram", "toy", "FO FLAKE LAKE", 1,
     "f o la ke"),
    ("prefilled", "every n-gram is proposed, of which a first draft token is no direct pair", "deep", "",
     None, "c c c d e a b c d"),
    ("prefilled_learned", "what was learned before stays", "halves", "い", None, "e3 81 84 e3 81 a b"),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    trie_vectors, longest_vectors = [], []
    for name, why, map_name, active, draft, most, expand in CASES:
        vocab_map = MAPS[map_name]
        given: dict[str, Any] = {"map": map_name, "active": vocab_map.t(active), "draft": vocab_map.d(draft)}
        given |= {"max_tokens": most, "expand": expand}
        trie, ids = Trie(vocab_map, vocab_map.t(active)), vocab_map.d(draft)
        trie_vectors.append(vector(name, why, given, _walk(trie, ids, most, expand)))
        longest_vectors.append(vector(f"longest_{name}", why, given, _longest(trie, ids, most, expand)))
    writer.vectors("translate", "trie", trie_vectors)
    writer.vectors("translate", "cached", [_cached(*case) for case in CACHED])
    pairs = zip(trie_vectors, longest_vectors, strict=True)
    different = [b for a, b in pairs if a["expect"]["tokens"] != b["expect"]["tokens"]]
    writer.vectors("translate", "longest", different)


def _cached(
    name: str, why: str, map_name: str, inserted: str, capacity: int | None, draft: str
) -> dict[str, Any]:
    """What is proposed after evictions, or with a prefilled cache."""
    vocab_map = MAPS[map_name]
    cache = NgramCache(vocab_map) if capacity is None else NgramCache(vocab_map, capacity)
    for target in vocab_map.t(inserted):
        assert cache.insert(target), f"{target} is no n-gram"
    if capacity is None:
        cache.prefill()
    given: dict[str, Any] = {"map": map_name, "active": vocab_map.t(inserted), "capacity": capacity}
    given |= {"prefilled": capacity is None, "draft": vocab_map.d(draft), "max_tokens": 8, "expand": True}
    return vector(name, why, given, _walk(Trie(vocab_map, list(cache.entries)), given["draft"], 8, True))


def _walk(trie: Trie, draft: Sequence[int], most: int, expand: bool) -> dict[str, Any]:
    proposal = translate(draft, trie, most, expand)
    return {
        "tokens": proposal.tokens,
        "ends": proposal.ends,
        "decisions": [d.as_json() for d in proposal.decisions],
        "tail": None if proposal.tail is None else list(proposal.tail),
        "used": proposal.used,
    }


def _longest(trie: Trie, draft: Sequence[int], most: int, expand: bool) -> dict[str, Any]:
    proposal = translate_longest(draft, trie, most, expand)
    return {"tokens": proposal.tokens, "ends": proposal.ends, "used": proposal.used}
