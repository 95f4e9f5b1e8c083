"""Seconds on this device: what a target pass, a draft token and the round's own work cost.

The machine is rarely quiet, so each figure is the fastest of several, not their mean. How often draft tokens
are accepted is counted by the way: what a bundle says of it was counted on other prompts.
"""

import time
from collections.abc import Sequence

from omnidraft.runtime.costs import PRIOR_ACCEPTANCE, Costs
from omnidraft.runtime.draft_length import PRIOR_ROUNDS, FixedLength
from omnidraft.runtime.drafter import DrafterState
from omnidraft.runtime.model import Model
from omnidraft.runtime.ngram_cache import NgramCache
from omnidraft.runtime.rng import SplitMix64
from omnidraft.runtime.round import Pair, Settings, rule_for, speculate
from omnidraft.runtime.sampler import Sampling

_DRAFTED = 3
_ROUNDS = 24
_READ = 64  # tokens that the drafter reads at once


def measure_costs(
    pair: Pair,
    prompt: Sequence[int],
    draft_prompt: Sequence[int],
    *,
    believed: float = PRIOR_ACCEPTANCE,
    longest: int = 9,
    repeats: int = 9,
) -> Costs:
    """Time target passes over 1..longest tokens after a prompt, then some real rounds, greedy.

    The pair's cache is not touched; the models' contexts are rewritten. Acceptance is that of the rounds,
    beside what was believed before, which counts as much as a few draft tokens.
    """
    target = pair.target
    passes = _fastest_passes(target, prompt[: target.max_length - longest], longest, repeats)
    settings = Settings(rule_for("trie", 0.0), Sampling(), min(_ROUNDS, target.max_length - len(prompt)), ())
    trial = Pair(target, pair.drafter, NgramCache(pair.cache.map), pair.clock)
    rounds = list(speculate(trial, prompt, draft_prompt, settings, FixedLength(_DRAFTED), SplitMix64(0)))
    # The first round fills the drafter's context, the last may be cut short by the limit.
    drafts = [r.seconds.draft / len(r.draft) for r in rounds[1:] if r.draft]
    hosts = [r.seconds.translate + r.seconds.verify + r.seconds.learn for r in rounds[1:] if r.draft]
    read = _seconds_to_read(pair, draft_prompt, repeats) if draft_prompt else 0.0
    tested, passed = sum(r.tested for r in rounds), sum(r.passed for r in rounds)
    acceptance = (PRIOR_ROUNDS * believed + passed) / (PRIOR_ROUNDS + tested)
    return Costs(tuple(passes), min(drafts, default=passes[0]), min(hosts, default=0.0), read, acceptance)


def _seconds_to_read(pair: Pair, prompt: Sequence[int], repeats: int) -> float:
    """Seconds that the drafter takes to read one token of a text."""
    model = pair.drafter.model
    ids = [prompt[i % len(prompt)] for i in range(min(_READ, model.max_length))]
    taken = []
    for _ in range(repeats):
        model.rewind(0)
        started = time.perf_counter()
        model.score(ids, num_logits=1)
        taken.append(time.perf_counter() - started)
    pair.drafter.restore(DrafterState([], [], 0))  # its context holds none of the text that it thinks it does
    return min(taken) / len(ids)


def _fastest_passes(model: Model, prompt: Sequence[int], longest: int, repeats: int) -> list[float]:
    """Seconds of passes over 1..longest tokens after a prompt; ids do not change the cost.

    All lengths take turns, so that a busy moment of the machine does not fall on one of them, and a pass
    counts as no dearer than a longer one: whatever made it so was the machine.
    """
    model.rewind(0)
    model.score(prompt, num_logits=1)
    past, taken = model.length, [float("inf")] * longest
    for _ in range(repeats):
        for n in range(1, longest + 1):
            started = time.perf_counter()
            model.score([prompt[0]] * n)
            taken[n - 1] = min(taken[n - 1], time.perf_counter() - started)
            model.rewind(past)
    return [min(taken[n:]) for n in range(longest)]
