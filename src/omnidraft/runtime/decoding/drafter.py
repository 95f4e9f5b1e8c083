"""The drafter: a small model that guesses, in its own vocabulary.

Its context is free: what the drafter has read changes speed, never the output (method section 2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from omnidraft.runtime.decoding.distribution import Distribution, Ids
from omnidraft.runtime.decoding.draft_length import MAX_DRAFT_TOKENS, DraftLength
from omnidraft.runtime.decoding.early_stop import survival_of
from omnidraft.runtime.decoding.model import HasHead, Logits, Model
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.sampling import draft_distribution


@dataclass
class Draft:
    """Draft tokens and the distributions that they were drawn from.

    Attributes:
        tokens: draft ids (target ids in mode lookup).
        distributions: one for each token, over the draft vocabulary; none in mode lookup.
    """

    tokens: list[int] = field(default_factory=list)
    distributions: list[Distribution] = field(default_factory=list)


class Drafter:
    """Keeps a model's KV cache in step with a context that is partly guessed and partly corrected."""

    def __init__(self, model: Model, start: Sequence[int] = ()) -> None:
        """
        Args:
            model: the small model.
            start: ids that every context begins with (bos).
        """
        self.model = model
        self.start = list(start)
        self._cached: list[int] = []  # ids in the model's KV cache

    def propose(
        self,
        context: Sequence[int],
        length: DraftLength,
        temperature: float,
        banned: Ids,
        random: RandomSource,
    ) -> Draft:
        """Draw tokens that may follow a context of draft ids.

        Args:
            context: all draft ids so far, without the start.
            length: how many tokens to draw. Where the model has a trained head, `length` is asked again
                each time the model has read a drawn token. Everything drawn is in the draft, so the output's
                distribution is the same.
            temperature: of the drafter's distribution; 0 takes the argmax.
            banned: draft ids that may not be drawn.
            random: the source of randomness.
        """
        draft, survival, confidence = Draft(), 1.0, 1.0
        if not self.start and not context:
            return draft  # nothing to continue
        count = longest = min(length.next(), self.model.max_length // 2)
        pending = self._sync(context) if count else []
        while (drawn := len(draft.tokens)) < count:
            row = self.model.score(pending, num_logits=1)[-1]
            self._cached += pending
            if drawn and length.stops_early:
                acceptance = self.model.acceptance if isinstance(self.model, HasHead) else 1.0
                survival *= survival_of(acceptance, confidence)
                if survival < 1.0:
                    count = min(longest, drawn + length.more(drawn, survival))
                    if count <= drawn:
                        break
            distribution = draft_distribution(row, temperature, banned)
            token = random.sample(distribution)
            if length.stops_early and drawn + 1 < count:  # before the next pass overwrites the row
                confidence = _confidence(row, token, banned)
            draft.tokens.append(token)
            draft.distributions.append(distribution)
            pending = [token]
        return draft

    def forget(self) -> None:
        """Read the whole context again before the next draft: the KV cache is not of this context."""
        self._cached = []

    def _sync(self, context: Sequence[int]) -> list[int]:
        """Rewind to what the KV cache shares with the new context; return the ids that it lacks."""
        expected = [*self.start, *context[self._window(len(context)) :]]
        shared = min(common_length(self._cached, expected), len(expected) - 1)
        self.model.rewind(shared)
        del self._cached[shared:]
        return expected[shared:]

    def _window(self, length: int) -> int:
        """Where the part of a context begins that the model reads: 0 while all of it fits.

        The window moves by half its size at once, because every move costs a prefill. It depends on the
        length alone, so a restored context is read as it was.
        """
        longest = min(MAX_DRAFT_TOKENS, self.model.max_length // 2)
        room = self.model.max_length - len(self.start) - longest
        half = max(1, room // 2)
        return max(0, -(-(length - room) // half) * half)


class _NoModel:
    """Replaces a drafter that was not loaded; a generation that asks it for a draft has a bug."""

    max_length = length = 0

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        raise AssertionError("a plain generation asked for a draft")

    def rewind(self, length: int) -> None:
        assert length == 0


def no_drafter(vocab_size: int) -> Drafter:
    """A drafter without a model, for sessions in which no round drafts."""
    return Drafter(_NoModel(vocab_size))


def _confidence(row: Logits, token: int, banned: Ids) -> float:
    """Probability of a token at temperature 1, among those that may be drawn."""
    weights = np.exp(row - row.max())
    weight = float(weights[token])
    total = float(weights.sum()) - float(weights[banned].sum())
    return weight / max(total, weight) if weight > 0.0 else 0.0


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common prefix; bisects, so that the comparisons run in C."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
