"""Runners of `tokenize`, `template`, `thought` and `draft_prompt`: bytes, spellings, prompts, templates."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from conformance.vectors import ROOT, Vector
from omnidraft.errors import PromptError
from omnidraft.runtime.chat.output_text import OutputText
from omnidraft.runtime.chat.prompt_template import TRIMMED_ANSWERS, PromptTemplate, SystemSlot, ThinkTags
from omnidraft.runtime.chat.thinking import ThoughtStream, answer_start, kept_start
from omnidraft.runtime.chat.tool_form import read_tool_form
from omnidraft.runtime.decoding.speculate import DecoderState
from omnidraft.runtime.session.conversation import (
    ToolText,
    Turn,
    conversation_ids,
    draft_context,
    given_turn,
)
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
    tokenizer = read(given["tokenizer"])
    think = None if given.get("think") is None else ThinkTags(**given["think"])
    trim = TRIMMED_ANSWERS if given.get("trim") is None else tuple(given["trim"])
    if "given" in given:
        prompt = PromptTemplate("", "", lead=given["lead"], think=think, trim=trim)
        assert given_turn(tokenizer, prompt, "", given["given"]).answer == tuple(expect["ids"])
        return
    names = ("prefix", "suffix", "between", "after", "begin", "lead")
    slot = None if given["slot"] is None else SystemSlot(**given["slot"])
    strings = {name: given[name] for name in names}
    form = None if given.get("tools") is None else read_tool_form(given["tools"])
    template = PromptTemplate(**strings, system=slot, think=think, trim=trim, tools=form)
    turns = [
        Turn(turn["message"], tuple(turn["answer"]), tuple(turn.get("results", ())))
        for turn in given["turns"]
    ]
    asked, tools = Turn(given["message"], results=tuple(given.get("results", ()))), None
    if "listing" in given:
        assert template.tool_form is not None
        tools = ToolText(template.tool_form, given["listing"], template.begin, tokenizer.text_of)
    if "refused" in expect:
        with pytest.raises(PromptError, match=r"single turn|no place for a system prompt"):
            conversation_ids(tokenizer, template, turns, asked, given["system"])
        return
    ids = conversation_ids(tokenizer, template, turns, asked, given["system"], tools)
    assert ids == expect["ids"]


def run_prompt(vector: Vector) -> None:
    if "fault" in vector["expect"]:
        with pytest.raises((KeyError, TypeError, ValueError)):
            read_tool_form(vector["input"]["tools"])
        return
    run_template(vector)


@_with_both
def run_thought(vector: Vector, read: Read) -> None:
    given, expect = vector["input"], vector["expect"]
    tags, inside = ThinkTags(given["open"], given["close"], given["earlier"]), given["inside"]
    if "ids" in given:
        tokenizer = read(given["tokenizer"])
        output = OutputText(tokenizer, tags, lambda i: tokenizer.tokens[i] or b"")
        assert output.kept(given["ids"], inside=inside) == tuple(expect["ids"])
        return
    stream = ThoughtStream(tags, inside=inside)
    parts = [*(stream.push(text) for text in given["texts"]), stream.end()]
    assert [[list(part) for part in each] for each in parts] == expect["parts"]
    output_bytes = "".join(given["texts"]).encode()
    assert answer_start(output_bytes, tags, inside=inside) == expect["answer"]
    assert kept_start(output_bytes, tags, inside=inside) == expect["kept"]


@_with_both
def run_draft_prompt(vector: Vector, read: Read) -> None:
    given = vector["input"]
    target, drafter = read(given["target"]), read(given["drafter"])
    earlier, asked = given["before"], GenerationConfig(mode=given["mode"]).asks_drafter
    drafted = earlier is not None and GenerationConfig(mode=earlier["mode"]).asks_drafter
    before = DecoderState(tokens=earlier["tokens"], context=earlier["context"]) if drafted else None
    context = draft_context(target, drafter, given["prompt"], before) if asked else []
    assert context == vector["expect"]["context"]
