"""Runners of `tokenize`, `template` and `draft_prompt`: bytes of ids, spellings, prompts, chat templates."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from conformance.vectors import ROOT, Vector
from omnidraft.errors import PromptError
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.session.conversation import EarlierText, Turn, conversation_ids, draft_context
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.vocab.compiled_tokenizer import CompiledTokenizer
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer import Tokenizer

Read = Callable[[str], Tokenizer]


@cache
def _library(file: str) -> Tokenizer:
    return LibraryTokenizer.from_file(ROOT / "tokenize" / file)


@cache
def _compiled(file: str) -> Tokenizer:
    return CompiledTokenizer.from_file((ROOT / "tokenize" / file).with_suffix(".bin"))


def _with_both(run: Callable[[Vector, Read], None]) -> Callable[[Vector], None]:
    """A runner that reads each tokenizer.json, and then the compiled file beside it."""

    def both(vector: Vector) -> None:
        run(vector, _library)
        run(vector, _compiled)

    return both


@_with_both
def run_tokenize(vector: Vector, read: Read) -> None:
    given, expect = vector["input"], vector["expect"]
    tokenizer = read(given["tokenizer"])
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


@_with_both
def run_template(vector: Vector, read: Read) -> None:
    given, expect = vector["input"], vector["expect"]
    template = PromptTemplate(*(given[name] for name in ("prefix", "suffix", "between", "after")))
    turns = [Turn(turn["message"], tuple(turn["answer"])) for turn in given["turns"]]
    if "refused" in expect:
        with pytest.raises(PromptError, match="single turn"):
            conversation_ids(read(given["tokenizer"]), template, turns, given["message"])
        return
    ids = conversation_ids(read(given["tokenizer"]), template, turns, given["message"])
    assert ids == expect["ids"]


@_with_both
def run_draft_prompt(vector: Vector, read: Read) -> None:
    given = vector["input"]
    target, drafter = read(given["target"]), read(given["drafter"])
    before = None if given["before"] is None else EarlierText(**given["before"])
    asked = GenerationConfig(mode=given["mode"]).asks_drafter
    context = draft_context(target, drafter, given["prompt"], before) if asked else []
    assert context == vector["expect"]["context"]
