"""Which tokens of a target a grammar allows next. spec/17-grammar.md.

A token is allowed if the text behind it can still be completed with the tokens that are left. The bound is
the number of tokens of one way to complete it, so what is allowed can be completed, always. Bytes that the
grammar fixes are written as the target spells them.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from omnidraft.errors import GrammarError
from omnidraft.runtime.grammar.byte_trie import ByteTrie, Ids
from omnidraft.runtime.grammar.grammar import START, Configuration, Grammar
from omnidraft.runtime.grammar.state_bounds import NEVER, state_bounds

CACHED_BYTES = 1 << 26  # of masks that are kept
MOST_FIXED = 1 << 12  # bytes
MOST_CONFIGURATIONS = 1 << 16  # that are numbered before all are forgotten
_FEW = 8  # nodes of a level for each that is looked at alone, which takes longer than one of all
_DEAD, _UNKNOWN = 0, -1  # number of the configuration of no text, and of one that was not looked for


@dataclass(frozen=True, eq=False)
class _Entry:
    """What may follow a configuration.

    Attributes:
        mask: whether each id is allowed with any number of tokens left; shape [width].
        bounds: tokens that complete the text behind each id at most; shape [width].
        spelling: the ids that fixed bytes are written with, shape [width]; None where any may write them.
        most: the largest bound of an allowed id.
        least: the smallest of a token with bytes.
    """

    mask: npt.NDArray[np.bool_]
    bounds: npt.NDArray[np.uint16]
    spelling: npt.NDArray[np.bool_] | None
    most: int
    least: int


class TokenMasks:
    """Masks of one grammar for one target; for one thread."""

    def __init__(
        self,
        grammar: Grammar,
        trie: ByteTrie,
        eos_ids: Collection[int],
        controls: Mapping[int, bytes] = MappingProxyType({}),
        spell: Callable[[bytes], Sequence[int] | None] = lambda _: None,
    ) -> None:
        """
        Args:
            trie: the bytes of the target's tokens.
            eos_ids: end tokens, which are allowed where a text is complete.
            controls: what outputs show of control tokens; one is allowed as the first token of a text that
                begins so.
            spell: the target's own ids of a fragment. By default it has none, and any ids may write it.

        Raises:
            GrammarError: the target's tokens cannot write any text of the grammar.
        """
        self.grammar, self.trie = grammar, trie
        self._eos, self._controls = np.array(sorted(eos_ids), np.int64), controls
        self._spell = spell
        self._begins_shown = any(grammar.read(START, data) is not None for data in controls.values())
        self._state_bounds = state_bounds(grammar, trie)
        self._entries: OrderedDict[Configuration, _Entry] = OrderedDict()
        self._certains: dict[Configuration, tuple[int, int]] = {}
        self._kept = max(1, CACHED_BYTES // (4 * trie.width))
        self._forget()
        if self.bound(START) >= NEVER:
            message = "the target's tokens cannot write a text of the grammar"
            raise GrammarError(message, "allow other characters", fault="vocabulary")

    def bound(self, at: Configuration) -> int:
        """The tokens of one way to complete a text from here; NEVER where the tokens cannot."""
        state, stack = at
        return min(self._state_bounds[state] + sum([self._state_bounds[each] for each in stack]), NEVER)

    def mask(self, at: Configuration, room: int) -> npt.NDArray[np.bool_]:
        """Whether each id may come next, shape [width]; not to be written to.

        Args:
            room: tokens that may still be emitted, this one included, at least 1.
        """
        token, behind = self.certain(at)
        if token >= 0 and behind < room:
            alone = np.zeros(self.trie.width, np.bool_)
            alone[token] = True
            return alone
        entry = self._entry(at)
        if room > entry.most:
            return entry.mask
        fitting = entry.bounds < room
        spelled = fitting if entry.spelling is None else fitting & entry.spelling
        return spelled if spelled.any() else fitting

    def is_last(self, at: Configuration, room: int) -> bool:
        """Whether a text is complete here and no token with bytes may follow.

        Args:
            room: tokens that may still be emitted; with 0, whether none might follow with any room.
        """
        if not self.grammar.is_complete(at):
            return False
        most = min(room or NEVER, NEVER)
        return not (self.grammar.next[at[0]] >= 0).any() or self._entry(at).least >= most

    def _entry(self, at: Configuration) -> _Entry:
        entry = self._entries.get(at)
        if entry is None:
            entry = self._entries[at] = self._computed(at)
            if len(self._entries) > self._kept:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(at)
        return entry

    def behind(self, at: Configuration, token: int, data: bytes) -> Configuration | None:
        """The configuration behind an allowed token; None behind an end token, or one that is not allowed.

        Args:
            data: the bytes of the token.
        """
        if not data:
            is_free = self.grammar.is_free(at)
            if token in self._eos or not (is_free or at == START):
                return None
            data = self._controls.get(token, b"")
            if not data:
                return at if is_free else None  # text without the token's bytes goes on
        return self.grammar.read(at, data)

    def forced(self, at: Configuration) -> bytes:
        """The bytes that every text has next, up to a place where it may end or has a choice."""
        data = bytearray()
        single = self._single_bytes
        while not self.grammar.is_complete(at) and (byte := int(single[at[0]])) >= 0:
            behind = self.grammar.step(at, byte)
            if behind is None or len(data) == MOST_FIXED:
                break
            data.append(byte)
            at = behind
        return bytes(data)

    def spelled(self, at: Configuration) -> Sequence[int]:
        """The target's own ids of the bytes that are fixed next."""
        data = self.forced(at)
        return (self._spell(data) or ()) if data else ()

    def certain(self, at: Configuration) -> tuple[int, int]:
        """The only id that may write the bytes that are fixed next, and the bound behind it.

        The id is -1 where there are more, or no bytes are fixed.
        """
        found = self._certains.get(at)
        if found is None:
            if len(self._certains) > MOST_CONFIGURATIONS:
                self._certains.clear()
            found = self._certains[at] = self._alone(at)
        return found

    def _alone(self, at: Configuration) -> tuple[int, int]:
        spelling = self._spelling(at)
        if spelling is None:
            return -1, 0
        first, beyond = spelling
        if not len(beyond):
            behind = self.grammar.read(at, self.trie.tokens[first] or b"")
            if behind is not None and (bound := self.bound(behind)) < NEVER:
                return first, bound
        entry = self._entry(at)
        token = int(entry.mask.argmax())
        return (token, int(entry.bounds[token])) if np.count_nonzero(entry.mask) == 1 else (-1, 0)

    def _spelling(self, at: Configuration) -> tuple[int, Ids] | None:
        """The first of `spelled`, and the ids that reach beyond the fixed bytes; None where any may be."""
        if at == START and self._begins_shown:
            return None
        ids = self.spelled(at)
        return (ids[0], self.trie.beyond(self.forced(at))) if ids else None

    def _computed(self, at: Configuration) -> _Entry:
        bounds = np.full(self.trie.width, NEVER, np.uint16)
        before = np.array([self._number(at)], np.int32)
        alive = np.zeros(1, np.int64)
        for level in self.trie.levels:
            few = _FEW * len(alive) < len(before)
            below, parents = level.children(alive) if few else (slice(None), level.parents)
            mine, classes = before.take(parents), self.grammar.classes.take(level.bytes[below])
            behind = self._behind(mine, classes)
            if len(behind) and behind.min() < 0:
                self._fill(mine[behind == _UNKNOWN])
                behind = self._behind(mine, classes)
            if isinstance(below, slice):
                before, alive = behind, np.flatnonzero(behind)
            else:
                before, alive = np.zeros(len(level.bytes), np.int32), below[behind != _DEAD]
                before[below] = behind
            if not len(alive):
                break
            bounds[level.tokens] = self._bounds.take(before.take(level.nodes))
        least = int(bounds.min(initial=NEVER))
        if self.grammar.is_complete(at):
            bounds[self._eos] = 0
        if self.grammar.is_free(at):
            bounds[self.trie.silent] = 0
        if at == START or self.grammar.is_free(at):
            for token, data in self._controls.items():
                after = self.grammar.read(at, data)
                bounds[token] = NEVER if after is None else self.bound(after)
        mask, spelling, own = bounds < NEVER, None, self._spelling(at)
        if own is not None:
            spelling = np.zeros_like(mask)
            spelling[own[0]] = spelling[own[1]] = True
            if (mask & spelling).any():
                mask &= spelling
        entry = _Entry(mask, bounds, spelling, int(bounds[mask].max(initial=0)), least)
        if self._count > MOST_CONFIGURATIONS:
            self._forget()
        return entry

    def _behind(
        self, numbers: npt.NDArray[np.int32], classes: npt.NDArray[np.uint8]
    ) -> npt.NDArray[np.int32]:
        """The configurations behind a byte of each class."""
        places = numbers * np.int32(self._moves.shape[1])
        places += classes
        behind: npt.NDArray[np.int32] = self._moves.reshape(-1).take(places)
        return behind

    def _forget(self) -> None:
        """Discard all configuration numbers; number 0 marks bytes that leave the grammar."""
        self._numbers: dict[Configuration, int] = {}
        self._configurations: list[Configuration] = [(0, ())]
        self._count = 1
        self._moves = np.zeros((64, self.grammar.next.shape[1]), np.int32)
        self._bounds = np.full(64, NEVER, np.uint16)

    def _number(self, at: Configuration) -> int:
        number = self._numbers.get(at)
        if number is None:
            number = self._numbers[at] = self._count
            self._configurations.append(at)
            self._count += 1
            if number >= len(self._bounds):
                size = 2 * len(self._bounds)
                self._moves = np.resize(self._moves, (size, self._moves.shape[1]))
                self._bounds = np.resize(self._bounds, size)
            self._moves[number] = _UNKNOWN
            self._bounds[number] = self.bound(at)
        return number

    def _fill(self, numbers: npt.NDArray[np.int32]) -> None:
        """Compute the moves of these configurations where they are not known."""
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            at, row = self._configurations[number], np.full(self._moves.shape[1], _DEAD, np.int32)
            for (to, back), classes in self.grammar.moves(at[0]).items():
                behind = self.grammar.moved(at, to, back)
                if behind is not None:
                    row[classes] = self._number(behind)
            self._moves[number] = row

    @property
    def _single_bytes(self) -> npt.NDArray[np.int32]:
        """The only byte that may follow each state, else -1; shape [states]."""
        if not hasattr(self, "_singles"):
            sizes = np.bincount(self.grammar.classes, minlength=self.grammar.next.shape[1])
            first = np.array([int(np.argmax(self.grammar.classes == c)) for c in range(len(sizes))], np.int32)
            there = self.grammar.next >= 0
            single = (there * sizes).sum(axis=1) == 1
            self._singles = np.where(single, first[there.argmax(axis=1)], -1).astype(np.int32)
        return self._singles
