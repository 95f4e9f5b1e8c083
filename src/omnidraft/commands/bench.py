"""`omnidraft bench`: plain decoding against speculation, side by side on the same prompts.

Each prompt is decoded plain, speculative, plain; the ratio of a prompt is speculative speed over the mean of
the two plain runs around it, so a drift of the machine's speed cancels.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from omnidraft.runtime.decoding.speculate import Mode
from omnidraft.runtime.session.api import GenerationConfig, Session, Statistics

_WARM_UP = 2  # prompts whose times are thrown away
_RESAMPLES = 2000


@dataclass(frozen=True)
class BenchLine:
    """One prompt: tokens a second and what the rounds did."""

    prompt: str
    plain: float
    speculative: float
    statistics: Statistics
    same_text: bool

    @property
    def ratio(self) -> float:
        """Speculative over plain speed."""
        return self.speculative / self.plain


@dataclass(frozen=True)
class Result:
    """A benchmark: its lines, and the figures over all of them."""

    lines: list[BenchLine]
    predicted: float

    @property
    def speed_up(self) -> float:
        """Geometric mean of the prompts' ratios."""
        return math.exp(sum(math.log(line.ratio) for line in self.lines) / len(self.lines))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % bootstrap interval of the geometric mean over prompts."""
        logs = np.log([line.ratio for line in self.lines])
        rng = np.random.default_rng(0)
        means = np.exp(rng.choice(logs, size=(_RESAMPLES, len(logs))).mean(axis=1))
        return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))

    @property
    def tokens_per_target_pass(self) -> float:
        """Over all prompts."""
        emitted = sum(line.statistics.emitted for line in self.lines)
        return emitted / sum(line.statistics.rounds for line in self.lines)

    @property
    def share_slower(self) -> float:
        """Share of prompts on which speculation was slower than plain decoding."""
        return sum(line.ratio < 1.0 for line in self.lines) / len(self.lines)


def bench(
    session: Session,
    prompts: Sequence[str],
    *,
    max_new_tokens: int = 128,
    num_draft_tokens: int | Literal["auto"] = "auto",
    head_threshold: float | Literal["auto"] = 1.0,
    mode: Mode = "trie",
    temperature: float = 0.0,
    ignore_eos: bool = True,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Result:
    """Time both ways of decoding on each prompt, past the end of the text unless that is to be heeded."""
    asked = GenerationConfig(
        max_new_tokens,
        temperature,
        0,
        mode,
        num_draft_tokens,
        ignore_eos=ignore_eos,
        head_threshold=head_threshold,
    )
    order = [*prompts[:_WARM_UP], *prompts]
    lines = []
    for i, prompt in enumerate(order):
        progress(i, len(order))
        line = _measure(session, prompt, asked)
        if i >= _WARM_UP:
            lines.append(line)
    progress(len(order), len(order))
    return Result(lines, _predict(session, lines))


def _measure(session: Session, prompt: str, asked: GenerationConfig) -> BenchLine:
    def run(this: Mode) -> tuple[list[int], Statistics]:
        settings = {each.name: getattr(asked, each.name) for each in fields(asked)}
        found = session.generate(prompt, **{**settings, "mode": this}).finish()
        return found.token_ids, found.statistics

    ids, first = run("plain")
    other_ids, speculative = run(asked.mode)
    _, second = run("plain")
    plain = (first.emitted + second.emitted) / (first.total_seconds + second.total_seconds)
    speed = speculative.emitted / speculative.total_seconds
    return BenchLine(prompt, plain, speed, speculative, ids == other_ids)


def _predict(session: Session, lines: Sequence[BenchLine]) -> float:
    """Speed-up that the bundle's costs and the counted rounds promise, without a clock (method section 6)."""
    costs = session.costs
    rounds = sum(line.statistics.rounds for line in lines)
    emitted = sum(line.statistics.emitted for line in lines)
    seconds = sum(
        costs.round_seconds(count) * n for line in lines for count, n in line.statistics.lengths.items()
    )
    return emitted * costs.round_seconds(0) / seconds if rounds else 1.0


def as_json(result: Result) -> dict[str, object]:
    """A result for machines."""
    low, high = result.interval
    return {
        "speed_up": result.speed_up,
        "interval_95": [low, high],
        "predicted_speed_up": result.predicted,
        "tokens_per_target_pass": result.tokens_per_target_pass,
        "share_of_prompts_slower": result.share_slower,
        "worst_prompt": min(line.ratio for line in result.lines),
        "prompts": [
            {
                "prompt": line.prompt,
                "plain_tokens_per_second": line.plain,
                "speculative_tokens_per_second": line.speculative,
                "ratio": line.ratio,
                "tokens_per_target_pass": line.statistics.tokens_per_target_pass,
                "acceptance_of_drafted": line.statistics.acceptance_of_drafted,
                "acceptance_of_tested": line.statistics.acceptance_of_tested,
                "milliseconds_per_round": dict(_milliseconds(line.statistics)),
                "same_text": line.same_text,
            }
            for line in result.lines
        ],
    }


def _milliseconds(statistics: Statistics) -> Iterator[tuple[str, float]]:
    for name, seconds in statistics.seconds.items():
        yield name, 1000.0 * seconds / max(1, statistics.rounds)
