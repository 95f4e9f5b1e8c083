"""Runners of `translate`, `tokenize` and `template`."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from conformance.vectors import ROOT, Vector, cache_of
from omnidraft.errors import PromptError
from omnidraft.runtime.bundle.bundle import PromptTemplate
from omnidraft.runtime.decoding.translator import Decision, Step, translate, translate_longest
from omnidraft.runtime.session.conversation import Turn, conversation_ids
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.trie import Node
from omnidraft.runtime.vocab.vocab_map import VocabMap


def run_translate(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    trie = cache_of(given).trie
    turn = translate if "decisions" in expect else translate_longest
    found = turn(given["draft"], trie, max_tokens=given["max_tokens"], expand=given["expand"])
    assert (found.tokens, found.ends, found.used) == (expect["tokens"], expect["ends"], expect["used"])
    if "decisions" in expect:
        assert _path(trie.map, found.tail) == expect["tail"]
        assert [_as_json(trie.map, d) for d in found.decisions] == expect["decisions"]


def _as_json(vocab_map: VocabMap, decision: Decision) -> dict[str, Any]:
    found: dict[str, Any] = {"step": decision.step.value, "row": decision.row, "draft": decision.draft}
    if decision.step is Step.EXPAND:
        return {**found, "target_id": decision.target_id}
    found["path"] = _path(vocab_map, decision.node)
    if decision.excluded is not None:
        found["excluded"] = _path(vocab_map, decision.excluded)
    return found


def _path(vocab_map: VocabMap, node: Node | None) -> list[int] | None:
    """The draft tokens that lead to a node."""
    return None if node is None else vocab_map.spell(int(vocab_map.leaves[node.low]))[: node.depth]


@cache
def _tokenizer(file: str) -> Tokenizer:
    return Tokenizer.from_file(ROOT / "tokenize" / file)


def run_tokenize(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    tokenizer = _tokenizer(given["tokenizer"])
    if "spell" in given:
        data = bytes.fromhex(given["spell"])
        spelled = tokenizer.spell(data)
        assert spelled == expect["ids"]
        assert tokenizer.text_of(expect["ids"]) == data
    elif "prefix" in given:
        found = tokenizer.encode_prompt(given["prefix"], given["text"], given["suffix"])
        assert found == expect["ids"]
        assert tokenizer.text_of(found).hex() == expect["bytes"]
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
    found = conversation_ids(_tokenizer(given["tokenizer"]), template, turns, given["message"])
    assert found == expect["ids"]
