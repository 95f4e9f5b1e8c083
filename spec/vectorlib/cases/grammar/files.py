"""Vectors of `grammar/valid` and `grammar/invalid`: grammar files, texts read by them, and each fault."""

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from vectorlib.cases.grammar.grammars import CALLS, EMPTY, GRAMMARS, LISTS, WAY
from vectorlib.reference.files.safetensors import with_header
from vectorlib.reference.grammar import START, Grammar
from vectorlib.writer import VectorWriter, vector

READ: list[tuple[str, str, list[str]]] = [
    ("lists", "the next state to return to is the last that was put on the stack; `-` returns twice at once",
     ["11", "[]", "[1,[1,1]]", "[[-[1],1]]", "[-1,--1]", "{[1]}", "[<1]{[]},1]", "1]", "[1]1", "[,", ""]),
    ("shallow", "a call needs room on the stack for its own state and for what each of both still nests",
     ["[[1]]", "[[[", "[{", "{[", "[<", "[[<", "[-[", "[-["]),
    ("flat", "the stack may hold a list, and not what has to hold one", ["[1]", "[[", "{", "[<", "[-["]),
    ("classes", "bytes of one class lead to the same state", ["zx", "ax", "by", "zy", "c"]),
    ("letters", "a complete text that goes on", ["no", "nono", "on", "no\xff", "n\xff"]),
    ("calls", "a rule that ends where another ends", ["xyabcz", "xyabz", "xyac"]),
    ("empty", "only the empty text", ["", "a"]),
    ("tools", "the tools that the texts call",
     ["<<t", "<t>[", '<t>[{"name": "f", "arguments": {}}]', "<t>]"]),
]  # fmt: skip
Case = tuple[str, str, str, bytes]


def write(writer: VectorWriter) -> None:
    valid = []
    for name, grammar in GRAMMARS.items():
        writer.file(f"grammar/valid/{name}.grammar", grammar.file())
    for name, why, texts in READ:
        given = {"file": f"{name}.grammar", "texts": [text.encode("latin-1").hex() for text in texts]}
        ways = [way(GRAMMARS[name], text.encode("latin-1")) for text in texts]
        complete = [at is not None and GRAMMARS[name].is_complete(at) for *_, at in ways]
        expect = {
            "tools": GRAMMARS[name].tools,
            "depth": GRAMMARS[name].depth,
            "configurations": ways,
            "complete": complete,
        }
        valid.append(vector(name, why, given, expect))
    writer.vectors("grammar/valid", "texts", valid)
    bad = [
        vector(name, why, {"bytes": data.hex()}, {"fault": fault})
        for name, why, fault, data in (*_bytes(), *_metadata(), *_shapes(), *_values())
    ]
    writer.vectors("grammar/invalid", "files", bad)


def way(grammar: Grammar, text: bytes) -> list[Any]:
    """The configurations before, between and behind the bytes of a text, up to the first that is none."""
    found: list[Any] = [START]
    for byte in text:
        found.append(grammar.step(found[-1], byte))
        if found[-1] is None:
            break
    return found


APART = Grammar.of([{"a": 1}, {}, {"b": 1}], {1})  # nothing leads to its last state
GOOD = WAY.file()
HEADER_BYTES = int.from_bytes(GOOD[:8], "little")
HEADER: dict[str, Any] = json.loads(GOOD[8 : 8 + HEADER_BYTES])
TABLES = GOOD[8 + HEADER_BYTES :]


def _with(**changes: Any) -> bytes:
    """The good file with other entries of the header."""
    header = {name: entry for name, entry in (HEADER | changes).items() if entry is not None}
    return with_header(json.dumps(header, separators=(",", ":")).encode(), TABLES)


def _bytes() -> Iterator[Case]:
    yield "empty", "a file of no bytes", "truncated", b""
    yield "cut_header", "cut inside the header", "truncated", GOOD[:100]
    yield "cut", "cut before the last byte", "truncated", GOOD[:-1]
    yield "longer", "a byte after the end", "trailing_bytes", GOOD + b"\0"
    yield "not_json", "a header that is not JSON", "header", struct.pack("<Q", 4) + b"{{{{"
    yield "header_long", "a header of 16,385 bytes", "header", struct.pack("<Q", 16385) + GOOD[8:]
    hole = {**HEADER["nesting"], "data_offsets": [x + 4 for x in HEADER["nesting"]["data_offsets"]]}
    yield "hole", "bytes that belong to no tensor", "layout", _with(nesting=hole)


def _metadata() -> Iterator[Case]:
    good = HEADER["__metadata__"]
    for name, why, fields in (
        ("format", "another format", {"format": "omnidraft.adapter"}),
        ("version_2", "a later version", {"version": "2"}),
        ("depth_absent", "no depth", {"depth": None}),
        ("depth_65", "a depth of more than 64", {"depth": "65"}),
        ("depth_negative", "a depth of less than 0", {"depth": "-1"}),
        ("depth_plus", "a sign is no digit", {"depth": "+1"}),
        ("depth_digits", "three digits", {"depth": "001"}),
        ("depth_arabic", "a digit that is not of ASCII", {"depth": "\u0663"}),
        ("depth_empty", "no digit", {"depth": ""}),
    ):
        data = _with(
            __metadata__={key: value for key, value in {**good, **fields}.items() if value is not None}
        )
        yield name, why, "format", data
    late = _with(__metadata__={**good, "depth": "65"})
    yield "depth_first", "the metadata is checked before the tensors", "format", late + b"\0"


def _shapes() -> Iterator[Case]:
    def entry(name: str, **fields: Any) -> dict[str, Any]:
        return {**HEADER[name], **fields}

    states, classes = HEADER["next"]["shape"]
    extra = {"dtype": "U8", "shape": [0], "data_offsets": [len(TABLES), len(TABLES)]}
    renamed = {name: each for name, each in HEADER.items() if name != "closing"} | {"ends": HEADER["closing"]}
    renamed_file = with_header(json.dumps(renamed).encode(), TABLES)
    for name, why, data in (
        ("extra", "a tensor more", _with(other=extra)),
        ("renamed", "a tensor is absent", renamed_file),
        ("signed_classes", "classes of I8", _with(classes=entry("classes", dtype="I8"))),
        ("unsigned_next", "moves of U32", _with(next=entry("next", dtype="U32"))),
        ("flat_next", "moves in one dimension", _with(next=entry("next", shape=[states * classes]))),
        ("square_classes", "classes in two dimensions", _with(classes=entry("classes", shape=[16, 16]))),
        ("flat_calls", "calls in one dimension", _with(calls=entry("calls", shape=[0]))),
        ("pairs", "calls of two numbers", _with(calls=entry("calls", shape=[0, 2]))),
    ):
        yield name, why, "tables", data
    none = replace(WAY, next=[[]], calls=[], accepting=[1], closing=[0], nesting=[0])
    yield "no_class", "no class", "tables", none.file()
    short = replace(WAY, accepting=WAY.accepting[:-1])
    yield "short_accepting", "accepting of fewer states", "tables", short.file()
    long = replace(WAY, closing=[*WAY.closing, 0])
    yield "long_closing", "closing of more states", "tables", long.file()
    for name, why, data in (
        ("tools_empty", "tools of no bytes", _listed(b"")),
        ("tools_bytes", "tools that are not UTF-8", _listed(b"\xff")),
        ("tools_rows", "tools in two dimensions", _listed(b"abcd", shape=[2, 2])),
        ("tools_signed", "tools of I8", _listed(b"abcd", dtype="I8")),
    ):
        yield name, why, "tables", data
    many = replace(WAY, next=[[*row, *[-1] * 257] for row in WAY.next])
    yield "classes_259", "more than 256 classes", "tables", many.file()


def _listed(tools: bytes, **fields: Any) -> bytes:
    """The good file with tools."""
    at = len(TABLES)
    entry = {"dtype": "U8", "shape": [len(tools)], "data_offsets": [at, at + len(tools)], **fields}
    return with_header(json.dumps({**HEADER, "tools": entry}).encode(), TABLES + tools)


def _changed(values: list[int], at: int, value: int) -> list[int]:
    return [*values[:at], value, *values[at + 1 :]]


def _values() -> Iterator[Case]:
    """One value of a table is wrong. CALLS has the calls (1, y, 5) and (3, b, 6)."""
    first, second = CALLS.calls
    y = first[1]
    moves, states = CALLS.next, len(CALLS.next)

    def to(state: int, of_byte: int, value: int) -> Grammar:
        return replace(CALLS, next=[_changed(row, of_byte, value) if s == state else row
                                    for s, row in enumerate(moves)])  # fmt: skip

    def called(*calls: tuple[int, int, int]) -> Grammar:
        return replace(CALLS, calls=list(calls))

    a = CALLS.classes[ord("a")]
    for name, why, grammar in (
        ("class", "a class that no column has", replace(CALLS, classes=_changed(
            CALLS.classes, 9, len(moves[0])))),
        ("class_unused", "a class without a byte", replace(CALLS, next=[[*row, -1] for row in moves])),
        ("next_high", "a move to a state that is none", to(2, a, states)),
        ("next_low", "a move to -2", to(2, a, -2)),
        ("call_before", "a call in a state of -1", called((-1, y, 5), first, second)),
        ("call_state", "a call in a state that is none", called(first, second, (states, 0, 0))),
        ("call_class", "a call of a class that is none", called((1, len(moves[0]), 5), second)),
        ("call_back", "a state to return to that is none", called(first, (3, second[1], states))),
        ("call_negative", "a state to return to of -1", called(first, (3, second[1], -1))),
        ("call_nowhere", "a call where no move is", called((0, y, 5), first, second)),
        ("call_order", "calls that are not sorted", called(second, first)),
        ("call_twice", "a state and class twice", called(first, first, second)),
        ("accepting_2", "accepting is 0 or 1", replace(CALLS, accepting=_changed(CALLS.accepting, 7, 2))),
        ("closing_negative", "closing is 0 or more", replace(CALLS, closing=_changed(CALLS.closing, 6, -1))),
        ("closing_accepting", "an accepting state ends", replace(EMPTY, closing=[1])),
        ("nesting_negative", "nesting is 0 or more", replace(CALLS, nesting=_changed(CALLS.nesting, 7, -1))),
        ("nesting_accepting", "an accepting state ends", replace(EMPTY, nesting=[1], depth=1)),
        ("nesting_65", "nesting is 64 at most", replace(APART, nesting=[*APART.nesting[:-1], 65])),
        ("too_deep", "no text fits the depth", replace(CALLS, depth=1)),
        ("no_way", "a state whose moves lead to one that is as far", replace(CALLS, closing=_changed(
            CALLS.closing, 0, CALLS.closing[1]))),
        ("no_way_nesting", "a state whose moves nest more", replace(CALLS, nesting=_changed(
            CALLS.nesting, 0, CALLS.nesting[1] - 1))),
        ("no_way_call", "a call counts with what follows it", replace(CALLS, closing=_changed(
            CALLS.closing, 1, CALLS.closing[2] + CALLS.closing[5]))),
        ("no_way_deep", "a call nests one more than its rule", replace(CALLS, nesting=[
            1, 1, *CALLS.nesting[2:]])),
        ("no_way_back", "a call nests what follows it", _behind_nesting()),
    ):  # fmt: skip
        yield name, why, "tables", grammar.file()


def _behind_nesting() -> Grammar:
    """A state with a call says that it nests 1, and the state to return to nests 2."""
    deep = Grammar.of([{"a": (1, 2)}, {"b": 3}, {"c": (4, 5)}, {}, {"d": (1, 5)}, {}], {3, 5}, depth=2)
    assert deep.nesting[0] == 2
    return replace(deep, nesting=_changed(deep.nesting, 0, 1))


assert (LISTS.nesting[7], LISTS.nesting[10], CALLS.nesting[0]) == (1, 2, 2), "what the cases are about"
