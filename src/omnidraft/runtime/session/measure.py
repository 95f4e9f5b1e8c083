"""Seconds on this device: what a target pass, a draft token and the round's own work cost.

The machine is rarely quiet, so all take turns, and each figure is the median of its own: what slows one
slows the others, and their ratios stay. How often draft tokens are accepted is counted by the way: what a
bundle says of it was counted on other prompts.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median

from omnidraft.runtime.decoding.costs import PRIOR_ACCEPTANCE, Costs
from omnidraft.runtime.decoding.draft_length import PRIOR_ROUNDS, FixedLength
from omnidraft.runtime.decoding.drafter import DrafterState
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import Pair, Round, Settings, rule_for, speculate
from omnidraft.runtime.vocab.ngram_cache import NgramCache

_DRAFTED = 3
_TURNS, _ROUNDS = 4, 5  # of each turn
_TOKENS = 96  # more than all these rounds can say
_READ = 64  # tokens that the drafter reads at once


def measure_costs(
    pair: Pair,
    prompt: Sequence[int],
    draft_prompt: Sequence[int],
    *,
    believed: float = PRIOR_ACCEPTANCE,
    longest: int = 9,
    repeats: int = 3,
) -> Costs:
    """Time target passes over 1..longest tokens after a prompt and some real rounds, greedy, in turns.

    The pair's cache is not touched; the models' contexts are rewritten. Acceptance is that of the rounds,
    beside what was believed before, which counts as much as a few draft tokens.
    """
    target = pair.target
    room = min(_TOKENS, target.max_length - len(prompt))
    settings = Settings(rule_for("trie", 0.0), SamplingConfig(), room, ())
    trial = Pair(target, pair.drafter, NgramCache(pair.cache.map), pair.clock)
    going = speculate(trial, prompt, draft_prompt, settings, FixedLength(_DRAFTED), SplitMix64(0))
    passes: list[list[float]] = [[] for _ in range(longest)]
    reads, rounds, timed = list[float](), list[Round](), list[Round]()
    for _ in range(_TURNS):
        _time_passes(target, prompt[: target.max_length - longest], passes, repeats, pair.clock)
        trial.held = 0  # the target's context holds other things now
        if draft_prompt:
            reads += _times_to_read(pair, draft_prompt, repeats)
        rounds += (found := list(islice(going, _ROUNDS)))
        timed += [r for r in found[1:] if r.draft]  # the first one reads the drafter's context anew
    # A pass counts as no dearer than a longer one: whatever made it so was the machine.
    seconds = [min(median(taken) for taken in passes[n:]) for n in range(longest)]
    drafts = [r.seconds.draft / len(r.draft) for r in timed]
    hosts = [r.seconds.translate + r.seconds.verify + r.seconds.learn for r in timed]
    tested, passed = sum(r.tested for r in rounds), sum(r.passed for r in rounds)
    acceptance = (PRIOR_ROUNDS * believed + passed) / (PRIOR_ROUNDS + tested)
    return Costs(
        tuple(seconds),
        median(drafts) if drafts else seconds[0],
        median(hosts) if hosts else 0.0,
        median(reads) if reads else 0.0,
        acceptance,
    )


def _times_to_read(pair: Pair, prompt: Sequence[int], repeats: int) -> list[float]:
    """Seconds that the drafter takes to read one token of a text, so many times."""
    model, clock = pair.drafter.model, pair.clock
    ids = [prompt[i % len(prompt)] for i in range(min(_READ, model.max_length))]
    taken = []
    for _ in range(repeats):
        model.rewind(0)
        started = clock()
        model.score(ids, num_logits=1)
        taken.append((clock() - started) / len(ids))
    pair.drafter.restore(DrafterState([], [], 0))  # its context holds none of the text that it thinks it does
    return taken


def _time_passes(
    model: Model,
    prompt: Sequence[int],
    taken: list[list[float]],
    repeats: int,
    clock: Callable[[], float],
) -> None:
    """Note the seconds of passes over 1, 2, ... tokens after a prompt; ids do not change the cost."""
    model.rewind(0)
    model.score(prompt, num_logits=1)
    past = model.length
    for _ in range(repeats):
        for n, seconds in enumerate(taken, 1):
            started = clock()
            model.score([prompt[0]] * n)
            seconds.append(clock() - started)
            model.rewind(past)
