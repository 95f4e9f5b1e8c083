"""A grammar: an automaton of bytes with a bounded stack. spec/17-grammar.md.

A configuration is a state and the states to return to. A text belongs to the grammar if its bytes lead from
the start to a configuration without a stack whose state is accepting.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft.errors import GrammarError
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.disk.tensor_file import Tensor, TensorFileError, read_header, read_tensors

FORMAT, FORMAT_VERSION = "omnidraft.grammar", "1"
MOST_BYTES, MOST_HEADER, MOST_STATES, MOST_STACK = 1 << 25, 1 << 14, 1 << 16, 64
_TYPES = {
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
    """

    classes: npt.NDArray[np.uint8]
    next: Ids
    calls: Ids
    accepting: npt.NDArray[np.uint8]
    closing: Ids
    nesting: Ids
    depth: int

    @classmethod
    def load(cls, path: str | Path) -> "Grammar":
        """Read a grammar file.

        Raises:
            GrammarError: it is no grammar file, or its tables contradict each other; `fault` names why.
        """
        try:
            data = read_whole(path, MOST_BYTES)
        except OSError as error:
            raise GrammarError(f"{path} cannot be read: {error.strerror}") from None
        return cls.from_bytes(data, str(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the grammar") -> "Grammar":
        """`load` from the bytes of a file."""
        try:
            metadata, entries, start = read_header(data, MOST_HEADER)
            if (metadata.get("format"), metadata.get("version")) != (FORMAT, FORMAT_VERSION):
                raise GrammarError(f"{name} is no grammar file of version {FORMAT_VERSION}", fault="format")
            tensors = read_tensors(data, entries, start)
            depth = int(metadata.get("depth", ""))
        except TensorFileError as error:
            raise GrammarError(f"{name} is no grammar file: {error}", fault=error.fault) from None
        except ValueError:
            raise GrammarError(f"{name} does not say how deep it nests", fault="format") from None
        return _checked(tensors, depth, name)

    def step(self, at: Configuration, byte: int) -> Configuration | None:
        """The configuration behind one more byte; None where no text goes on so."""
        return self.move(at, int(self.classes[byte]))

    def move(self, at: Configuration, of_byte: int) -> Configuration | None:
        """The configuration behind a byte of a class."""
        state, stack = at
        to = int(self.next[state, of_byte])
        if to < 0:
            return None
        back = self.returns.get((state, of_byte))
        if back is not None:
            if len(stack) + self.nesting[back] > self.depth:
                return None
            stack = (*stack, back)
        if len(stack) + self.nesting[to] > self.depth:
            return None
        while stack and self.accepting[to]:
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

    def matches(self, data: bytes) -> bool:
        """Whether a whole text belongs to the grammar."""
        end = self.read(START, data)
        return end is not None and self.is_complete(end)

    @cached_property
    def returns(self) -> dict[tuple[int, int], int]:
        """The state to return to, by the state and the class of a move that calls a rule."""
        return {(state, of_byte): back for state, of_byte, back in self.calls.tolist()}

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """What a grammar file holds."""
        return {name: getattr(self, name) for name in _TYPES}

    def metadata(self) -> dict[str, str]:
        """The metadata of a grammar file."""
        return {"format": FORMAT, "version": FORMAT_VERSION, "depth": str(self.depth)}


def _checked(tensors: dict[str, Tensor], depth: int, name: str) -> Grammar:
    """The grammar of a file's tensors, whose numbers are in their ranges."""

    def broken(why: str) -> GrammarError:
        return GrammarError(f"{name} is no grammar: {why}", "make it again", fault="tables")

    if {key: tensor.dtype for key, tensor in tensors.items()} != _TYPES:
        raise broken(f"it has the tensors {', '.join(sorted(tensors))[:200]}")
    arrays: dict[str, npt.NDArray[Any]] = {
        key: np.frombuffer(each.data, "u1" if each.dtype == "U8" else "<i4").reshape(each.shape)
        for key, each in tensors.items()
    }
    moves, calls = arrays["next"], arrays["calls"]
    states, classes = moves.shape if moves.ndim == 2 else (0, 0)
    if not 0 < states <= MOST_STATES or not 0 < classes <= 256 or not 0 <= depth <= MOST_STACK:
        raise broken(f"it has {states} states, {classes} classes and depth {depth}")
    shapes = {"classes": (256,), "accepting": (states,), "closing": (states,), "nesting": (states,)}
    if any(arrays[key].shape != shape for key, shape in shapes.items()) or calls.shape[1:] != (3,):
        raise broken("the sizes of its tensors differ")
    if (arrays["classes"] >= classes).any() or (moves < -1).any() or (moves >= states).any():
        raise broken("a move leads out of it")
    if len(calls) and ((calls < 0).any() or (calls.max(axis=0) >= (states, classes, states)).any()):
        raise broken("a call leads out of it")
    if (
        (arrays["accepting"] > 1).any()
        or (arrays["nesting"] < 0).any()
        or (arrays["nesting"] > MOST_STACK).any()
    ):
        raise broken("a state of it is none")
    grammar = Grammar(depth=depth, **arrays)
    _check_closing(grammar, broken)
    return grammar


def _check_closing(grammar: Grammar, broken: Any) -> None:
    """From each state a move or a call leads nearer to the end, so that every text can be completed."""
    closing, nesting, nearer = grammar.closing, grammar.nesting, grammar.accepting.astype(bool)
    if (closing < 0).any() or (closing[nearer] != 0).any() or (nesting[nearer] != 0).any():
        raise broken("its ways to the end are none")
    if nesting[0] > grammar.depth:
        raise broken("no text is shallow enough")
    states, of_byte = np.nonzero(grammar.next >= 0)
    to = grammar.next[states, of_byte]
    plain = np.ones(len(states), bool)
    called = {(int(s), int(c)): int(back) for s, c, back in grammar.calls}
    if len(called) != len(grammar.calls):
        raise broken("a move calls twice")
    if called:
        width = grammar.next.shape[1]
        keys = grammar.calls[:, 0].astype(np.int64) * width + grammar.calls[:, 1]
        plain = ~np.isin(states.astype(np.int64) * width + of_byte, keys)
        for state, of_call, back in grammar.calls.tolist():
            first = int(grammar.next[state, of_call])
            if first < 0:
                raise broken("a call leads nowhere")
            inside = int(closing[first]) + 1 + int(closing[back])
            deep = max(1 + int(nesting[first]), int(nesting[back]))
            nearer[state] |= inside <= closing[state] and deep <= nesting[state]
    good = plain & (closing[to] < closing[states]) & (nesting[to] <= nesting[states])
    nearer[states[good]] = True
    if not nearer.all():
        raise broken(f"state {int(np.flatnonzero(~nearer)[0])} does not lead to the end")
