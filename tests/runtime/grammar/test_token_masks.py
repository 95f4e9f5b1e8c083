"""Masks of tokens: what a grammar allows, with many tokens left and with few."""

import numpy as np
import pytest

from omnidraft.errors import GrammarError
from omnidraft.grammar import from_choices, from_regex, from_schema
from omnidraft.runtime.grammar.byte_trie import ByteTrie
from omnidraft.runtime.grammar.grammar import START, Configuration, Grammar
from omnidraft.runtime.grammar.token_masks import TokenMasks

TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["n", "kids"],
        }
    },
    "$ref": "#/$defs/node",
}
GRAMMARS = {
    "choices": lambda: from_choices(["yes", "no", "nothing"]),
    "regex": lambda: from_regex(r"[a-c]+(é|\d{2})?"),
    "object": lambda: from_schema({"properties": {"a": {"type": "string"}, "b": {"enum": [1, None]}}}),
    "tree": lambda: from_schema(TREE, depth=3),
    "anything": lambda: from_schema(True, whitespace="none", depth=2),
}


def vocabulary(rng: np.random.Generator) -> list[bytes | None]:
    """All bytes, longer pieces of JSON texts, an unused id and an end token."""
    text = (
        b'{"a": "yes", "kids": [], "n": 12}{"b": null}, [{"n": 1, "kids": [{"n": 2, "kids": []}]}] nothing '
    )
    text += b"abcabc\xc3\xa912"
    starts = rng.integers(len(text) - 8, size=120)
    pieces = [text[i : i + int(n)] for i, n in zip(starts, rng.integers(2, 9, size=120), strict=True)]
    return [*(bytes([b]) for b in range(256)), *pieces, None, None]


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_mask_is_what_the_automaton_says_of_each_token(name: str) -> None:
    rng = np.random.default_rng(0)
    grammar = GRAMMARS[name]()
    tokens = vocabulary(rng)
    eos = len(tokens) - 1
    masks = TokenMasks(grammar, ByteTrie(tokens, len(tokens) + 3), [eos])
    for at in walk(grammar, rng):
        for room in (masks.bound(at), masks.bound(at) + 1, 1000):
            if room == 0:
                continue
            mask = masks.mask(at, room)
            behind = [grammar.read(at, token) if token else None for token in tokens]
            expected = [b is not None and masks.bound(b) < room for b in behind]
            expected[eos] = grammar.is_complete(at)
            assert mask.tolist() == [*expected, False, False, False]
            assert mask.any(), "a text can always be completed"


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_text_of_any_allowed_tokens_is_complete_in_time(name: str) -> None:
    rng = np.random.default_rng(1)
    grammar = GRAMMARS[name]()
    tokens = vocabulary(rng)
    masks = TokenMasks(grammar, ByteTrie(tokens, len(tokens)), [len(tokens) - 1])
    for _ in range(30):
        room, at, text = masks.bound(START) + int(rng.integers(12)), START, b""
        while room and not masks.is_last(at, room):
            token = tokens[int(rng.choice(np.flatnonzero(masks.mask(at, room))))]
            if token is None:
                break
            behind = grammar.read(at, token)
            assert behind is not None
            at, text, room = behind, text + token, room - 1
        assert grammar.is_complete(at) and grammar.matches(text), text


def test_bytes_that_the_grammar_fixes_are_found() -> None:
    grammar = from_schema({"properties": {"name": {"const": "x"}, "age": {"type": "integer"}},
                                 "required": ["name", "age"]})  # fmt: skip
    masks = TokenMasks(grammar, ByteTrie([bytes([b]) for b in range(256)], 256), [])
    assert masks.forced(START) == b'{"name": "x", "age": '


def test_masks_stay_right_when_all_configurations_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnidraft.runtime.grammar.token_masks.MOST_CONFIGURATIONS", 3)
    test_a_mask_is_what_the_automaton_says_of_each_token("tree")


def test_a_vocabulary_that_cannot_write_a_text_is_refused() -> None:
    with pytest.raises(GrammarError, match="cannot write a text"):
        TokenMasks(from_choices(["yes"]), ByteTrie([b"y", b"e"], 2), [])


def walk(grammar: Grammar, rng: np.random.Generator) -> list[Configuration]:
    """Configurations of random texts."""
    found = [START]
    for _ in range(12):
        at = START
        for _ in range(25):
            classes = np.flatnonzero(grammar.next[at[0]] >= 0)
            behind = grammar.move(at, int(rng.choice(classes))) if len(classes) else None
            if behind is None:
                break
            at = behind
            found.append(at)
    return found
