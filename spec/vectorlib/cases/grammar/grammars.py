"""The grammars of the vectors, as the moves of each state."""

from collections.abc import Mapping
from dataclasses import replace

from vectorlib.reference.grammar import Grammar, Move

# Lists of numbers: `[1,[1],-[1]]`. In a list, `-` calls a value whose end is that of the call (V), `{` must
# hold a list (K), and `<list]` must be followed by `{[...]}` (R). 0: start; 1: a number; 9: behind a list.
_LISTS: list[Mapping[str, Move]] = [
    {"1": 1, "[": (2, 9), "{": (7, 9)},
    {"1": 1},
    {"]": 5, "1": 3, "[": (2, 3), "-": (6, 3), "{": (7, 3), "<": (2, 10)},  # A: in a list
    {",": 4, "]": 5},  # B: behind a value
    {"1": 3, "[": (2, 3), "-": (6, 3), "{": (7, 3)},  # C: behind a comma
    {},  # E: a rule ends
    {"1": 5, "-": 6, "[": (2, 5)},  # V
    {"[": (2, 8)},  # K
    {"}": 5},  # L
    {},
    {"{": (7, 3)},  # R
]
LISTS, SHALLOW, FLAT = (Grammar.of(_LISTS, {1, 5, 9}, depth) for depth in (3, 2, 1))
# Two nearest moves, of which the class decides, not the byte; and a class of two bytes.
CLASSES = Grammar.of([{"za": 1, "b": 2}, {"x": 3}, {"y": 3}, {}], {3}, order="zab")
BYTES = Grammar.of([{"b": 1, "az": 2}, {"x": 3}, {"y": 3}, {}], {3}, order="b")
# `no` again and again, and the byte 0xff, which is no UTF-8.
LETTERS = Grammar.of([{"n": 1}, {"o": 2}, {"n": 1, "\xff": 2}], {2})
WAY = Grammar.of([{"a": 1}, {"b": 2}, {"c": 3}, {"d": 4}, {}], {4})
# A call in the middle of the way, and one at its beginning, of a rule with a call at its end.
CALLS = Grammar.of([{"x": 1}, {"y": (2, 5)}, {"a": 3}, {"b": (4, 6)}, {"c": 6}, {"z": 7}, {}, {}], {6, 7}, 2)
OPEN = Grammar.of([{"S": 1}, *({letter: 2 + i} for i, letter in enumerate("LAKEFLAKEO")), {}], {1, 11})
EMPTY = Grammar.of([{}], {0})
# SFLAKE is fixed; then F O, FLAS, FLAKE, O, LAKE in any order; X, and LAKEFO is fixed and the end.
SONG = Grammar.of(
    [
        {"S": 1}, {"F": 2}, {"L": 3}, {"A": 4}, {"K": 5}, {"E": 6},
        {"F": 7, "O": 6, "L": 8, "X": 11},
        {"O": 6, "L": 9}, {"A": 10}, {"A": 10}, {"K": 5, "S": 6},
        {"L": 12}, {"A": 13}, {"K": 14}, {"E": 15}, {"F": 16}, {"O": 17}, {},
    ],
    {17},
)  # fmt: skip
# S, then LA ... KE, inside which F, O and LA ... KE may stand; behind it any number of O.
NEST = Grammar.of(
    [{"S": 1}, {"L": (2, 6)}, {"A": 3}, {"L": (2, 3), "O": 3, "F": 3, "K": 4}, {"E": 5}, {}, {"O": 6}],
    {5, 6},
    depth=2,
)
# S, then FLAKE and two of O, F, S, again and again; each text ends behind the second.
REFRAIN = Grammar.of(
    [{"S": 1}, {"F": 2}, {"L": 3}, {"A": 4}, {"K": 5}, {"E": 6}, {"OFS": 7}, {"SOF": 1}], {1}
)

# S, then O and LAKEFLAKE, which is fixed, again and again; X ends.
CHORUS = Grammar.of(
    [{"S": 1}, {"O": 2, "X": 11}, *({letter: 3 + i} for i, letter in enumerate("LAKEFLAK")), {"E": 1}, {}],
    {11},
)
# S, then FOLA, which is fixed, and KE or O, again and again; X ends. LAKE reaches beyond what is fixed.
VERSE = Grammar.of(
    [{"S": 1}, {"F": 2}, {"O": 3}, {"L": 4}, {"A": 5}, {"K": 6, "O": 1, "X": 7}, {"E": 1}, {}], {7}
)
# Any letters up to X: nothing is fixed.
WORD = Grammar.of([{"FOLAKES": 0, "X": 1}, {}], {1})
# The nearest move is the longer one, because the shorter one calls a rule.
FLATTER = Grammar.of(
    [{"a": (3, 4), "b": 1}, {"c": 2}, {"d": 4}, {"e": 5}, {}, {}], {4, 5}, depth=1, order="a"
)


def _tools() -> Grammar:
    """Any text without `<t>`, and behind it nothing, or one call."""
    every, rest = "".join(map(chr, range(256))), '<t>[{"name": "f", "arguments": {}}]'
    rows: list[Mapping[str, Move]] = []
    for state, letters in enumerate(("<", "<t", "<>")):
        others = "".join(letter for letter in every if letter not in letters)
        rows.append({others: 0, "<": 1, **({letters[1]: state + 1} if state else {})})
    rows += [{letter: 4 + i} for i, letter in enumerate(rest[3:])]
    return replace(Grammar.of([*rows, {}], {0, 1, 2, len(rest)}), tools="the tools, \u3042")


def _clock() -> Grammar:
    """One call of the tool `clock`, in the generic form of 03-bundle.md."""
    before, after = '<tool_call>[{"name": "clock", "arguments": {"utc": ', "}}]</tool_call>"
    rows: list[Mapping[str, Move]] = [{letter: i + 1} for i, letter in enumerate(before)]
    at = len(rows)
    rows += [{"t": at + 1, "f": at + 4}, {"r": at + 2}, {"u": at + 3}, {"e": at + 8}]
    rows += [{letter: at + 5 + i} for i, letter in enumerate("alse")]
    rows += [{letter: at + 9 + i} for i, letter in enumerate(after)]
    schema = '{"type": "object", "properties": {"utc": {"type": "boolean"}}, "required": ["utc"]}'
    tool = (
        f'{{"type": "function", "function": {{"name": "clock", "description": "", "parameters": {schema}}}}}'
    )
    return replace(Grammar.of([*rows, {}], {len(rows)}), tools=tool)


def doubled(times: int) -> Grammar:
    """2 ** (times + 1) - 1 bytes `a`: each rule is an `a` and twice the rule before it."""
    first = [{"a": (2 * i - 1, 2 * i + 2)} if i else {} for i in range(times + 1)]
    again = [{"a": (2 * i - 1, 1)} for i in range(1, times + 1)]
    rules = [row for pair in zip(first, [{}, *again], strict=True) for row in pair]
    return Grammar.of([{"a": 2 * times + 1}, *rules], {1, 2}, depth=times)


GRAMMARS = {
    "lists": LISTS, "shallow": SHALLOW, "flat": FLAT, "classes": CLASSES, "bytes": BYTES, "letters": LETTERS,
    "way": WAY, "calls": CALLS, "open": OPEN, "empty": EMPTY, "song": SONG, "nest": NEST,
    "refrain": REFRAIN, "chorus": CHORUS, "verse": VERSE, "word": WORD,
    "flatter": FLATTER,    "doubled": doubled(12), "too_long": doubled(15),
    "tools": _tools(), "clock": _clock(),
}  # fmt: skip
