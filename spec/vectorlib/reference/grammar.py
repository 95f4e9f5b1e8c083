"""A grammar and its file: spec/17-grammar.md."""

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vectorlib.reference.files.safetensors import with_header

Configuration = tuple[int, tuple[int, ...]]  # a state and its stack, the next state to return to last
START: Configuration = (0, ())
Move = int | tuple[int, int]  # the next state; with a call also the state to return to


@dataclass(frozen=True)
class Grammar:
    """The tables of a grammar file."""

    classes: list[int]
    next: list[list[int]]
    calls: list[tuple[int, int, int]]
    accepting: list[int]
    closing: list[int]
    nesting: list[int]
    depth: int
    tools: str = ""

    @classmethod
    def of(
        cls, moves: Sequence[Mapping[str, Move]], accepting: Collection[int], depth: int = 0, order: str = ""
    ) -> "Grammar":
        """The grammar with these moves; the characters of a name are bytes that lead to the same place.

        Args:
            order: bytes whose classes come first, in this order; the others follow by their bytes.
        """
        rows = [{byte: to for name, to in row.items() for byte in name.encode("latin-1")} for row in moves]
        columns = {byte: tuple(row.get(byte, -1) for row in rows) for byte in range(256)}
        first = [*order.encode(), *(byte for byte in range(256) if byte not in order.encode())]
        kinds = list(dict.fromkeys(columns[byte] for byte in first))
        table = [[kind[state] for kind in kinds] for state in range(len(rows))]
        closing, nesting = _ends(rows, accepting)
        return cls(
            [kinds.index(columns[byte]) for byte in range(256)],
            [[to[0] if isinstance(to, tuple) else to for to in row] for row in table],
            [(state, of_byte, to[1]) for state, row in enumerate(table) for of_byte, to in enumerate(row)
             if isinstance(to, tuple)],
            [int(state in accepting) for state in range(len(rows))],
            closing, nesting, depth,
        )  # fmt: skip

    @cached_property
    def returns(self) -> dict[tuple[int, int], int]:
        return {(state, of_byte): back for state, of_byte, back in self.calls}

    def step(self, at: Configuration, byte: int) -> Configuration | None:
        """The configuration behind a byte; None where no text goes on so."""
        (state, stack), of_byte = at, self.classes[byte]
        to, back = self.next[state][of_byte], self.returns.get((state, of_byte))
        if to == -1 or (back is not None and len(stack) + self.nesting[back] > self.depth):
            return None
        stack = stack if back is None else (*stack, back)
        if len(stack) + self.nesting[to] > self.depth:
            return None
        while stack and self.accepting[to]:
            to, stack = stack[-1], stack[:-1]
        return to, stack

    def read(self, at: Configuration | None, data: bytes | None) -> Configuration | None:
        """The configuration behind the bytes of a token; None also for a token that has none."""
        for byte in data or b"":
            at = None if at is None else self.step(at, byte)
        return at if data else None

    def is_complete(self, at: Configuration) -> bool:
        return not at[1] and bool(self.accepting[at[0]])

    def is_free(self, at: Configuration) -> bool:
        """Whether the text may end and any byte may follow."""
        return self.is_complete(at) and min(self.next[at[0]]) >= 0

    def nearest(self, state: int) -> tuple[int, int, int | None]:
        """Byte, next state and state to return to of the nearest move of a state that is not accepting."""
        for of_byte, to in enumerate(self.next[state]):
            back = self.returns.get((state, of_byte))
            if (
                to >= 0
                and self._left(to, back) < self.closing[state]
                and self._deep(to, back) <= self.nesting[state]
            ):
                return self.classes.index(of_byte), to, back
        raise AssertionError(f"state {state} does not lead to the end")

    def _left(self, to: int, back: int | None) -> int:
        return self.closing[to] + (0 if back is None else self.closing[back])

    def _deep(self, to: int, back: int | None) -> int:
        return self.nesting[to] if back is None else max(1 + self.nesting[to], self.nesting[back])

    def fixed(self, at: Configuration) -> bytes:
        """The bytes that every text has next."""
        data = bytearray()
        while len(data) < 4096 and not self.is_complete(at):
            leading = [byte for byte in range(256) if self.next[at[0]][self.classes[byte]] >= 0]
            behind = self.step(at, leading[0]) if len(leading) == 1 else None
            if behind is None:
                break
            data.append(leading[0])
            at = behind
        return bytes(data)

    def file(self, **changes: bytes) -> bytes:
        """The grammar file; changes: other bytes of a field of the header, by the field."""
        shapes = {
            "classes": [256],
            "next": [len(self.next), len(self.next[0])],
            "calls": [len(self.calls), 3],
        }
        header: dict[str, object] = {
            "__metadata__": {"format": "omnidraft.grammar", "version": "1", "depth": str(self.depth)}
        }
        data = b""
        names = ("classes", "next", "calls", "accepting", "closing", "nesting")
        for name in (*names, "tools") if self.tools else names:
            kind = "B" if name in ("classes", "accepting", "tools") else "i"
            values: list[Any] = list(self.tools.encode()) if name == "tools" else getattr(self, name)
            flat = [x for row in values for x in row] if name in ("next", "calls") else values
            start, data = len(data), data + struct.pack(f"<{len(flat)}{kind}", *flat)
            shape = shapes.get(name, [len(values)])
            header[name] = {"dtype": {"B": "U8", "i": "I32"}[kind], "shape": shape,
                            "data_offsets": [start, len(data)]}  # fmt: skip
        return with_header(json.dumps(header | changes, separators=(",", ":")).encode(), data)


def _ends(rows: Sequence[Mapping[int, Move]], accepting: Collection[int]) -> tuple[list[int], list[int]]:
    """`closing` and `nesting` of each state, by shorter and shorter ways until none gets shorter."""
    none = (1 << 20, 1 << 20)
    least = [(0, 0) if state in accepting else none for state in range(len(rows))]  # nesting, closing
    while True:
        before = list(least)
        for state, row in enumerate(rows):
            for move in () if state in accepting else row.values():
                to, back = move if isinstance(move, tuple) else (move, None)
                (deep, left), (deep_back, left_back) = before[to], (0, 0) if back is None else before[back]
                deep = deep if back is None else max(1 + deep, deep_back)
                least[state] = min(least[state], (deep, 1 + left + left_back))
        if least == before:
            assert none not in least, "a state without a way to the end"
            return [left for _, left in least], [deep for deep, _ in least]
