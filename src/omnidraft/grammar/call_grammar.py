"""The grammar of answers that call tools. spec/17-grammar.md, "Tools"."""

import json
import string
from collections.abc import Mapping
from typing import Any

from omnidraft.errors import GrammarError
from omnidraft.grammar.automaton import Automaton
from omnidraft.grammar.budget import Budget
from omnidraft.grammar.compile_grammar import DEPTH, linked, within_work
from omnidraft.grammar.expression import (
    Alternatives,
    Embedded,
    Expression,
    OneOf,
    Repetition,
    choice,
    literal,
    optional,
    sequence,
)
from omnidraft.grammar.json_schema import SchemaCompiler
from omnidraft.runtime.grammar.grammar import Grammar
from omnidraft.runtime.grammar.tool_calls import CallForm


def from_calls(schemas: Mapping[str, Any], form: CallForm, *, free: bool, most: int | None = None) -> Grammar:
    """The texts that call tools.

    Args:
        schemas: the JSON Schema of the arguments by the name of each tool.
        form: how a call is written.
        free: any text may stand before the calls, or in their place.
        most: of calls; None for any number, where the form has several.

    Raises:
        GrammarError: naming the tool, and what is not supported in its schema.
    """
    return within_work(lambda budget, shares: _of_calls(schemas, form, free, most, budget, shares))


def _of_calls(
    schemas: Mapping[str, Any], form: CallForm, free: bool, most: int | None, budget: Budget, shares: bool
) -> Grammar:
    calls, rules, named = list[Expression](), dict[str, Expression](), list[Expression]()
    if form.id_length:
        letter = OneOf(sum(1 << byte for byte in (string.ascii_letters + string.digits).encode()))
        named = [literal(', "id": "'), Repetition(letter, form.id_length, form.id_length), literal('"')]
    for name, schema in schemas.items():
        compiler = SchemaCompiler(schema, "space", budget, shares=shares, name=name)
        try:
            arguments = compiler.compile()
        except GrammarError as error:
            raise type(error)(f"the tool {name}: {error.message}", error.remedy) from None
        rules |= compiler.rules
        begin = f'{{"name": {json.dumps(name)}, "{form.arguments}": '
        calls.append(sequence(literal(begin), arguments, *named, literal("}")))
    call, more = choice(calls), list[Expression]()
    if form.between is not None and most != 1:
        more.append(Repetition(sequence(literal(form.between), call), 0, most and most - 1))
    # What stands before the marker is free text's, and so is the white space that `open` begins with.
    called = sequence(literal(form.open.lstrip() if free else form.open), call, *more, literal(form.close))
    if not free:
        return linked(called, rules, DEPTH, budget)
    marker = form.marker.encode()
    if form.is_whole_answer:
        text = Alternatives((Embedded(_beginning_otherwise(marker)), called))
        return linked(text, rules, DEPTH, budget)
    return linked(sequence(Embedded(without(marker)), optional(called)), rules, DEPTH, budget)


def without(marker: bytes) -> Automaton:
    """All bytes that do not contain a marker (Knuth, Morris and Pratt, 1977)."""
    edges = []
    for held in range(len(marker)):
        row = {}
        for byte in range(256):
            text = marker[:held] + bytes([byte])
            to = next(n for n in range(len(text), -1, -1) if text.endswith(marker[:n]))
            if to < len(marker):
                row[byte] = to
        edges.append(row)
    return Automaton(edges, set(range(len(edges))), [{} for _ in edges])


def _beginning_otherwise(marker: bytes) -> Automaton:
    """All bytes that do not begin with a marker."""
    other = len(marker)
    edges = [{b: i + 1 if b == marker[i] else other for b in range(256)} for i in range(len(marker))]
    del edges[-1][marker[-1]]
    edges.append(dict.fromkeys(range(256), other))
    return Automaton(edges, set(range(len(edges))), [{} for _ in edges])
