"""Runner of `translate`: the walk over the trie, and the longest match."""

from __future__ import annotations

from typing import Any

from conformance.vectors import Vector, cache_of
from omnidraft.runtime.decoding.translator import Decision, Step, translate, translate_longest
from omnidraft.runtime.vocab.trie import Node
from omnidraft.runtime.vocab.vocab_map import VocabMap


def run_translate(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    trie = cache_of(given).trie
    into_target = translate if "decisions" in expect else translate_longest
    proposal = into_target(given["draft"], trie, max_tokens=given["max_tokens"], expand=given["expand"])
    assert (proposal.tokens, proposal.ends, proposal.used) == (
        expect["tokens"],
        expect["ends"],
        expect["used"],
    )
    if "decisions" in expect:
        assert _path(trie.map, proposal.tail) == expect["tail"]
        assert [_as_json(trie.map, d) for d in proposal.decisions] == expect["decisions"]


def _as_json(vocab_map: VocabMap, decision: Decision) -> dict[str, Any]:
    fields: dict[str, Any] = {"step": decision.step.value, "row": decision.row, "draft": decision.draft}
    if decision.step is Step.EXPAND:
        return {**fields, "target_id": decision.target_id}
    fields["path"] = _path(vocab_map, decision.node)
    if decision.excluded is not None:
        fields["excluded"] = _path(vocab_map, decision.excluded)
    return fields


def _path(vocab_map: VocabMap, node: Node | None) -> list[int] | None:
    """The draft tokens that lead to a node."""
    return None if node is None else vocab_map.spell(int(vocab_map.leaves[node.low]))[: node.depth]
