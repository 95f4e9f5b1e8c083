"""The tables of the results, in Markdown: one for each target and one over both."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.experiments.report.bootstrap import tokens_per_pass

Line = dict[str, Any]
RESAMPLES = 2000


def tables(lines: list[Line]) -> Iterator[str]:
    """Tokens per target pass by task, or speed-ups where the lines hold them."""
    timed = "ratios" in lines[0]
    tasks = list(lines[0]["ratios" if timed else "emitted"])
    for target in dict.fromkeys(line["target"] for line in lines):
        of_target = [line for line in lines if line["target"] == target]
        last = "all" if timed else "all | greedy text of plain decoding | distance from the distribution"
        yield f"| {target} | drafter | T | {' | '.join(tasks)} | {last} |"
        yield "|---" * (4 + len(tasks) + (0 if timed else 2)) + "|"
        for line in of_target:
            cells = [_speed(line, [task]) if timed else _count(line, [task]) for task in tasks]
            whole = [_speed(line, tasks, interval=True)] if timed else _whole(line, tasks)
            drafter = "none" if "lookup" in line["arm"] else "learned" if line["learned"] else "untrained"
            row = [line["arm"], drafter, f"{line['temperature']:g}", *cells, *whole]
            yield f"| {' | '.join(row)} |"
        yield ""


def _count(line: Line, tasks: list[str]) -> str:
    emitted, rounds = (sum(sum(line[name][task]) for task in tasks) for name in ("emitted", "rounds"))
    return f"{emitted / rounds:.2f}"


def _whole(line: Line, tasks: list[str]) -> list[str]:
    flat = {name: [n for task in tasks for n in line[name][task]] for name in ("emitted", "rounds")}
    same = f"{line['same_text']} of {line['prompts']}" if "same_text" in line else ""
    far = f"{line['drawn']:.2f} (chance: up to {line['chance']:.2f})" if "drawn" in line else ""
    return [str(tokens_per_pass([flat])), same, far]


def _speed(line: Line, tasks: list[str], *, interval: bool = False) -> str:
    logs = np.log([ratio for task in tasks for ratio in line["ratios"][task]])
    speed = f"{math.exp(logs.mean()):.2f}x"
    if not interval:
        return speed
    means = np.exp(np.random.default_rng(0).choice(logs, (RESAMPLES, len(logs))).mean(axis=1))
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{speed} ({low:.2f}-{high:.2f})"
