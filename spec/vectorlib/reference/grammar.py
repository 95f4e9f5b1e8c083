"""A grammar, and the tokens that it allows: spec/17-grammar.md."""

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from vectorlib.reference.draft_length import Costs
from vectorlib.reference.files.safetensors import with_header
from vectorlib.reference.random_source import TooClose

INFINITE = 65_535
MOST_FIXED = 64  # tokens
Configuration = tuple[int, tuple[int, ...]]  # a state and its stack, the next state to return to last
START: Configuration = (0, ())
Move = int | tuple[int, int]  # the next state; with a call also the state to return to
Tokens = Sequence[bytes | None]


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


def hexadecimal(tokens: Tokens) -> list[str | None]:
    """The bytes of tokens as vectors have them."""
    return [None if token is None else token.hex() for token in tokens]


class TokenRules:
    """What a grammar allows in a vocabulary; `controls` is what outputs show of control tokens.

    With `spells`, fixed bytes are written as `spelled` writes them.
    """

    def __init__(
        self,
        grammar: Grammar,
        tokens: Tokens,
        eos_ids: Collection[int] = (),
        controls: Mapping[int, bytes] = MappingProxyType({}),
        *,
        spells: bool = True,
    ) -> None:
        self.grammar, self.tokens, self.eos_ids, self.controls = grammar, tokens, eos_ids, controls
        self.spells = spells
        self._longest = max((len(token) for token in tokens if token), default=0)
        self._bounds: dict[int, int] = {}

    def bound(self, at: Configuration) -> int:
        """Tokens of one way to complete the text."""
        return min(INFINITE, sum(self._state_bound(state) for state in (at[0], *at[1])))

    def allowed(self, at: Configuration, room: int) -> set[int]:
        """The ids that may come next, end tokens among them."""
        fitting = self._with_bytes(at, room)
        ends = set(self.eos_ids) if self.grammar.is_complete(at) else set[int]()
        return (fitting & self._own(at)) or fitting | ends

    def certain(self, at: Configuration) -> int | None:
        """The only token that may write the fixed bytes; None where there are more, or none are fixed."""
        alone = self.allowed(at, INFINITE) if self._own(at) else set[int]()
        return min(alone) if len(alone) == 1 else None

    def _own(self, at: Configuration) -> set[int]:
        """The first token of the spelling of the fixed bytes, and the tokens that reach beyond these."""
        data, shown = self.grammar.fixed(at), self.controls.values()
        ids = spelled(data, self.tokens) if self.spells else []
        if not ids or (at == START and any(self.grammar.read(at, each) for each in shown)):
            return set()
        longer = {t for t, each in enumerate(self.tokens) if each and len(each) > len(data)}
        return {ids[0]} | {t for t in longer if (self.tokens[t] or b"").startswith(data)}

    def silent(self, at: Configuration, room: int, width: int) -> set[int]:
        """The ids without bytes, other than end tokens, that may come next."""
        free = self.grammar.is_free(at)
        if not (free or at == START):
            return set()
        shown = {t: self.grammar.read(at, data) for t, data in self.controls.items()}
        fitting = {t for t, to in shown.items() if to is not None and self.bound(to) < min(room, INFINITE)}
        without = {t for t in range(width) if t >= len(self.tokens) or not self.tokens[t]}
        return fitting | (without - self.controls.keys() if free else set())

    def is_last(self, at: Configuration, room: int) -> bool:
        """Whether the text is complete and no token with bytes may follow."""
        return self.grammar.is_complete(at) and not self._with_bytes(at, room or INFINITE)

    def _with_bytes(self, at: Configuration, room: int) -> set[int]:
        behind = {t: self.grammar.read(at, token) for t, token in enumerate(self.tokens)}
        return {t for t, to in behind.items() if to is not None and self.bound(to) < min(room, INFINITE)}

    def _state_bound(self, state: int) -> int:
        if state not in self._bounds:
            self._bounds[state] = 0 if self.grammar.accepting[state] else self._of_way(state)
        return self._bounds[state]

    def _of_way(self, state: int) -> int:
        """The least over the places on the way to which a token leads."""
        grammar = self.grammar
        byte, at, back = grammar.nearest(state)
        way, behind, least = bytes([byte]), 0 if back is None else self._state_bound(back), INFINITE
        while len(way) <= self._longest:
            if way in self.tokens:
                least = min(least, 1 + self._state_bound(at))
            if grammar.accepting[at]:
                break
            byte, at, back = grammar.nearest(at)
            if back is not None:
                break
            way += bytes([byte])
        return min(INFINITE, least + behind)


@dataclass(frozen=True)
class Language:
    """A grammar, and the bytes of the tokens that its texts are written with.

    Attributes:
        file: the name of its file in the vectors.
    """

    file: str
    grammar: Grammar
    target_tokens: Tokens
    draft_tokens: Tokens

    def as_json(self) -> dict[str, object]:
        """The fields of a vector."""
        tokens = {"target_tokens": self.target_tokens, "draft_tokens": self.draft_tokens}
        return {"grammar": self.file, **{name: hexadecimal(each) for name, each in tokens.items()}}


class GrammarText:
    """An output in a grammar, while it is generated.

    Attributes:
        at: where it is.
        is_complete: whether it has ended, for the reason `complete`.
    """

    def __init__(self, language: Language, eos_ids: Collection[int], *, proposes: bool) -> None:
        drafts = TokenRules(language.grammar, language.draft_tokens, spells=False)
        self._rules = TokenRules(language.grammar, language.target_tokens, eos_ids)
        self._drafts = drafts if proposes and drafts.bound(START) < INFINITE else None
        self._proposes, self._tried, self._right = proposes, 10, 9
        self._fixing, self._others = 0, 0  # rounds
        self.at: Configuration = START
        self.is_complete = False

    def fixed(self, costs: Costs | None) -> tuple[list[int], int]:
        """The tokens of the fixed bytes that are proposed, and how many of them are certain.

        All of them are proposed where no costs are given.
        """
        tokens, at = list[int](), self.at
        while self._proposes and len(tokens) < MOST_FIXED and (token := self._rules.certain(at)) is not None:
            tokens.append(token)
            at = self._rules.grammar.read(at, self._rules.tokens[token]) or START
        count = len(tokens)
        if self._proposes:
            tokens += spelled(self._rules.grammar.fixed(at), self._rules.tokens)
        tokens = self.valid(tokens[:MOST_FIXED])
        if costs is None or not tokens:
            return tokens, count
        share = min(1.0, self._right / self._tried)
        seconds = [costs.of_pass(1), *(costs.of_pass(n + 1) + costs.host for n in range(1, len(tokens) + 1))]
        speeds = [
            (count + sum(share**i for i in range(n - count + 1))) / seconds[n]
            for n in range(count, len(tokens) + 1)
        ]
        best = max(speeds)
        if any(0 < best - speed < 1e-9 * best for speed in speeds):
            raise TooClose(f"speeds {speeds}")
        return tokens[: count + speeds.index(best)], count

    def repaid(self, usual: float, *, fixes: bool) -> float:
        """Rounds that the time of reading is spread over; fixes: whether this round proposes fixed tokens."""
        self._fixing += fixes
        self._others += not fixes
        return self._others / self._fixing if self._fixing else usual

    def learn(self, right: int, proposed: int, certain: int) -> None:
        """After a round that proposed fixed tokens: how many of them were right, and how many certain."""
        self._right += max(0, right - certain)
        self._tried += max(0, min(right + 1, proposed) - certain)

    def valid(self, tokens: Sequence[int]) -> list[int]:
        """The first tokens, as far as they stay in the grammar."""
        ends = self._behind(self.at, tokens, self._rules)
        return list(tokens[: len([end for end in ends[1:] if end is not None])])

    def allowed(self, proposed: Sequence[int], room: int) -> list[set[int] | None]:
        """What may follow 0, 1, ... proposed tokens; None: all, since the output ends before."""
        ends = self._behind(self.at, proposed, self._rules)
        rows = [None if end is None else self._rules.allowed(end, room - i) for i, end in enumerate(ends)]
        return [row or None for row in rows]

    def may_draft(self, drafted: Sequence[int], size: int) -> set[int]:
        """Draft ids that may follow drafted ones; size: number of all draft ids."""
        if self._drafts is None:
            return set(range(size))
        end = self._behind(self.at, drafted, self._drafts)[-1]
        return set() if end is None else self._drafts.allowed(end, INFINITE)

    def go_on(self, emitted: list[int], room: int) -> list[int]:
        """The emitted tokens up to the one behind which none follows."""
        for i, end in enumerate(self._behind(self.at, emitted, self._rules)[1:]):
            if end is None:
                return emitted[: i + 1]
            self.at = end
            self.is_complete = self._rules.is_last(end, room - i - 1)
            if self.is_complete:
                return emitted[: i + 1]
        return emitted

    def _behind(
        self, at: Configuration | None, tokens: Sequence[int], rules: TokenRules
    ) -> list[Configuration | None]:
        """The configurations behind 0, 1, ... tokens."""
        ends = [at]
        for token in tokens:
            ends.append(None if ends[-1] is None else rules.grammar.read(ends[-1], rules.tokens[token]))
        return ends


def spelled(data: bytes, tokens: Tokens) -> list[int]:
    """The longest tokens from the left; nothing where they cannot write the bytes."""
    ids = list[int]()
    while data:
        fitting = [t for t, token in enumerate(tokens) if token and data.startswith(token)]
        if not fitting:
            return []
        ids.append(max(fitting, key=lambda t: (len(tokens[t] or b""), -t)))
        data = data[len(tokens[ids[-1]] or b"") :]
    return ids
