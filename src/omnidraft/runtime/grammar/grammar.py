"""A grammar: an automaton of bytes with a bounded stack. spec/17-grammar.md.

A configuration is a state and the states to return to. A text belongs to the grammar if its bytes lead from
the start to a configuration without a stack whose state is accepting.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

FORMAT, FORMAT_VERSION = "omnidraft.grammar", "1"
MOST_STATES, MOST_STACK = 1 << 16, 64
TYPES = {
    "classes": "U8",
    "next": "I32",
    "calls": "I32",
    "accepting": "U8",
    "closing": "I32",
    "nesting": "I32",
}

Ids = npt.NDArray[np.int32]
Configuration = tuple[int, tuple[int, ...]]  # a state, and the states to return to, the next one last
START: Configuration = (0, ())


@dataclass(frozen=True, eq=False)
class Grammar:
    """The tables of a grammar; state 0 is the start.

    Attributes:
        classes: the class of each byte; bytes of one class lead to the same states; shape [256].
        next: the next state by state and class, -1 for none; shape [states, classes].
        calls: (state, class, state to return to) of the moves that call a rule, sorted; shape [calls, 3].
        accepting: 1 where a text or a rule may end; a rule's last state has no move; shape [states].
        closing: the fewest bytes from each state to the end of its text or rule, of those ways that nest
            least; shape [states].
        nesting: how much deeper the stack gets on that way; shape [states].
        depth: how deep the stack may get.
        tools: that the texts call, as a prompt lists them; empty for other grammars.
    """

    classes: npt.NDArray[np.uint8]
    next: Ids
    calls: Ids
    accepting: npt.NDArray[np.uint8]
    closing: Ids
    nesting: Ids
    depth: int
    tools: str = ""

    def step(self, at: Configuration, byte: int) -> Configuration | None:
        """The configuration behind one more byte; None where no text goes on so."""
        return self.move(at, int(self.classes[byte]))

    def move(self, at: Configuration, of_byte: int) -> Configuration | None:
        """The configuration behind a byte of a class."""
        to = int(self.next[at[0], of_byte])
        return None if to < 0 else self.moved(at, to, self.returns.get((at[0], of_byte), -1))

    def moved(self, at: Configuration, to: int, back: int) -> Configuration | None:
        """The configuration behind a move to a state, which calls a rule unless `back` is -1."""
        stack = at[1]
        if back >= 0:
            if len(stack) + self._nestings[back] > self.depth:
                return None
            stack = (*stack, back)
        if len(stack) + self._nestings[to] > self.depth:
            return None
        while stack and self.ends[to]:
            to, stack = stack[-1], stack[:-1]
        return to, stack

    def read(self, at: Configuration, data: bytes) -> Configuration | None:
        """The configuration behind some bytes."""
        found: Configuration | None = at
        for byte in data:
            if found is None:
                return None
            found = self.step(found, byte)
        return found

    def is_complete(self, at: Configuration) -> bool:
        """Whether a text may end here."""
        return not at[1] and bool(self.accepting[at[0]])

    def is_free(self, at: Configuration) -> bool:
        """Whether a text may end here and any byte may follow: the text is no business of the grammar yet."""
        return self.is_complete(at) and bool((self.next[at[0]] >= 0).all())

    def matches(self, data: bytes) -> bool:
        """Whether a whole text belongs to the grammar."""
        end = self.read(START, data)
        return end is not None and self.is_complete(end)

    @cached_property
    def returns(self) -> dict[tuple[int, int], int]:
        """The state to return to, by the state and the class of a move that calls a rule."""
        return {(state, of_byte): back for state, of_byte, back in self.calls.tolist()}

    def moves(self, state: int) -> dict[tuple[int, int], list[int]]:
        """The classes of the moves of a state, by the next state and the state to return to or -1."""
        found: dict[tuple[int, int], list[int]] = {}
        for of_byte, to in enumerate(self.next[state].tolist()):
            if to >= 0:
                back = self.returns.get((state, of_byte), -1) if state in self._calling else -1
                found.setdefault((to, back), []).append(of_byte)
        return found

    @cached_property
    def _calling(self) -> set[int]:
        return {state for state, _ in self.returns}

    @cached_property
    def _nestings(self) -> list[int]:
        nestings: list[int] = self.nesting.tolist()
        return nestings

    @cached_property
    def ends(self) -> list[bool]:
        """Whether each state is accepting."""
        return [each != 0 for each in self.accepting.tolist()]

    @cached_property
    def nearest(self) -> list[tuple[int, int, int]]:
        """The nearest move of each state: its byte, the next state, and the state to return to or -1.

        In an accepting state, which needs none, it is any.
        """
        to = np.maximum(self.next, 0)
        left, deep = self.closing[to].astype(np.int64), self.nesting[to]
        back = np.full_like(self.next, -1)
        if len(self.calls):
            state, of_byte, behind = self.calls.T
            back[state, of_byte] = behind
            left[state, of_byte] += self.closing[behind]
            deep[state, of_byte] = np.maximum(1 + deep[state, of_byte], self.nesting[behind])
        nearer = (self.next >= 0) & (left < self.closing[:, None]) & (deep <= self.nesting[:, None])
        chosen, states = nearer.argmax(axis=1), np.arange(len(nearer))
        lowest = np.array([int(np.argmax(self.classes == c)) for c in range(nearer.shape[1])])
        moves = (lowest[chosen], self.next[states, chosen], back[states, chosen])
        return list(zip(*(each.tolist() for each in moves), strict=True))

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """What a grammar file holds."""
        listed = {"tools": np.frombuffer(self.tools.encode(), np.uint8)} if self.tools else {}
        return {name: getattr(self, name) for name in TYPES} | listed

    def metadata(self) -> dict[str, str]:
        """The metadata of a grammar file."""
        return {"format": FORMAT, "version": FORMAT_VERSION, "depth": str(self.depth)}
