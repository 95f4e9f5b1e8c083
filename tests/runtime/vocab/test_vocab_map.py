"""The vocabulary map as it is built: who can write whom, byte for byte, and which control tokens are one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnidraft.errors import ExportError, VocabMapError
from omnidraft.export.build_vocab_map import Roles, build_vocab_map, guess_roles, read_pairs
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.real_tokenizers import TokenizerOf
from support.tiny_tokenizers import SPACE, byte_level, sentencepiece, unigram

TARGETS = ["qwen2", "llama3", "gpt2", "phi3", "t5-small"]
WIDTHS = {"qwen2": 151_936}  # the logits of the 0.5B and 1.5B models; the tokenizer has 151,646

MapOf = Callable[[str], VocabMap]


@pytest.fixture(scope="module")
def map_of(tokenizer_of: TokenizerOf) -> MapOf:
    """Llama-2 as drafter for a target, built once each."""

    def build(name: str) -> VocabMap:
        return build_vocab_map(tokenizer_of("llama2"), tokenizer_of(name), target_size=WIDTHS.get(name))

    return cache(build)


def check_bytes(vocab_map: VocabMap, drafter: Tokenizer, target: Tokenizer) -> int:
    """Compare the bytes of every spelling and expansion; return how many were compared."""
    compared = 0
    for t, data in enumerate(target.tokens):
        assert vocab_map.bytes_of(t) == (data or b"")
        spelling = vocab_map.spell(t)
        if data and spelling:
            assert drafter.text_of(spelling) == data, t
            compared += 1
    for d in np.flatnonzero(vocab_map.expansions.lengths).tolist():
        expansion = [int(t) for t in vocab_map.expansions.row(d)]
        assert len(expansion) > 1
        assert target.text_of(expansion) == drafter.tokens[d], d
        compared += 1
    return compared


def check_trie(vocab_map: VocabMap) -> None:
    """Leaves ascend strictly by spelling: sorted, and no spelling twice."""
    spellings = [tuple(vocab_map.spell(int(t))) for t in vocab_map.leaves]
    assert all(spellings)
    assert all(a < b for a, b in itertools.pairwise(spellings))
    assert len(np.unique(vocab_map.leaves)) == len(vocab_map.leaves)
    singles = {(int(d), int(t)) for d, t in enumerate(vocab_map.direct) if t >= 0}
    assert singles == {
        (s[0], int(t)) for s, t in zip(spellings, vocab_map.leaves, strict=True) if len(s) == 1
    }


# Real vocabularies


@pytest.mark.parametrize(
    ("name", "equal"), [("qwen2", 26_342), ("llama3", 26_599), ("gpt2", 18_207), ("phi3", 31_997)]
)
def test_tokens_with_equal_bytes(tokenizer_of: TokenizerOf, map_of: MapOf, name: str, equal: int) -> None:
    """The counts of method section 2: text tokens of the target that one token of Llama-2 writes."""
    tokens, vocab_map = tokenizer_of(name).tokens, map_of(name)
    assert sum(len(vocab_map.spell(t)) == 1 for t, data in enumerate(tokens) if data) == equal


@pytest.mark.parametrize("name", TARGETS)
def test_every_spelling_has_the_tokens_bytes(tokenizer_of: TokenizerOf, map_of: MapOf, name: str) -> None:
    """Every text token of the target has a spelling; every spelling and expansion gives the bytes back."""
    target, vocab_map = tokenizer_of(name), map_of(name)
    texts = sum(1 for data in target.tokens if data)
    long = int(np.count_nonzero(vocab_map.expansions.lengths))
    assert check_bytes(vocab_map, tokenizer_of("llama2"), target) == texts + long
    assert long == {"qwen2": 5559, "llama3": 5302, "gpt2": 13_694, "phi3": 0, "t5-small": 14_975}[name]


def test_aliases_are_spelled_but_are_no_leaves(tokenizer_of: TokenizerOf, map_of: MapOf) -> None:
    """Phi-3 has Llama-2's 96 double bytes: the byte token is an alias of the piece that the model writes."""
    phi, vocab_map = tokenizer_of("phi3"), map_of("phi3")
    aliases = [t for t, data in enumerate(phi.tokens) if data and vocab_map.leaf_of[t] < 0]
    assert len(aliases) == 96
    for t in aliases:
        assert 3 <= t < 259
        (d,) = vocab_map.spell(t)
        assert int(vocab_map.direct[d]) != t


@pytest.mark.parametrize("name", TARGETS)
def test_controls_match_by_role_or_not_at_all(tokenizer_of: TokenizerOf, map_of: MapOf, name: str) -> None:
    drafter, target, vocab_map = tokenizer_of("llama2"), tokenizer_of(name), map_of(name)
    pairs = dict(guess_roles(drafter, target).pairs)
    end = drafter.controls["</s>"].id
    assert target.tokens[pairs[end]] is None
    for control in drafter.controls.values():
        assert int(vocab_map.direct[control.id]) == pairs.get(control.id, -1)
        assert bool(vocab_map.draft_allowed[control.id]) == (control.id in pairs)
    for control in target.controls.values():
        paired = [d for d, t in pairs.items() if t == control.id]
        assert vocab_map.spell(control.id) == paired
        assert (vocab_map.leaf_of[control.id] >= 0) == bool(paired)
        assert vocab_map.bytes_of(control.id) == b""


# Small vocabularies


DRAFTER = LibraryTokenizer(sentencepiece([("l", "a"), ("k", "e"), (SPACE, "f")]))
TARGET = LibraryTokenizer(
    byte_level(
        [(b"l", b"a"), (b"k", b"e"), (b"f", b"la"), (b"fla", b"ke"), (b"\xc3", b"\xa9")],
        controls=["<|start|>", "</s>", "<think>"],
        added=["<td>", "flame"],
    )
)


def test_the_parts_of_a_small_map() -> None:
    vocab_map = build_vocab_map(DRAFTER, TARGET)
    pieces = {data: t for t, data in enumerate(TARGET.tokens) if data}
    ids = {data: d for d, data in enumerate(DRAFTER.tokens) if data}
    assert [DRAFTER.tokens[d] for d in vocab_map.spell(pieces[b"flake"])] == [b"f", b"la", b"ke"]
    assert [DRAFTER.tokens[d] for d in vocab_map.spell(pieces[b"flame"])] == [b"f", b"la", b"m", b"e"]
    assert [DRAFTER.tokens[d] for d in vocab_map.spell(pieces[b"<td>"])] == [b"<", b"t", b"d", b">"]
    assert vocab_map.leaf_of[pieces[b"<td>"]] >= 0, "a drafter may propose it"
    assert [DRAFTER.tokens[d] for d in vocab_map.spell(pieces["é".encode()])] == [b"\xc3", b"\xa9"]
    assert [TARGET.tokens[int(t)] for t in vocab_map.expansions.row(ids[b" f"])] == [b" ", b"f"]
    assert vocab_map.direct[ids[b"la"]] == pieces[b"la"]
    assert vocab_map.direct[DRAFTER.controls["</s>"].id] == TARGET.controls["</s>"].id
    assert vocab_map.spell(TARGET.controls["<think>"].id) == []
    assert check_bytes(vocab_map, DRAFTER, TARGET) == len(pieces) + 1


def test_a_longer_draft_token_may_begin_a_spelling() -> None:
    """ab is a b in the target, and the first part of abc."""
    drafter = LibraryTokenizer(byte_level([(b"a", b"b")]))
    target = LibraryTokenizer(byte_level([(b"b", b"c"), (b"a", b"bc")]))
    vocab_map = build_vocab_map(drafter, target)
    d, t = ({data: i for i, data in enumerate(side.tokens) if data} for side in (drafter, target))
    assert vocab_map.expansions.row(d[b"ab"]).tolist() == [t[b"a"], t[b"b"]]
    assert vocab_map.spell(t[b"abc"]) == [d[b"ab"], d[b"c"]]


def test_a_drafter_that_starts_and_ends_with_one_token() -> None:
    one = LibraryTokenizer(sentencepiece([("l", "a")], bos="</s>"))
    vocab_map = build_vocab_map(one, DRAFTER)
    assert vocab_map.direct[one.controls["</s>"].id] == DRAFTER.controls["</s>"].id


def test_a_target_that_starts_and_ends_with_one_token() -> None:
    one = LibraryTokenizer(sentencepiece([("l", "a")], bos="</s>"))
    vocab_map = build_vocab_map(DRAFTER, one)
    assert vocab_map.direct[DRAFTER.controls["</s>"].id] == one.controls["</s>"].id


def test_a_token_that_nothing_can_write_is_an_orphan() -> None:
    drafter = LibraryTokenizer(unigram([SPACE, "f", "l", "a", "la"]))
    vocab_map = build_vocab_map(drafter, TARGET)
    pieces = {data: t for t, data in enumerate(TARGET.tokens) if data}
    assert vocab_map.spell(pieces[b"fla"]) and not vocab_map.spell(pieces[b"flake"])
    assert vocab_map.leaf_of[pieces[b"flake"]] == -1
    check_bytes(vocab_map, drafter, TARGET)


def test_wide_logits_are_filled_with_orphans() -> None:
    vocab_map = build_vocab_map(DRAFTER, TARGET, draft_size=400, target_size=500)
    assert (vocab_map.draft_size, vocab_map.target_size) == (400, 500)
    assert not vocab_map.draft_allowed[len(DRAFTER) :].any()
    assert (vocab_map.direct[len(DRAFTER) :] == -1).all()
    assert not vocab_map.spellings.lengths[len(TARGET) :].any()


@pytest.mark.parametrize(
    ("who", "draft_size", "target_size"),
    [("drafter", len(DRAFTER) - 1, None), ("target", None, len(TARGET) - 1)],
)
def test_logits_narrower_than_the_tokenizer_are_refused(
    who: str, draft_size: int | None, target_size: int | None
) -> None:
    size = len(DRAFTER if who == "drafter" else TARGET)
    message = f"the {who}'s logits are {size - 1} wide but its tokenizer has {size} ids; use the tokenizer"
    with pytest.raises(VocabMapError, match=message):
        build_vocab_map(DRAFTER, TARGET, draft_size=draft_size, target_size=target_size)


@st.composite
def vocabularies(draw: st.DrawFn) -> LibraryTokenizer:
    """A byte-level BPE with random merges, some of them across characters."""
    letters = [b"a", b"b", b" ", b"\n", b"\xc3", b"\xa9", b"\xe2"]
    tokens = list(letters)
    merges: dict[tuple[bytes, bytes], None] = {}
    for _ in range(draw(st.integers(0, 12))):
        pair = (draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens)))
        merges.setdefault(pair)
        tokens.append(pair[0] + pair[1])
    return LibraryTokenizer(
        byte_level(list(merges), controls=draw(st.sampled_from([[], ["</s>"], ["</s>", "<x>"]])))
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drafter=vocabularies(), target=vocabularies())
def test_any_two_vocabularies(drafter: LibraryTokenizer, target: LibraryTokenizer) -> None:
    """Every token has a spelling with its bytes, the trie is sorted without doubles, and it can be loaded."""
    vocab_map = build_vocab_map(drafter, target)
    texts = sum(1 for data in target.tokens if data)
    assert check_bytes(vocab_map, drafter, target) >= texts
    check_trie(vocab_map)
    assert not vocab_map.draft_allowed[[c.id for n, c in drafter.controls.items() if n == "<x>"]].any()
    vocab_map.check_fits(drafter.fingerprint, target.fingerprint, len(drafter), len(target))


def test_control_tokens_that_a_user_pairs() -> None:
    """A pair of the user's overrules a role, and what is in no pair stays an orphan."""
    names = ["<think>", "</think>", "<a=b>", "</s>"]
    drafter = LibraryTokenizer(byte_level(controls=names))
    target = LibraryTokenizer(byte_level([(b"a", b"b")], controls=["<|end|>", *names]))
    d, t = ({n: c.id for n, c in side.controls.items()} for side in (drafter, target))
    pairs = read_pairs(drafter, target, ["<think>=<think>", "<a=b>=</think>"])
    assert pairs == [(d["<think>"], t["<think>"]), (d["<a=b>"], t["</think>"])]
    roles = Roles(((d["</s>"], t["<|end|>"]), (d["<think>"], t["</s>"]))).overruled_by(pairs)
    assert roles.pairs == ((d["</s>"], t["<|end|>"]), *pairs)
    vocab_map = build_vocab_map(drafter, target, roles=roles)
    assert vocab_map.spell(t["<think>"]) == [d["<think>"]]
    assert vocab_map.spell(t["</think>"]) == [d["<a=b>"]]
    assert vocab_map.direct[d["<think>"]] == t["<think>"] and vocab_map.draft_allowed[d["<think>"]]
    assert vocab_map.spell(t["<a=b>"]) == [] and not vocab_map.draft_allowed[d["</think>"]]


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (["<think>"], "DRAFTER=TARGET.*drafter has <think>.*target has </s>, <think>"),
        (["<think>=<thought>"], "DRAFTER=TARGET"),
        (["a=a"], "DRAFTER=TARGET"),
        (["<think>=<think>", "<think>=</s>"], "in another pair"),
    ],
)
def test_pairs_that_name_nothing(pairs: list[str], words: str) -> None:
    drafter = LibraryTokenizer(byte_level(controls=["<think>"]))
    target = LibraryTokenizer(byte_level(controls=["<think>", "</s>"]))
    with pytest.raises(ExportError, match=words):
        read_pairs(drafter, target, pairs)
