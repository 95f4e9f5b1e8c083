"""The drafter: a small model that guesses, in its own vocabulary.

Its context is free: what the drafter has read changes speed, never the output (method section 2).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.distribution import Distribution, Ids, Workspace
from omnidraft.runtime.decoding.draft_length import MAX_DRAFT_TOKENS, Plan
from omnidraft.runtime.decoding.length_state import confidence_class
from omnidraft.runtime.decoding.model import Logits, Model
from omnidraft.runtime.decoding.prefill import common_length
from omnidraft.runtime.decoding.rng import RandomSource
from omnidraft.runtime.decoding.sampling import LogitsError, draft_distribution

READ_CHUNK = 64  # tokens of a pass that reads a text; a cancellation waits for one pass
Allowed = Callable[[Sequence[int]], npt.NDArray[np.bool_] | None]


@dataclass
class Draft:
    """Draft tokens and the distributions that they were drawn from; or tokens copied from the context.

    Attributes:
        tokens: draft ids; none where the context was copied from.
        distributions: one for each draft token, over the draft vocabulary.
        classes: of each draft token's confidence; none where the plan asks for none.
        unsound: whether the draft ended because the drafter gave logits of which nothing can be drawn: NaN or
            infinity. A damaged adapter or graph does.
    """

    tokens: list[int] = field(default_factory=list)
    distributions: list[Distribution] = field(default_factory=list)
    classes: list[int] = field(default_factory=list)
    copied: list[int] = field(default_factory=list)
    unsound: bool = False


class Drafter:
    """Keeps a model's KV cache in step with a context that is partly guessed and partly corrected."""

    def __init__(self, model: Model, start: Sequence[int] = ()) -> None:
        """
        Args:
            start: ids that every context begins with (bos).
        """
        self.model = model
        self.start = list(start)
        self.workspace = Workspace()  # of a draft, until the next one
        self._cached: list[int] = []  # ids in the model's KV cache

    def propose(
        self,
        context: Sequence[int],
        plan: Plan,
        temperature: float,
        banned: Ids,
        random: RandomSource,
        allowed: Allowed | None = None,
    ) -> Draft:
        """Draw tokens that may follow a context of draft ids.

        Args:
            context: all draft ids so far, without the start.
            plan: how many tokens at most, and where a draft ends that is unlikely to be accepted.
            temperature: of the drafter's distribution; 0 takes the argmax.
            banned: draft ids that may not be drawn.
            allowed: of the drafted ids so far, which may follow them; None ends the draft.
        """
        draft = Draft()
        if not self.start and not context:
            return draft  # nothing to continue
        count, reach = min(plan.count, self.model.max_length // 2), 1.0
        expected = [*self.start, *context[self._window(len(context)) :]]
        pending = self._read(expected) if count else []
        for drawn in range(count):
            mask = None
            if allowed is not None and (mask := allowed(draft.tokens)) is None:
                break
            row = self.model.score(pending, num_logits=1)[-1]
            self._cached += pending
            try:
                use = "draft", drawn
                distribution = draft_distribution(
                    row, temperature, banned, self.workspace, use, mask, bool(plan.chances)
                )
            except LogitsError:  # what was drawn before is right, and the round goes on with it
                draft.unsound = True
                break
            if plan.chances:  # it is the distribution that decides, not the token that is drawn from it
                draft.classes.append(confidence_class(distribution.confidence))
                reach *= plan.chances[draft.classes[-1]]
                if plan.worth and reach < plan.worth[drawn]:
                    break
            token = random.sample(distribution)
            draft.tokens.append(token)
            draft.distributions.append(distribution)
            pending = [token]
            if plan.chances and (drawn + 1 == count or reach < plan.least[drawn]):
                break
        return draft

    def forget(self) -> None:
        """Read the whole context again before the next draft: the KV cache is not of this context."""
        self._cached = []

    def _read(self, expected: list[int]) -> list[int]:
        """Make the KV cache hold the beginning of these ids; return the rest, which one pass can read."""
        read = min(common_length(self._cached, expected), len(expected) - 1)
        self.model.rewind(read)
        del self._cached[read:]
        while len(expected) - read > READ_CHUNK:
            chunk = expected[read : read + READ_CHUNK]
            self.model.score(chunk, num_logits=1)
            self._cached += chunk
            read += READ_CHUNK
        return expected[read:]

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
