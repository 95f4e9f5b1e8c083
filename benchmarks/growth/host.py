"""The work of a round outside the models, which cost nothing here: CPU time and memory."""

import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.growth.axis import Row
from benchmarks.growth.free_models import FreePair
from benchmarks.growth.rounds import HOST, milliseconds, seconds_of
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.vocab.ngram_cache import NgramCache

WARM = 8  # rounds that are not counted
TEMPERATURES = {"t0": 0.0, "t1": 1.0}  # by the ends of the names of fields


@dataclass(frozen=True)
class HostCost:
    """What the runtime itself takes in a round.

    Attributes:
        host: median CPU milliseconds of translating, verifying, learning and rewinding.
        outside: median CPU milliseconds of everything but the models: drawing from the drafter's rows, lists
            of the text and the search for copies, too.
        peak: most megabytes that the rounds held, the models' rows apart.
        kept: of them what stays after the rounds: arrays that are kept from round to round, lists and tables
            that grow with the text.
        cache: megabytes of the n-gram cache after the rounds.
        emitted: target tokens a round.
    """

    host: float
    outside: float
    peak: float
    kept: float
    cache: float
    emitted: float


def host_costs(
    pair: FreePair, new_cache: Callable[[], NgramCache], rounds: int, context: int = 1
) -> dict[str, HostCost]:
    """The host work at each of the temperatures, by the ends of the names of fields; each has a new cache."""
    return {
        end: host_cost(pair, new_cache(), temperature, rounds, context)
        for end, temperature in TEMPERATURES.items()
    }


def host_fields(costs: Mapping[str, HostCost], *names: str) -> Row:
    """Fields of a row, such as `host_t0`: the named attributes of all costs."""
    return {f"{name}_{end}": getattr(cost, name) for end, cost in costs.items() for name in names}


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
    return HostCost(host, outside, most / 1e6, kept / 1e6, cache.memory_bytes / 1e6, emitted)


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
            host.append(seconds_of(finished, *HOST))
            emitted += len(finished.emitted)
    return milliseconds(host), milliseconds(outside), emitted / rounds


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
