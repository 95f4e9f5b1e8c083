"""Vectors of `translate`: the walk over the trie, and the longest match."""

from collections.abc import Sequence
from typing import Any

from vectorlib.reference.translator import longest_match, walk
from vectorlib.reference.vocab_map import MAPS, Trie
from vectorlib.writer import VectorWriter, vector

# name, why, map, active n-grams, draft, most proposed tokens, expand
Case = tuple[str, str, str, str, str, int, bool]
CASES: list[Case] = [
    ("direct_pairs", "without n-grams each token stands for itself", "toy", "", "s f la", 8, True),
    ("empty_draft", "nothing was drafted", "toy", "FLAKE", "", 8, True),
    ("completed", "an n-gram is one proposed token, END at its leaf is forced", "toy", "FLAKE", "f la ke", 8,
     True),
    ("early_end", "f could go on to la and does not: END, and s is kept", "toy", "FLAKE FO", "f s", 8, True),
    ("early_end_twice", "each kept token may begin and end a token again", "toy", "FLAKE LAKE", "f f la s",
     8, True),
    ("dead_end", "f la is begun, but no token: nothing is proposed", "toy", "FLAKE FLAS", "f la o", 8, True),
    ("dead_end_longest", "the longest match falls back to f", "toy", "FLAKE", "f la f la", 8, True),
    ("tail_inside_with_end", "the draft ends where a token may end or go on", "toy", "FLAKE", "s f", 8, True),
    ("tail_inside_without_end", "the draft ends inside a token", "toy", "FLAKE", "s f la", 8, True),
    ("two_children", "f goes on to la and to o", "toy", "FLAKE FO FLAS", "f o f la s", 8, True),
    ("inactive_ngram", "an n-gram that was not learned does not merge", "toy", "FO", "f la ke", 8, True),
    ("ngram_inside_ngram", "la ke is LAKE unless f comes before it", "toy", "FLAKE LAKE", "la ke f la ke", 8,
     True),
    ("kept_token_after_end_is_tested", "E: after END the kept token is none of f's children", "toy",
     "FLAKE FO", "f ke", 8, True),
    ("expansion", "sfo is no spelling, the target writes it as S F O", "toy", "FO", "sfo s", 8, True),
    ("expansion_after_end", "the kept token is a long one", "toy", "FLAKE", "f sfo", 8, True),
    ("expansion_off", "the direct and the paper's mode do not expand", "toy", "", "s sfo s", 8, False),
    ("expansion_does_not_fit", "of three tokens two would fit: none is proposed", "toy", "", "s sfo", 3,
     True),
    ("expansion_fits", "exactly three are left", "toy", "", "sfo s", 3, True),
    ("unmapped", "i maps to nothing: the walk ends there", "toy", "FLAKE", "s i s", 8, True),
    ("unmapped_first", "nothing can be proposed", "toy", "FLAKE", "i s", 8, True),
    ("unmapped_after_node", "END is proposed, then i ends the walk", "toy", "FLAKE", "f i", 8, True),
    ("max_tokens_0", "no room: an empty proposal", "toy", "FLAKE", "s f", 0, True),
    ("max_tokens_cut", "the third token has no room and is not tested", "toy", "", "s f la", 2, True),
    ("max_tokens_ngram", "an n-gram is one token, however long", "toy", "FLAKE", "f la ke s", 1, True),
    ("max_tokens_end", "END takes the last room: the kept token is not tested", "toy", "FLAKE", "f s", 1,
     True),
    ("alias", "F' has the bytes of F and is never proposed", "toy", "", "f", 8, True),
    ("role_pair", "control tokens of one role are a direct pair", "toy", "", "s </s>", 8, True),
    ("prefix_keys_short", "AB, though ABC and ABCD begin so", "deep", "AB ABC ABCD", "a b a", 8, True),
    ("prefix_keys_middle", "ABC between AB and ABCD", "deep", "AB ABC ABCD", "a b c b", 8, True),
    ("prefix_keys_long", "ABCD at the leaf", "deep", "AB ABC ABCD", "a b c d e", 8, True),
    ("prefix_keys_gap", "a b is begun and no token while only ABC is active", "deep", "ABC", "a b e", 8,
     True),
    ("prefix_keys_tail", "the draft ends in a b c", "deep", "AB ABC ABCD", "b a b c", 8, True),
    ("no_single_token", "d alone is no token, d e is", "deep", "DE", "d e d a", 8, True),
    ("repeated", "c c c needs all three", "deep", "CCC", "c c c c c", 8, True),
    ("begin_of_nothing", "c begins only CCC, which is not active", "deep", "AB", "a b c", 8, True),
    ("snow", "the worked example of the paper", "snow", "flake", "Snow f la ke is", 8, True),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    trie, longest = [], []
    for name, why, map_name, active, draft, most, expand in CASES:
        words = MAPS[map_name]
        given = {"map": map_name, "active": words.t(active), "draft": words.d(draft), "max_tokens": most}
        given["expand"] = expand
        nodes = Trie(words, words.t(active))
        trie.append(vector(name, why, given, _walked(nodes, words.d(draft), most, expand)))
        longest.append(vector(f"longest_{name}", why, given, _longest(nodes, words.d(draft), most, expand)))
    writer.vectors("translate", "trie", trie)
    different = [
        b for a, b in zip(trie, longest, strict=True) if a["expect"]["tokens"] != b["expect"]["tokens"]
    ]
    writer.vectors("translate", "longest", different)


def _walked(trie: Trie, draft: Sequence[int], most: int, expand: bool) -> dict[str, Any]:
    found = walk(draft, trie, most, expand)
    return {
        "tokens": found.tokens,
        "ends": found.ends,
        "decisions": [d.as_json() for d in found.decisions],
        "tail": None if found.tail is None else list(found.tail),
        "used": found.used,
    }


def _longest(trie: Trie, draft: Sequence[int], most: int, expand: bool) -> dict[str, Any]:
    found = longest_match(draft, trie, most, expand)
    return {"tokens": found.tokens, "ends": found.ends, "used": found.used}
