"""Measure this device: seconds of a target pass, of a draft token and of the round's own work.

The machine is rarely idle, so all measurements take turns and each figure is a median. A disturbance then
slows all of them alike, and their ratios stay. Acceptance is counted in the same rounds, because the bundle's
figure was counted on other prompts.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median

from omnidraft.runtime.decoding.draft_length import PRIOR_ACCEPTANCE, PRIOR_ROUNDS, Costs, FixedLength
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.speculate import DecoderState, Round
from omnidraft.runtime.decoding.stop import cut_at_eos
from omnidraft.runtime.session.decode import DecoderModels, decode
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.vocab.ngram_cache import NgramCache

_DRAFTED = 3
_TURNS, _ROUNDS = 4, 5  # of each turn
_TOKENS = 96  # more than all these rounds can emit
_READ = 64  # tokens that the drafter reads at once


def measure_costs(
    models: DecoderModels,
    prompt: Sequence[int],
    draft_prompt: Sequence[int],
    *,
    prior: float = PRIOR_ACCEPTANCE,
    longest: int = 9,
    repeats: int = 3,
) -> Costs:
    """Time target passes over 1..longest tokens after a prompt and some real rounds, greedy, in turns.

    The cache of the models is not changed; their KV caches are overwritten. Acceptance is that of the rounds
    and of the prior, which has the weight of a few draft tokens.

    Args:
        models: what to time.
        prompt: target ids.
        draft_prompt: the same text in draft ids.
        prior: acceptance before the measurement.
        longest: tokens of the longest pass.
        repeats: of each pass in a turn.
    """
    target, text = models.target, DecoderState()
    text.restart(prompt, draft_prompt, min(_TOKENS, target.max_length - len(prompt)), cut_at_eos(()))
    trial = DecoderModels(target, models.drafter, NgramCache(models.cache.map), models.clock)
    loop = decode(trial, text, GenerationConfig(), FixedLength(_DRAFTED), SplitMix64(0))
    passes: list[list[float]] = [[] for _ in range(longest)]
    reads, rounds, timed = list[float](), list[Round](), list[Round]()
    for _ in range(_TURNS):
        _time_passes(target, prompt[: target.max_length - longest], passes, repeats, models.clock)
        text.cached.clear()  # the KV cache holds other positions now
        if draft_prompt:
            reads += _times_to_read(models, draft_prompt, repeats)
        rounds += (latest := list(islice(loop, _ROUNDS)))
        timed += [r for r in latest[1:] if r.draft]  # in the first round the drafter reads its context again
    # Costs must not fall with n; if they do, it was noise.
    seconds = [min(median(times) for times in passes[n:]) for n in range(longest)]
    drafts = [r.seconds.draft / len(r.draft) for r in timed]
    hosts = [r.seconds.translate + r.seconds.verify + r.seconds.learn for r in timed]
    evaluated, accepted = sum(r.evaluated for r in rounds), sum(r.accepted_drafts for r in rounds)
    return Costs(
        tuple(seconds),
        median(drafts) if drafts else seconds[0],
        median(hosts) if hosts else 0.0,
        median(reads) if reads else 0.0,
        (PRIOR_ROUNDS * prior + accepted) / (PRIOR_ROUNDS + evaluated),
    )


def _times_to_read(models: DecoderModels, prompt: Sequence[int], repeats: int) -> list[float]:
    """Seconds that the drafter takes to read one token of a text, measured `repeats` times."""
    model, clock = models.drafter.model, models.clock
    ids = [prompt[i % len(prompt)] for i in range(min(_READ, model.max_length))]
    times = []
    for _ in range(repeats):
        model.rewind(0)
        started = clock()
        model.score(ids, num_logits=1)
        times.append((clock() - started) / len(ids))
    models.drafter.forget()  # its KV cache holds another text now
    return times


def _time_passes(
    model: Model,
    prompt: Sequence[int],
    times: list[list[float]],
    repeats: int,
    clock: Callable[[], float],
) -> None:
    """Append the seconds of passes over 1, 2, ... tokens after a prompt; their ids do not matter."""
    model.rewind(0)
    model.score(prompt, num_logits=1)
    past = model.length
    for _ in range(repeats):
        for n, seconds in enumerate(times, 1):
            started = clock()
            model.score([prompt[0]] * n)
            seconds.append(clock() - started)
            model.rewind(past)
