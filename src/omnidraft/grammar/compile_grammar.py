"""Grammar files from JSON Schemas, regular expressions and choices."""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, get_args

import numpy as np

from omnidraft.errors import GrammarError
from omnidraft.grammar.automaton import Automaton, compile_expression
from omnidraft.grammar.budget import MOST_WORK, Budget, WorkError
from omnidraft.grammar.expression import Expression, choice, literal, utf8
from omnidraft.grammar.json_schema import SchemaCompiler
from omnidraft.grammar.regex import parse_regex
from omnidraft.runtime.grammar.grammar import MOST_STATES, Grammar

Whitespace = Literal["space", "none", "any"]
WHITESPACES: tuple[Whitespace, ...] = get_args(Whitespace)
DEPTH = 16  # of objects and arrays that contain themselves
MOST_SCHEMA_BYTES, MOST_CHOICES = 1 << 20, 10_000
_MAIN = ""
_FAR = 1 << 30


def from_schema(schema: Any, whitespace: Whitespace = "space", depth: int = DEPTH) -> Grammar:
    """The JSON texts that are valid by a schema; see `json_schema` for which of them.

    Args:
        schema: a JSON Schema as a dict, or a pydantic model.
        whitespace: as `json.dumps` writes ("space"), none, or up to 16 characters anywhere ("any").
        depth: how deep objects and arrays that contain themselves may nest.

    Raises:
        GrammarError: naming what is not supported.
    """
    if hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    try:
        text = json.dumps(schema, allow_nan=False, ensure_ascii=False)
        size, schema = len(text.encode()), json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise GrammarError(f"the schema is no JSON value ({error!s:.80})", "give a JSON Schema") from None
    if size > MOST_SCHEMA_BYTES:
        raise GrammarError(
            f"the schema has {size:,} bytes, at most {MOST_SCHEMA_BYTES:,} are read", "leave out descriptions"
        )

    def compiled(budget: Budget, shares: bool) -> Grammar:
        compiler = SchemaCompiler(schema, whitespace, budget, shares=shares)
        start = compiler.compile()
        return linked(start, compiler.rules, depth, budget)

    return within_work(compiled)


def within_work(compiled: Callable[[Budget, bool], Grammar]) -> Grammar:
    """A grammar with each object where it stands; if that is too much work, with objects as rules.

    Args:
        compiled: makes the grammar within a budget; its second argument is `shares` of `SchemaCompiler`.
    """
    try:
        return compiled(Budget(MOST_WORK // 3), False)
    except WorkError:
        return compiled(Budget(), True)


def from_regex(pattern: str) -> Grammar:
    """The texts that a regular expression matches as a whole.

    Raises:
        GrammarError: naming what is not supported.
    """
    return linked(parse_regex(pattern, utf8, anchored=True), {}, 0, Budget())


def from_choices(choices: Sequence[str]) -> Grammar:
    """One of some texts.

    Raises:
        GrammarError: there is none, an empty one, or too many.
    """
    if not 0 < len(choices) <= MOST_CHOICES or not all(choices):
        raise GrammarError(
            f"there are {len(choices)} choices, or an empty one",
            f"give 1 to {MOST_CHOICES:,} that are not empty",
        )
    return linked(choice(literal(each) for each in choices), {}, 0, Budget())


def file_bytes(grammar: Grammar) -> bytes:
    """The bytes of a grammar file; equal grammars have equal files."""
    header: dict[str, Any] = {"__metadata__": grammar.metadata()}
    parts, at = [], 0
    for name, value in sorted(grammar.tensors().items(), key=lambda each: (-each[1].itemsize, each[0])):
        data = value.tobytes()
        dtype = {1: "U8", 4: "I32"}[value.itemsize]
        header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def linked(start: Expression, rules: Mapping[str, Expression], depth: int, budget: Budget) -> Grammar:
    """One table of the start and all rules, without states from which no text can be completed."""
    parts = {_MAIN: start, **rules}
    automata = {name: compile_expression(part, budget) for name, part in parts.items()}
    nesting = _least(automata, _FAR, lambda to: to, lambda inside, behind: max(1 + inside, behind))
    closing = _closing(automata, nesting)
    if nesting[_MAIN][0] >= _FAR:
        raise GrammarError(
            "the grammar allows no text",
            "leave out constraints that exclude each other, or that are supported in part (docs/generate.md)",
        )
    if nesting[_MAIN][0] > depth:
        raise GrammarError(
            f"the shallowest text nests {nesting[_MAIN][0]} deep, and {depth} is asked for",
            f"ask for a depth of {nesting[_MAIN][0]} or more",
        )
    used = _reachable(automata, nesting)
    numbers = {place: i for i, place in enumerate(used)}
    if len(used) > MOST_STATES:
        raise WorkError(f"the grammar has {len(used):,} states, at most {MOST_STATES:,} are allowed")
    table = np.full((len(used), 256), -1, np.int32)
    calls: list[tuple[int, int, int]] = []
    for (name, state), number in numbers.items():
        for byte, to in automata[name].edges[state].items():
            if (name, to) in numbers:
                table[number, byte] = numbers[name, to]
        for rule, back in automata[name].calls[state].items():
            for byte, to in automata[rule].edges[0].items():
                if (name, back) not in numbers or (rule, to) not in numbers:
                    continue
                if table[number, byte] >= 0:
                    raise GrammarError(
                        "two alternatives of which one contains itself begin alike",
                        "give them different types, or write the one without recursion",
                    )
                table[number, byte] = numbers[rule, to]
                calls.append((number, byte, numbers[name, back]))
    return _table(table, calls, automata, nesting, closing, list(numbers), depth)


def _table(
    table: np.ndarray[Any, np.dtype[np.int32]],
    calls: Sequence[tuple[int, int, int]],
    automata: Mapping[str, Automaton],
    nesting: Mapping[str, list[int]],
    closing: Mapping[str, list[int]],
    used: Sequence[tuple[str, int]],
    depth: int,
) -> Grammar:
    """The grammar of a table by bytes: bytes that lead to the same states everywhere become one class."""
    backs = np.full_like(table, -1)
    for state, byte, back in calls:
        backs[state, byte] = back
    columns = np.ascontiguousarray(np.concatenate([table, backs]).T)
    seen: dict[bytes, int] = {}  # the class by the digest of its column, in the order of the first bytes
    classes = [seen.setdefault(sha256(column).digest(), len(seen)) for column in columns]
    chosen = np.array([classes.index(of_byte) for of_byte in range(len(seen))])
    called = [
        (state, of_byte, int(backs[state, byte]))
        for of_byte, byte in enumerate(chosen.tolist())
        for state in np.flatnonzero(backs[:, byte] >= 0).tolist()
    ]
    return Grammar(
        classes=np.array(classes, np.uint8),
        next=np.ascontiguousarray(table[:, chosen]),
        calls=np.array(sorted(called), np.int32).reshape(-1, 3),
        accepting=np.array([state in automata[name].accepting for name, state in used], np.uint8),
        closing=np.array([closing[name][state] for name, state in used], np.int32),
        nesting=np.array([nesting[name][state] for name, state in used], np.int32),
        depth=depth,
    )


def _least(automata: Mapping[str, Automaton], far: int, step: Any, call: Any) -> dict[str, list[int]]:
    """The least value of a way to the end of its rule, by rule and state; `far` where there is none."""
    least = {name: [far] * len(a.edges) for name, a in automata.items()}
    changed = True
    while changed:
        changed = False
        for name, automaton in automata.items():
            mine = least[name]
            for state in reversed(range(len(mine))):
                ways = [0] if state in automaton.accepting else []
                ways += [step(mine[to]) for to in set(automaton.edges[state].values()) if mine[to] < far]
                ways += [
                    call(least[rule][0], mine[back])
                    for rule, back in automaton.calls[state].items()
                    if least[rule][0] < far and mine[back] < far
                ]
                if ways and min(ways) < mine[state]:
                    mine[state], changed = min(ways), True
    return least


def _closing(automata: Mapping[str, Automaton], nesting: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """The fewest bytes to the end, of the ways that nest least."""
    allowed = {}
    for name, automaton in automata.items():
        mine = nesting[name]
        edges = [
            {byte: to for byte, to in row.items() if mine[to] <= mine[state] < _FAR}
            for state, row in enumerate(automaton.edges)
        ]
        calls = [
            {r: back for r, back in row.items() if max(1 + nesting[r][0], mine[back]) <= mine[state] < _FAR}
            for state, row in enumerate(automaton.calls)
        ]
        allowed[name] = Automaton(edges, automaton.accepting, calls)
    return _least(allowed, _FAR, lambda to: 1 + to, lambda inside, behind: inside + behind)


def _reachable(automata: Mapping[str, Automaton], nesting: Mapping[str, list[int]]) -> list[tuple[str, int]]:
    """The states that a text can be in, in the order in which they are found; a rule's start is in none."""
    found = {(_MAIN, 0): None}
    waiting = [(_MAIN, 0)]
    at = 0
    while at < len(waiting):
        name, state = waiting[at]
        at += 1
        places = [(name, to) for _, to in sorted(automata[name].edges[state].items())]
        for rule, back in sorted(automata[name].calls[state].items()):
            if nesting[rule][0] < _FAR:
                places += [(name, back), *((rule, to) for _, to in sorted(automata[rule].edges[0].items()))]
        for place in places:
            if place not in found and nesting[place[0]][place[1]] < _FAR:
                found[place] = None
                waiting.append(place)
    return waiting
