"""Walk every outcome of code that asks a `Chooser`, with the exact probability of each."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.sampler import Law

T = TypeVar("T")


class _Script:
    """A chooser that replays recorded answers, then takes the first open one and remembers the rest."""

    def __init__(self, answers: list[int]) -> None:
        self.answers = answers
        self.asked: list[list[tuple[int, float]]] = []  # the possible answers of each question
        self.probability = 1.0

    def _take(self, options: list[tuple[int, float]]) -> int:
        options = [(answer, weight) for answer, weight in options if weight > 0.0]
        at = len(self.asked)
        which = self.answers[at] if at < len(self.answers) else 0
        self.asked.append(options)
        answer, weight = options[which]
        self.probability *= weight
        return answer

    def accept(self, probability: float) -> bool:
        chance = min(1.0, max(0.0, probability))
        return bool(self._take([(1, chance), (0, 1.0 - chance)]))

    def index(self, weights: npt.NDArray[np.float64]) -> int:
        return self._take(list(enumerate((weights / weights.sum()).tolist())))

    def token(self, law: Law, among: npt.NDArray[np.integer] | None = None) -> int:
        ids = np.arange(law.size, dtype=np.int32) if among is None else among
        weights = law.probability(ids)
        return self._take(list(zip(ids.tolist(), (weights / weights.sum()).tolist(), strict=True)))

    def thinned(self, law: Law, share: Callable[[int], float]) -> int | None:
        """All ways to get nothing are one answer (-1), which keeps the walk short."""
        weights = law.probability(np.arange(law.size, dtype=np.int32))
        weights = weights / weights.sum()
        stands = [min(1.0, max(0.0, share(t))) if w > 0.0 else 0.0 for t, w in enumerate(weights)]
        nothing = float((weights * (1.0 - np.array(stands))).sum())
        token = self._take([(-1, nothing), *enumerate((weights * stands).tolist())])
        return None if token < 0 else token


def outcomes(run: Callable[[_Script], T]) -> Iterator[tuple[T, float]]:
    """Yield (result, probability) for every path of random answers through `run`."""
    answers: list[int] = []
    while True:
        script = _Script(answers)
        result = run(script)
        yield result, script.probability
        answers = (answers + [0] * len(script.asked))[: len(script.asked)]
        while answers and answers[-1] + 1 >= len(script.asked[len(answers) - 1]):
            answers.pop()
        if not answers:
            return
        answers[-1] += 1
