"""A target that repeats its recorded answer, so that greedy counts cost no pass of the real one.

While the context is a prefix of the recorded text, the argmax of a row is the recorded next token. After the
first disagreement a row is arbitrary, because greedy verification does not read it.
"""

from collections.abc import Sequence

import numpy as np

from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.decoding.prefill import common_length


class RecordedTarget:
    """A `Model` that plays one recorded text at a time."""

    def __init__(self, vocab_size: int, max_length: int) -> None:
        self.vocab_size, self.max_length = vocab_size, max_length
        self._text: list[int] = []
        self._context: list[int] = []
        self._logits = np.zeros((max_length, vocab_size), dtype=np.float32)  # touched rows become memory
        self._ones: list[tuple[int, int]] = []

    def play(self, text: Sequence[int]) -> None:
        """Set the text to play: a prompt and its answer, in target ids."""
        self._text, self._context = list(text), []

    @property
    def length(self) -> int:
        return len(self._context)

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        """Rows with a 1 at the recorded next token; zeros after a disagreement or the text's end."""
        count = len(tokens) if num_logits is None else num_logits
        self._context += tokens
        same = common_length(self._context, self._text)
        for at in self._ones:
            self._logits[at] = 0.0
        first = len(self._context) - count
        known = range(first, min(len(self._context), same, len(self._text) - 1))
        self._ones = [(i - first, self._text[i + 1]) for i in known]
        for at in self._ones:
            self._logits[at] = 1.0
        return self._logits[:count]

    def rewind(self, length: int) -> None:
        del self._context[length:]
