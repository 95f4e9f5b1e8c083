"""The drafter: a small model that guesses on, in its own vocabulary.

Its context is free: whatever it holds changes speed, never the output (method section 2).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from omnidraft.runtime.bundle.head import chance
from omnidraft.runtime.decoding.model import HasHead, Logits, Model
from omnidraft.runtime.decoding.prefill import read
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.sampling import Distribution, Ids, draft_distribution

# Tokens drawn, and the chance that all of them stand -> how many more to draw.
More = Callable[[int, float], int]


@dataclass
class Draft:
    """Draft tokens and the distributions they were drawn from."""

    tokens: list[int] = field(default_factory=list)
    distributions: list[Distribution] = field(default_factory=list)


@dataclass(frozen=True)
class DrafterState:
    """The ids in a drafter's context, which of them were computed alone, and where its window begins."""

    held: list[int]
    alone: list[bool]
    window: int


class Drafter:
    """Keeps a model's KV cache in step with a context that is partly guessed and partly corrected.

    Attributes:
        window: where the part of the context begins that the model can hold.
    """

    def __init__(self, model: Model, start: Sequence[int] = ()) -> None:
        """
        Args:
            model: the small model.
            start: ids that every context begins with (bos).
        """
        self.model = model
        self.start = list(start)
        self._held: list[int] = []  # ids in the model's context
        self._alone: list[bool] = []  # which of them were computed in a pass of their own
        self._due = DrafterState([], [], 0)  # what is to be read again before anything else
        self.window = 0

    def propose(
        self,
        context: Sequence[int],
        count: int,
        temperature: float,
        banned: Ids,
        random: RandomSource,
        more: More | None = None,
    ) -> Draft:
        """Draw `count` tokens that may follow a context of draft ids, or fewer.

        Args:
            context: all draft ids so far, without the start.
            count: tokens to draw, >= 1.
            temperature: of the drafter's distribution; 0 takes the argmax.
            banned: draft ids that may not be drawn.
            random: the source of randomness.
            more: asked where the model has a trained head, each time it has read a drawn token and before
                the next is drawn. Whatever was drawn is in the draft, so the output's distribution is the same.
        """
        draft, stands, confidence = Draft(), 1.0, 1.0
        if not self.start and not context:
            return draft  # nothing to go on from
        count = min(count, self.model.max_length // 2)
        pending = self._sync(context, count)
        most = count
        while (drawn := len(draft.tokens)) < count:
            row = self.model.score(pending, num_logits=1)[-1]
            self._alone += [len(pending) == 1] * len(pending)
            self._held += pending
            says = self.model.acceptance if isinstance(self.model, HasHead) else 1.0
            if drawn and more is not None:
                stands *= chance(says, confidence)
                if stands < 1.0:
                    count = min(most, drawn + more(drawn, stands))
                    if count <= drawn:
                        break
            distribution = draft_distribution(row, temperature, banned)
            token = random.sample(distribution)
            if more is not None and drawn + 1 < count:  # before the next pass writes over the row
                confidence = _confidence(row, token, banned)
            draft.tokens.append(token)
            draft.distributions.append(distribution)
            pending = [token]
        return draft

    def _sync(self, context: Sequence[int], count: int) -> list[int]:
        """Rewind to what the model's context shares with the new one; return the ids it still lacks."""
        room = self.model.max_length - count - len(self.start)
        if len(context) <= room:
            self.window = 0
        elif not 0 < len(context) - self.window <= room:
            # Slide by half a window at once: every slide costs a prefill.
            self.window = len(context) - max(1, room // 2)
        wanted = [*self.start, *context[self.window :]]
        self._read_again(wanted)
        shared = min(common_length(self._held, wanted), len(wanted) - 1)
        self.model.rewind(shared)
        del self._held[shared:], self._alone[shared:]
        return wanted[shared:]

    def state(self) -> "DrafterState":
        """What the model's context holds; with it a restored drafter drafts the same tokens."""
        if self._due.held:
            return self._due
        return DrafterState(list(self._held), self._alone[: len(self._held)], self.window)

    def restore(self, state: "DrafterState") -> None:
        """Fill the model's context as another one's was, before the next draft."""
        self.window, self._due = state.window, state
        self._held, self._alone = [], []

    def forget(self) -> None:
        """Read the whole context again before the next draft: the model is not the one that read it."""
        self._held, self._alone, self._due = [], [], DrafterState([], [], 0)

    def _read_again(self, wanted: list[int]) -> None:
        """Read what is due of a restored context and still wanted."""
        if not self._due.held:
            return
        same = min(common_length(self._due.held, wanted), len(wanted) - 1)
        ids, alone = self._due.held[:same], self._due.alone[:same]
        self.model.rewind(0)
        for _ in read(self.model, ids, alone):
            pass
        self._held, self._alone = ids, alone
        self._due = DrafterState([], [], 0)


class _NoModel:
    """Stands where no drafter was loaded; nothing may ask it anything."""

    max_length = length = 0

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        raise AssertionError("a plain generation asked for a draft")

    def rewind(self, length: int) -> None:
        assert length == 0


def no_drafter(vocab_size: int) -> Drafter:
    """A drafter that holds no weights, for sessions whose every round drafts nothing."""
    return Drafter(_NoModel(vocab_size))


def _confidence(row: Logits, token: int, banned: Ids) -> float:
    """Probability of a token at temperature 1, among those that may be drawn."""
    weights = np.exp(row - row.max())
    weight = float(weights[token])
    total = float(weights.sum()) - float(weights[banned].sum())
    return weight / max(total, weight) if weight > 0.0 else 0.0


def common_length(a: list[int], b: list[int]) -> int:
    """Length of the common prefix; bisects, so that the comparisons run in C."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
