"""The work of a round outside the models, which cost nothing here: CPU time and memory."""

import statistics
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.vocab.ngram_cache import NgramCache

AGREEMENT, WARM = 0.7, 8  # share of proposed tokens that the target favours; rounds that are not counted
SPREADS = {"target": 2.0, "drafter": 5.0}  # standard deviation of the logits
FAVOURED = 30.0  # logit of a favoured token


@dataclass(frozen=True)
class HostCost:
    """What the runtime itself takes in a round.

    Attributes:
        host: median CPU milliseconds of translating, verifying, learning and rewinding.
        outside: median CPU milliseconds of everything but the models: drawing from the drafter's rows, lists
            of the text and the search for copies, too.
        peak_megabytes: most memory that the rounds held, the models' rows apart.
        kept_megabytes: of it what stays after the rounds: arrays that are kept from round to round, lists and
            tables that grow with the text.
        emitted: target tokens a round.
    """

    host: float
    outside: float
    peak_megabytes: float
    kept_megabytes: float
    emitted: float


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
    """Two models of random logits for one pair of vocabularies; the drafter's favours nothing."""

    def __init__(self, target_size: int, draft_size: int, drafted: int, rows: int | None = None) -> None:
        """
        Args:
            target_size, draft_size: widths of the logits.
            drafted: draft tokens of each round.
            rows: of the longest pass; None where no draft token stands for several target tokens.
        """
        self.target = FreeModel(target_size, rows or drafted + 1, AGREEMENT, SPREADS["target"])
        self.drafter = FreeModel(draft_size, 1, 0.0, SPREADS["drafter"])
        self.drafted = drafted

    @property
    def seconds(self) -> float:
        """Of both models so far."""
        return self.target.seconds + self.drafter.seconds


def host_cost(
    pair: FreePair, cache: NgramCache, temperature: float, rounds: int, context: int = 1
) -> HostCost:
    """The host work of rounds with a fixed number of draft tokens, from a text of some length on.

    The drafter's context is of the same length. Copies of the text are looked for in each round, as with the
    draft length "auto", and never proposed.

    Args:
        pair: the models.
        cache: n-grams of the pair; the rounds teach it more.
        temperature: of target and drafter.
        rounds: that count.
        context: tokens of the text, at least 1.
    """
    host, outside, emitted = _timed(pair, cache, temperature, rounds, context)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    loop = _rounds(pair, cache, temperature, context)
    for _ in range(1 + WARM):
        next(loop)
    kept, most = (each - before for each in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    return HostCost(host, outside, most / 1e6, kept / 1e6, emitted)


def _timed(
    pair: FreePair, cache: NgramCache, temperature: float, rounds: int, context: int
) -> tuple[float, float, float]:
    """Median milliseconds of host work and of all outside the models, and mean tokens of a round."""
    loop = _rounds(pair, cache, temperature, context)
    host, outside, emitted = list[float](), list[float](), 0
    for number in range(WARM + rounds):
        started, in_models = time.thread_time(), pair.seconds
        finished = next(loop)
        if number >= WARM:
            outside.append(time.thread_time() - started - (pair.seconds - in_models))
            host.append(finished.seconds.translate + finished.seconds.verify + finished.seconds.learn)
            emitted += len(finished.emitted)
    return 1e3 * statistics.median(host), 1e3 * statistics.median(outside), emitted / rounds


def _rounds(pair: FreePair, cache: NgramCache, temperature: float, context: int) -> Iterator[Round]:
    """The rounds of a text without an end."""
    pair.target.length = pair.drafter.length = 0
    random = np.random.default_rng(1)
    prompt = random.integers(pair.target.vocab_size, size=context).tolist()
    draft_prompt = random.integers(pair.drafter.vocab_size, size=context).tolist()
    models = DecoderModels(pair.target, Drafter(pair.drafter), cache, time.thread_time)
    config = GenerationConfig(1 << 30, temperature, verification="token")
    length, source = FixedLength(pair.drafted), SplitMix64(0)
    return decode_prompt(models, prompt, draft_prompt, config, length, source)
