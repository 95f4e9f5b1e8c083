"""Models of random logits that cost nothing, because their time is known and can be left out."""

import time
from collections.abc import Sequence

import numpy as np

from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.vocab.vocab_map import VocabMap

AGREEMENT = 0.7  # share of proposed tokens that the target favours
SPREADS = {"target": 2.0, "drafter": 5.0}  # standard deviation of the logits
FAVOURED = 30.0  # logit of a favoured token


class FreeModel:
    """A model of random logits whose time is known, so that it can be left out."""

    def __init__(self, width: int, rows: int, agreement: float, spread: float) -> None:
        """
        Args:
            width: of the logits.
            rows: of the longest pass.
            agreement: share of the tokens of a pass that the row before each favours.
            spread: standard deviation of the logits.
        """
        self.vocab_size, self.max_length, self.length = width, 1 << 30, 0
        random = np.random.default_rng(0)
        self._pool = random.standard_normal((rows + 8, width), np.float32) * np.float32(spread)
        self._likes = random.random(1 << 12) < agreement
        self._raised: list[tuple[int, int, np.float32]] = []
        self._rows, self._calls = rows, 0
        self.seconds = 0.0  # of the thread, in `score`

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        """See `Model.score`."""
        started = time.thread_time()
        for row, token, value in self._raised:
            self._pool[row, token] = value
        self._calls += 1
        start, count = self._calls % 8, num_logits or len(tokens)
        assert count <= self._rows, "more rows than the pool has"
        rows: Logits = self._pool[start : start + count]
        self._raised = []
        for i, token in enumerate(tokens[1:count]):
            if self._likes[(self._calls * 8 + i) % len(self._likes)]:
                self._raised.append((start + i, token, self._pool[start + i, token]))
                rows[i, token] = FAVOURED
        self.length += len(tokens)
        self.seconds += time.thread_time() - started
        return rows

    def rewind(self, length: int) -> None:
        """See `Model.rewind`."""
        self.length = length


class FreePair:
    """Target and drafter of random logits for a pair of vocabularies; the drafter favours nothing."""

    def __init__(self, vocab_map: VocabMap, drafted: int, rows: int | None = None) -> None:
        """
        Args:
            vocab_map: of the pair.
            drafted: draft tokens of each round.
            rows: of the longest pass; None where no draft token stands for several target tokens.
        """
        self.target = FreeModel(vocab_map.target_size, rows or drafted + 1, AGREEMENT, SPREADS["target"])
        self.drafter = FreeModel(vocab_map.draft_size, 1, 0.0, SPREADS["drafter"])
        self.drafted = drafted

    @property
    def seconds(self) -> float:
        """Of both models so far."""
        return self.target.seconds + self.drafter.seconds
