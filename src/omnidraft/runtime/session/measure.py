"""The costs of this device: seconds of a target pass, of a draft token and of the round's own work.

All measurements take turns and each figure is a median, so a disturbance slows all alike. Acceptance belongs
to the pair: few rounds of one prompt say little about it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.placement import CPU_GRAPH
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.length_state import PRIOR_ACCEPTANCE, Costs
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.speculate import DecoderState, Round
from omnidraft.runtime.decoding.stop import cut_at_eos
from omnidraft.runtime.device.device_costs import DeviceCosts, device_costs
from omnidraft.runtime.device.machine import Machine, this_machine
from omnidraft.runtime.models.onnx_session import ENGINE
from omnidraft.runtime.models.threads import threads_for
from omnidraft.runtime.session.decode import DecoderModels, decode
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.vocab.ngram_cache import NgramCache

_DRAFTED = 2
_TURNS, _ROUNDS, _REPEATS = 4, 5, 3  # turns; rounds and repeats of each pass in a turn
_TOKENS = 96  # more than all these rounds can emit
_PASSES = (1, 5, 9, 3, 7, 2, 4, 6, 8)  # tokens of the timed passes; the others follow from the first ones
_PASSES_SHARE = 0.6  # of a turn's time, for passes; the rest is for rounds
_ROUND_PASSES = 2  # a round takes less time than this number of the longest passes
_COMPARED_PASSES, _COMPARED_TOKENS = 16, 512  # first passes of a generation, after at most so long a text
_MOST_RATIO = 2.0
_LEAST_PASSES = 2  # timed before a turn may end early; and one round


def machine_here(
    bundle: Bundle, threads: int | None = None, target_on: str = CPU_GRAPH, drafter_on: str = CPU_GRAPH
) -> Machine:
    """This machine, as costs name it; its arguments are those of `load_bundle`."""
    threads = threads_for(bundle.target.parameters) if threads is None else threads
    return this_machine(ENGINE, threads, target_on, drafter_on)


def known_costs(bundle: Bundle) -> DeviceCosts:
    """The costs that are known of this machine without measuring it, for the dynamic graphs."""
    here, seal = machine_here(bundle), bundle.manifest["seal"]
    return device_costs(seal, bundle.costs, bundle.measured_on, here, "auto", lambda: None)


@dataclass
class Timings:
    """What was measured so far.

    Attributes:
        passes: seconds of target passes by their tokens.
        timed: rounds with a draft before which the drafter had nothing to read.
        longest: seconds of the longest pass of the target.
    """

    passes: dict[int, list[float]] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    timed: list[Round] = field(default_factory=list)
    longest: float = 0.0

    def costs(self, acceptance: float) -> Costs:
        """The costs; passes that were not timed lie on the line between those that were."""
        known = {n: median(seconds) for n, seconds in sorted(self.passes.items())}
        seconds = [_between(known, n) for n in range(1, max(known) + 1)]
        # The pass after a draft takes longer than others: the drafter's weights took the caches.
        after = [r.seconds.target - seconds[min(len(r.proposed), len(seconds) - 1)] for r in self.timed]
        drafts = [
            (r.seconds.draft + max(0.0, more)) / len(r.draft)
            for r, more in zip(self.timed, after, strict=True)
        ]
        rounds = self.timed or self.rounds
        hosts = [r.seconds.translate + r.seconds.verify + r.seconds.learn for r in rounds]
        return Costs(
            # Costs must not fall with n; if they do, it was noise.
            tuple(min(seconds[n:]) for n in range(len(seconds))),
            median(drafts) if drafts else seconds[0],
            median(hosts) if hosts else 0.0,
            acceptance,
        )


def measure_costs(
    models: DecoderModels,
    prompt: Sequence[int],
    draft_prompt: Sequence[int],
    acceptance: float = PRIOR_ACCEPTANCE,
    drafts: bool = True,
) -> Costs:
    """Time target passes over 1 to 9 tokens after a prompt and some real rounds, greedy, in turns.

    The cache of the models is not changed; their KV caches are overwritten.

    Args:
        draft_prompt: the same text in draft ids.
        acceptance: of the pair.
        drafts: whether there is a drafter; without one, a draft token counts as a target pass.
    """
    return _measure(models, prompt, draft_prompt, math.inf, _DRAFTED if drafts else 0).costs(acceptance)


def measure_within(
    models: DecoderModels, prompt: Sequence[int], draft_prompt: Sequence[int], seconds: float
) -> Costs | None:
    """The same in bounded time: nothing begins that would end later, if it takes as long as before.

    Returns:
        None where the time was too short to time two passes and a draft.
    """
    timings = _measure(models, prompt, draft_prompt, seconds)
    if len(timings.passes) < _LEAST_PASSES or not timings.timed:
        return None
    return timings.costs(PRIOR_ACCEPTANCE)


def _measure(
    models: DecoderModels,
    prompt: Sequence[int],
    draft_prompt: Sequence[int],
    seconds: float,
    drafted: int = _DRAFTED,
) -> Timings:
    target, text, timings, clock = models.target, DecoderState(), Timings(), models.clock
    text.restart(prompt, draft_prompt, min(_TOKENS, target.max_length - len(prompt)), cut_at_eos(()))
    trial = DecoderModels(target, models.drafter, NgramCache(models.cache.map), clock)
    loop = decode(trial, text, GenerationConfig(), FixedLength(drafted), SplitMix64(0))
    started = clock()

    def over(turns: float, enough: bool, passes: int) -> bool:
        """Whether more passes would end after all the time, or begin after the turns and there is enough."""
        passed = clock() - started
        return passed + passes * timings.longest >= seconds or (enough and passed >= seconds * turns / _TURNS)

    for turn in range(_TURNS):
        before = prompt[: target.max_length - max(_PASSES)]
        _time_passes(target, before, timings, clock, partial(over, turn + _PASSES_SHARE))
        text.cached.clear()  # the KV cache holds other positions now
        for i in range(_ROUNDS):
            r = None if over(turn + 1, bool(timings.timed), _ROUND_PASSES) else next(loop, None)
            if r is None:
                break
            timings.rounds.append(r)
            if i and r.draft:  # in the first round the drafter reads its context again
                timings.timed.append(r)
    return timings


def _time_passes(
    model: Model,
    prompt: Sequence[int],
    timings: Timings,
    clock: Callable[[], float],
    over: Callable[[bool, int], bool],
) -> None:
    """Append the seconds of passes after a prompt, by their tokens; their ids do not matter."""

    def timed(tokens: Sequence[int]) -> float:
        started = clock()
        model.score(tokens, num_logits=1 if tokens is prompt else None)
        seconds = clock() - started
        timings.longest = max(timings.longest, seconds)
        return seconds

    if over(len(timings.passes) >= _LEAST_PASSES, 1):
        return
    model.rewind(0)
    timed(prompt)
    past = model.length
    for _ in range(_REPEATS):
        for n in _PASSES:
            if over(len(timings.passes) >= _LEAST_PASSES, 1):
                return
            timings.passes.setdefault(n, []).append(timed([prompt[0]] * n))
            model.rewind(past)


def _between(known: dict[int, float], n: int) -> float:
    """The seconds of a pass over n tokens, on the line between the nearest passes that are known."""
    below, above = max(k for k in known if k <= n), min(k for k in known if k >= n)
    if below == above:
        return known[n]
    return known[below] + (known[above] - known[below]) * (n - below) / (above - below)


@dataclass
class CostsWatch:
    """Compares the first passes of a generation with costs of this device.

    Attributes:
        ratios: seconds of each pass, relative to its costs.
    """

    costs: Costs
    ratios: list[float] = field(default_factory=list)

    def are_outdated(self, tokens: int, seconds: float, length: int) -> bool:
        """Count a target pass; whether the passes so far show that they take twice as long as the costs say.

        Args:
            tokens: of the pass.
            length: tokens of the text before it; attention makes the passes of a long text slower.
        """
        if length > _COMPARED_TOKENS or len(self.ratios) == _COMPARED_PASSES:
            return False
        self.ratios.append(seconds / self.costs.pass_seconds(tokens))
        return len(self.ratios) == _COMPARED_PASSES and median(self.ratios) > _MOST_RATIO
