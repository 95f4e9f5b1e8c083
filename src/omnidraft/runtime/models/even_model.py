"""A model whose logits have the same bits however a text is split into passes: the setting `bitwise`.

Measured for eight kinds of weights on x86-64 with AVX-512: passes of even length compute the same bits for
the same tokens, passes of odd length do not (with AVX2, only passes of one token). So a token is added and
rewound, or at the end of the context the last token is read again. On ARM64 even passes differ, too.
"""

from collections.abc import Sequence

import numpy as np

from omnidraft.runtime.decoding.model import Cancelled, Logits, Model

_LONGEST = 64  # tokens of a pass; longer passes split attention into blocks of queries


class EvenModel:
    """A model that runs another in passes of even length; a single token costs about 1.3 times as much."""

    def __init__(self, model: Model) -> None:
        """
        Args:
            model: with an empty context, and not used elsewhere.
        """
        self._model = model
        self._read: list[int] = []
        self.vocab_size = model.vocab_size
        self.max_length = model.max_length

    @property
    def length(self) -> int:
        """Positions in the context."""
        return len(self._read)

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        count = len(tokens) if num_logits is None else num_logits
        assert 0 < count <= len(tokens) <= self.max_length - self.length, (len(tokens), self.length)
        start, rows = self.length, []
        try:
            for at in range(0, len(tokens), _LONGEST):
                part = tokens[at : at + _LONGEST]
                after = len(tokens) - at - len(part)
                rows.append(self._pass(part, max(0, min(len(part), count - after))))
                if after:
                    rows[-1] = rows[-1].copy()  # the next pass overwrites it
        except Cancelled:
            self.rewind(start)
            raise
        return rows[0] if len(rows) == 1 else np.concatenate(rows)

    def rewind(self, length: int) -> None:
        assert 0 <= length <= self.length, (length, self.length)
        del self._read[length:]
        self._model.rewind(min(length, self._model.length))

    def _pass(self, part: Sequence[int], count: int) -> Logits:
        model, added = self._model, 0
        # A cancelled pass at the end of the context leaves the model one position behind.
        block = [*self._read[model.length :], *part]
        if len(block) % 2 and model.length + len(block) < model.max_length:
            block, added = [*block, block[-1]], 1
        elif len(block) % 2 and model.length:
            model.rewind(model.length - 1)
            block = [self._read[model.length], *block]
        needed = count + added
        even = max(2, needed + needed % 2)  # the pass of the LM head has an even length too
        rows = model.score(block, min(len(block), even))
        self._read += part
        model.rewind(len(self._read))
        end = len(rows) - added
        return rows[end - count : end]
