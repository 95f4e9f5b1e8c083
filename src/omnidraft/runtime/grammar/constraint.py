"""A text that must belong to a grammar, while it is decoded. spec/17-grammar.md."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.errors import GrammarError
from omnidraft.runtime.grammar.grammar import START, Configuration
from omnidraft.runtime.grammar.token_masks import TokenMasks

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DraftSide:
    """What keeps drafts inside the grammar.

    Attributes:
        masks: of the drafter's tokens.
        allowed: draft ids that the drafter may propose at all; shape [draft vocab].
        bytes_of: the bytes of a draft id.
    """

    masks: TokenMasks
    allowed: Mask
    bytes_of: Callable[[int], bytes]


class Constraint:
    """Where an output is in its grammar, and what may follow.

    The target's distribution at each token is p restricted to the ids that `TokenMasks` allows, before the
    sampling settings are applied.
    """

    def __init__(
        self,
        masks: TokenMasks,
        bytes_of: Callable[[int], bytes],
        *,
        proposes: bool = False,
        draft: DraftSide | None = None,
    ) -> None:
        """
        Args:
            masks: of the target's tokens.
            bytes_of: the bytes of a target id; none for a control token.
            proposes: whether tokens of bytes that the grammar fixes are proposed.
            draft: None where no drafter proposes.
        """
        self.at: Configuration = START
        self.is_complete = False  # the text is complete, and nothing may follow
        self._masks, self._bytes_of, self._proposes, self._draft = masks, bytes_of, proposes, draft

    @property
    def may_end(self) -> bool:
        """Whether the text so far belongs to the grammar."""
        return self._masks.grammar.is_complete(self.at)

    @property
    def masks_drafts(self) -> bool:
        """Whether `draft_mask` may be asked."""
        return self._draft is not None

    def check_room(self, room: int) -> None:
        """
        Args:
            room: tokens that may be emitted.

        Raises:
            GrammarError: they may be too few for any text but the empty one, which has no end token.
        """
        least = self._masks.bound(self.at)
        if least > room:
            raise GrammarError(
                f"the shortest text of the grammar takes up to {least} tokens, and there is room for {room}",
                "raise max_new_tokens, or shorten the prompt",
                fault="room",
            )
        if not self._masks.mask(self.at, room).any():
            raise GrammarError(
                "the only text of the grammar that has room is empty, and the target has no end token",
                "raise max_new_tokens, or use another grammar",
                fault="room",
            )

    def rows(self, proposed: Sequence[int], room: int) -> Callable[[int], Mask | None]:
        """The allowed ids behind 0, 1, ... proposed tokens; None behind tokens that leave or end the text.

        Args:
            room: tokens that may still be emitted before the first of them.
        """
        places: list[Configuration | None] = [self.at]

        def allowed(row: int) -> Mask | None:
            while len(places) <= row:
                before = places[-1]
                token = proposed[len(places) - 1]
                places.append(None if before is None else self._behind(before, token))
            at = places[row]
            mask = None if at is None else self._masks.mask(at, room - row)
            return mask if mask is not None and mask.any() else None

        return allowed

    def fixed(self, most: int) -> tuple[list[int], int]:
        """Tokens of the bytes that the grammar fixes next, and how many of them nothing else may replace.

        Args:
            most: tokens at most.
        """
        if not self._proposes:
            return [], 0
        at, ids = self.at, list[int]()
        while len(ids) < most and (token := self._masks.certain(at)[0]) >= 0:
            ids.append(token)
            behind = self._behind(at, token)
            assert behind is not None
            at = behind
        certain = len(ids)
        return list(self.valid_start((ids + list(self._masks.spelled(at)))[:most])), certain

    def certain(self, proposed: Sequence[int], room: int) -> int:
        """How many of the first proposed tokens are the only ones that may stand there.

        Args:
            room: tokens that may still be emitted before the first of them.
        """
        at = self.at
        for i, token in enumerate(proposed):
            alone, bound = self._masks.certain(at)
            behind = self._behind(at, token) if token == alone and bound < room - i else None
            if behind is None:
                return i
            at = behind
        return len(proposed)

    def valid_start(self, tokens: Sequence[int]) -> Sequence[int]:
        """The first of some tokens, as many as stay in the grammar."""
        at: Configuration | None = self.at
        for i, token in enumerate(tokens):
            at = self._behind(at, token)
            if at is None:
                return tokens[:i]
        return tokens

    def draft_mask(self, drafted: Sequence[int]) -> Mask | None:
        """The draft ids that may follow a draft; None where none may."""
        assert self._draft is not None
        at: Configuration | None = self.at
        for token in drafted:
            at = None if at is None else self._draft.masks.grammar.read(at, self._draft.bytes_of(token))
        if at is None:
            return None
        mask = self._draft.masks.mask(at, 1 << 30) & self._draft.allowed
        return mask if mask.any() else None

    def advance(self, emitted: list[int], room: int) -> tuple[list[int], bool]:
        """Go on behind emitted tokens.

        Args:
            room: tokens that might be emitted before the first of them.

        Returns:
            the tokens up to the one behind which no other may follow, and whether there is such a one.
        """
        for i, token in enumerate(emitted):
            behind = self._behind(self.at, token)
            if behind is None:  # an end token
                return emitted[: i + 1], True
            self.at = behind
            self.is_complete = self._masks.is_last(behind, room - i - 1)
            if self.is_complete:
                return emitted[: i + 1], True
        return emitted, False

    def _behind(self, at: Configuration | None, token: int) -> Configuration | None:
        if at is None:
            return None
        return self._masks.behind(at, token, self._bytes_of(token))
