"""A target that repeats one recorded text: greedy speculation is measured without a pass of the real one."""

from collections.abc import Sequence

import numpy as np

from omnidraft.runtime.decoding.model import Logits


class RecordedTarget:
    """The `Model` whose likeliest token at each position is that of a recorded text.

    While the context is the text, these rows have the real target's greedy choices; after a draft token that
    the text does not have, greedy verification reads no further row. So rounds and their tokens are those of
    the real target.
    """

    def __init__(self, text: Sequence[int], vocab_size: int) -> None:
        """
        Args:
            text: prompt and answer in target ids.
        """
        self._text, self.vocab_size, self.length = list(text), vocab_size, 0
        self.max_length = len(text) + 64

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        """1000 at the token of the text, 0 elsewhere; past its end at its last token."""
        self.length += len(tokens)
        count = num_logits or len(tokens)
        rows = np.zeros((count, self.vocab_size), dtype=np.float32)
        for row, position in enumerate(range(self.length - count + 1, self.length + 1)):
            rows[row, self._text[min(position, len(self._text) - 1)]] = 1000.0
        return rows

    def rewind(self, length: int) -> None:
        self.length = min(self.length, length)
