"""Runners of `grammar/valid`, `invalid` and `tokens`, and the constraint of `grammar/generate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pytest

from conformance.vectors import ROOT, Vector
from omnidraft.errors import GrammarError
from omnidraft.runtime.grammar.byte_trie import ByteTrie
from omnidraft.runtime.grammar.constraint import Constraint, DraftSide, Mask
from omnidraft.runtime.grammar.grammar import START, Grammar
from omnidraft.runtime.grammar.grammar_file import load_grammar, read_grammar
from omnidraft.runtime.grammar.token_masks import TokenMasks
from omnidraft.runtime.grammar.tool_calls import CallForm, CallStream

INFINITE = 65535
Tokens = Sequence[bytes | None]


def run_valid_grammar(vector: Vector) -> None:
    grammar, expect = _grammar(vector["input"]["file"]), vector["expect"]
    assert (grammar.depth, grammar.tools) == (expect["depth"], expect["tools"])
    for text, places, is_complete in zip(
        vector["input"]["texts"], expect["configurations"], expect["complete"], strict=True
    ):
        data, found = bytes.fromhex(text), []
        for end in range(len(places)):
            at = grammar.read(START, data[:end])
            found.append(None if at is None else [at[0], list(at[1])])
        assert found == places
        assert grammar.matches(data) == is_complete


def run_invalid_grammar(vector: Vector) -> None:
    with pytest.raises(GrammarError) as caught:
        read_grammar(bytes.fromhex(vector["input"]["bytes"]))
    assert caught.value.fault == vector["expect"]["fault"]


def run_tokens(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    tokens = _tokens(given["tokens"])
    grammar, trie = _grammar(given["file"]), ByteTrie(tokens, given["width"])
    if "fault" in expect:
        with pytest.raises(GrammarError) as caught:
            TokenMasks(grammar, trie, given["eos_ids"])
        assert caught.value.fault == expect["fault"]
        return
    controls = {int(token): bytes.fromhex(data) for token, data in given.get("controls", {}).items()}
    masks = TokenMasks(grammar, trie, given["eos_ids"], controls, lambda data: _spelled(data, tokens))
    for text, place in zip(given["places"], expect["places"], strict=True):
        at = grammar.read(START, bytes.fromhex(text))
        assert at is not None
        bound = masks.bound(at)
        allowed = [
            [room, np.flatnonzero(masks.mask(at, room)).tolist(), masks.is_last(at, room)]
            for room, _, _ in place["allowed"]
        ]
        certain, _ = masks.certain(at)
        found = {"bound": None if bound == INFINITE else bound, "fixed": masks.forced(at).hex(),
                 "certain": None if certain < 0 else certain, "last": masks.is_last(at, 0),
                 "allowed": allowed}  # fmt: skip
        assert found == place, text


def run_calls(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    form = CallForm(**given["form"])
    if "file" in given:
        assert form.fits(_grammar(given["file"])) == (expect["fault"] is None)
        return
    stream = CallStream(form)
    parts = [list(stream.push(text)) for text in given["texts"]]
    assert [*parts, [stream.end(), ""]] == expect["parts"]
    assert form.marker == expect["marker"]
    assert [asdict(call) for call in form.read("".join(given["texts"]))] == expect["calls"]


def constraint_of(given: Vector, draft_allowed: Mask) -> Constraint | None:
    """The constraint of a vector of `generate` that has a grammar."""
    if "grammar" not in given:
        return None
    grammar, proposes = _grammar(given["grammar"]), given["mode"] != "plain"
    tokens, pieces = _tokens(given["target_tokens"]), _tokens(given["draft_tokens"])
    draft = None
    if proposes:
        try:
            masks = TokenMasks(grammar, ByteTrie(pieces, len(pieces)), ())
            draft = DraftSide(masks, draft_allowed, lambda token: pieces[token] or b"")
        except GrammarError:
            draft = None
    trie = ByteTrie(tokens, len(tokens))
    return Constraint(
        TokenMasks(grammar, trie, given["eos_ids"], spell=lambda data: _spelled(data, tokens)),
        lambda token: tokens[token] or b"",
        proposes=proposes,
        draft=draft,
    )


def _spelled(data: bytes, tokens: Tokens) -> list[int] | None:
    """The longest tokens from the left, of equal ones the lowest id."""
    ids, at = [], 0
    while at < len(data):
        fitting = [(-len(token), t) for t, token in enumerate(tokens) if token and data.startswith(token, at)]
        if not fitting:
            return None
        ids.append(min(fitting)[1])
        at += -min(fitting)[0]
    return ids


def _grammar(file: str) -> Grammar:
    return load_grammar(ROOT / "grammar/valid" / file)


def _tokens(given: list[str | None]) -> list[bytes | None]:
    return [None if token is None else bytes.fromhex(token) for token in given]
