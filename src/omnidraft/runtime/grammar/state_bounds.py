"""Tokens that complete a text from each state of a grammar. spec/17-grammar.md."""

from collections.abc import Sequence

import numpy as np

from omnidraft.runtime.grammar.byte_trie import ByteTrie
from omnidraft.runtime.grammar.grammar import Grammar

NEVER = (1 << 16) - 1  # where the tokens cannot complete it


def state_bounds(grammar: Grammar, trie: ByteTrie) -> list[int]:
    """Tokens of one way from each state to the end of its text or rule.

    The way is that of the nearest moves. Its tokens are as few as possible, but one ends before a call and
    behind a rule.
    """
    bounds = [NEVER] * len(grammar.closing)
    for state in np.argsort(grammar.closing, kind="stable").tolist():
        if grammar.ends[state]:
            bounds[state] = 0
            continue
        bounds[state] = _bound_of(grammar, trie, state, bounds)
    return bounds


def _bound_of(grammar: Grammar, trie: ByteTrie, state: int, bounds: Sequence[int]) -> int:
    way, at, least, accepting = bytearray(), state, NEVER, grammar.ends
    while len(way) < trie.longest and not accepting[at]:
        byte, to, back = grammar.nearest[at]
        if back >= 0:
            if at != state:
                break
            # the first byte of the rule is written with what follows it in the rule
            return min(NEVER, _rule_bound(grammar, trie, byte, to, bounds) + bounds[back])
        way.append(byte)
        at = to
        if bytes(way) in trie.known:
            least = min(least, 1 + bounds[at])
    return least


def _rule_bound(grammar: Grammar, trie: ByteTrie, first: int, state: int, bounds: Sequence[int]) -> int:
    """As `_bound_of`, of the text of a rule that begins with a byte."""
    way, at, least, accepting = bytearray([first]), state, NEVER, grammar.ends
    while True:
        if bytes(way) in trie.known:
            least = min(least, 1 + bounds[at])
        if len(way) >= trie.longest or accepting[at]:
            return least
        byte, to, back = grammar.nearest[at]
        if back >= 0:
            return least
        way.append(byte)
        at = to
