"""Runners of `tokenize`, `template` and `draft_prompt`: bytes of ids, spellings, prompts, chat templates."""

from __future__ import annotations

from functools import cache

import pytest

from conformance.vectors import ROOT, Vector
from omnidraft.errors import PromptError
from omnidraft.runtime.bundle.bundle import PromptTemplate
from omnidraft.runtime.session.conversation import EarlierText, Turn, conversation_ids, draft_context
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer import Tokenizer


@cache
def _tokenizer(file: str) -> Tokenizer:
    return LibraryTokenizer.from_file(ROOT / "tokenize" / file)


def run_tokenize(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    tokenizer = _tokenizer(given["tokenizer"])
    if "spell" in given:
        data = bytes.fromhex(given["spell"])
        spelled = tokenizer.spell(data)
        assert spelled == expect["ids"]
        assert tokenizer.text_of(expect["ids"]) == data
    elif "prefix" in given:
        ids = tokenizer.encode_prompt(given["prefix"], given["text"], given["suffix"])
        assert ids == expect["ids"]
        assert tokenizer.text_of(ids).hex() == expect["bytes"]
    else:
        assert [None if b is None else b.hex() for b in tokenizer.tokens] == expect["bytes"]


def run_template(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    template = PromptTemplate(*(given[name] for name in ("prefix", "suffix", "between", "after")))
    turns = [Turn(turn["message"], tuple(turn["answer"])) for turn in given["turns"]]
    if "refused" in expect:
        with pytest.raises(PromptError, match="single turn"):
            conversation_ids(_tokenizer(given["tokenizer"]), template, turns, given["message"])
        return
    ids = conversation_ids(_tokenizer(given["tokenizer"]), template, turns, given["message"])
    assert ids == expect["ids"]


def run_draft_prompt(vector: Vector) -> None:
    given = vector["input"]
    target, drafter = _tokenizer(given["target"]), _tokenizer(given["drafter"])
    before = None if given["before"] is None else EarlierText(**given["before"])
    assert draft_context(target, drafter, given["prompt"], before) == vector["expect"]["context"]
