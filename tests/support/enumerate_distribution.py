"""Enumerate every outcome of code that asks a `RandomSource`, with its exact probability."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.runtime.decoding.distribution import Distribution
from omnidraft.runtime.decoding.draft_length import CHANCES, FixedLength, Plan
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import DecoderState
from omnidraft.runtime.decoding.stop import cut_at_eos
from omnidraft.runtime.session.decode import DecoderModels, decode
from omnidraft.runtime.session.modes import Mode, Verification
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.configs import config_of
from support.toy import (
    BAD_ROWS,
    GRAMS,
    ContextModel,
    UnsoundModel,
    processed,
    toy_cache,
    toy_map,
)

T = TypeVar("T")
LENGTH = 3  # tokens whose joint distribution is compared
PROMPT = (0, 3, 1, 0, 3)  # its last two tokens occur before, so that a copy is proposed
UNTOUCHED = SamplingConfig(1.0)
Joint = dict[tuple[int, ...], float]


class _Script:
    """A random source that replays given answers, then takes the first possible one and notes the others."""

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

    def bernoulli(self, probability: float) -> bool:
        chance = min(1.0, max(0.0, probability))
        return bool(self._take([(1, chance), (0, 1.0 - chance)]))

    def categorical(self, weights: npt.NDArray[np.float64]) -> int:
        return self._take(list(enumerate((weights / weights.sum()).tolist())))

    def sample(self, distribution: Distribution, among: npt.NDArray[np.integer] | None = None) -> int:
        ids = np.arange(distribution.size, dtype=np.int32) if among is None else among
        weights = distribution.probability(ids)
        return self._take(list(zip(ids.tolist(), (weights / weights.sum()).tolist(), strict=True)))

    def rejection_sample(self, distribution: Distribution, share: Callable[[int], float]) -> int | None:
        """All ways to get no token are one answer (-1), which keeps the enumeration short."""
        weights = distribution.probability(np.arange(distribution.size, dtype=np.int32))
        weights = weights / weights.sum()
        kept = [min(1.0, max(0.0, share(t))) if w > 0.0 else 0.0 for t, w in enumerate(weights)]
        nothing = float((weights * (1.0 - np.array(kept))).sum())
        token = self._take([(-1, nothing), *enumerate((weights * kept).tolist())])
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


class EndingLength(FixedLength):
    """A fixed number of draft tokens, but a draft ends where the drafter is not confident.

    It ends before a token of half the confidence of that after which it ends.
    """

    def __init__(self, count: int, least: float) -> None:
        super().__init__(count)
        self._least = least

    def next(self, match: int = 0) -> Plan:
        plan = super().next(match)
        worth, least = ([share * self._least] * plan.count for share in (0.5, 1.0))
        return replace(plan, chances=CHANCES, worth=worth, least=least)


@dataclass(frozen=True)
class Case:
    """One generation whose distribution is enumerated."""

    mode: Mode = "trie"
    verification: Verification = "block"
    sampling: SamplingConfig = UNTOUCHED
    seed: int = 3
    count: int = 2
    grams: Sequence[str | int] = tuple(GRAMS)
    most: int = 16
    rounds: int = 1
    prompt: tuple[int, ...] = PROMPT
    swaps: bool = False  # the drafter gets other weights between rounds, as with another adapter
    drafter_length: int = 64  # positions of the drafter; its window slides where the text has more
    resumes: bool = False  # between rounds both models forget all, as after a restore of a session
    least: float = 0.0  # a draft ends early where it is accepted so far with less than this probability
    bad_rows: str = ""  # the drafter gives such rows (see `BAD_ROWS`) after some texts


def distribution_of_output(case: Case, vocab_map: VocabMap | None = None) -> Joint:
    """The distribution of the first tokens, by the real loop, drafter, translator and verifier."""
    vocab_map = vocab_map or toy_map()
    drafter_model = (UnsoundModel if case.bad_rows else ContextModel)(
        2 * case.seed + 1, vocab_map.draft_size, max_length=case.drafter_length
    )
    if isinstance(drafter_model, UnsoundModel):
        drafter_model.spoil = BAD_ROWS[case.bad_rows]
    swapped = ContextModel(2 * case.seed + 101, vocab_map.draft_size)
    target = ContextModel(2 * case.seed, vocab_map.target_size)

    def run(script: _Script) -> tuple[int, ...]:
        drafter_model.rewind(0)
        swapped.rewind(0)
        models = DecoderModels(target, Drafter(drafter_model), toy_cache(vocab_map, case.grams))
        config = config_of(case.mode, case.sampling, case.most, verification=case.verification)
        emitted, text = list[int](), DecoderState()
        length = EndingLength(case.count, case.least) if case.least else FixedLength(case.count)
        text.restart(case.prompt, [0, 3], case.most, cut_at_eos(()))
        loop = decode(models, text, config, length, script)
        for _ in range(case.rounds):
            latest = next(loop, None)
            if latest is None:
                break
            emitted += latest.emitted
            if case.swaps:
                models.drafter.model = swapped if models.drafter.model is drafter_model else drafter_model
                models.drafter.forget()
            if case.resumes:
                text.cached.clear()
                models.drafter.forget()
                loop = decode(models, text, config, length, script)
        return tuple(emitted)

    distribution: Joint = defaultdict(float)
    for emitted, probability in outcomes(run):
        distribution[emitted] += probability
    assert sum(distribution.values()) == pytest.approx(1.0, abs=1e-12)
    return distribution


def total_variation(distribution: Joint, case: Case, vocab_size: int = 10) -> float:
    """Distance to the target's own distribution of LENGTH tokens; the target continues shorter outputs."""
    target = ContextModel(2 * case.seed, vocab_size)

    def go_on(joint: Joint, context: tuple[int, ...], weight: float) -> None:
        if weight <= 0.0:
            return
        if len(context) >= LENGTH:
            joint[context[:LENGTH]] += weight
            return
        before = (*case.prompt, *context)
        for token, chance in enumerate(processed(target.row(before), case.sampling, before)):
            go_on(joint, (*context, token), weight * float(chance))

    actual: Joint = defaultdict(float)
    expected: Joint = defaultdict(float)
    for context, weight in distribution.items():
        go_on(actual, context, weight)
    go_on(expected, (), 1.0)
    return 0.5 * sum(abs(actual[key] - expected[key]) for key in {*actual, *expected})
