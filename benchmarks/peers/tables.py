"""The tables of the results, in Markdown: a row for each arm, beside plain decoding of the same runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

RESAMPLES = 2000
Line = dict[str, Any]


def tables(lines: Sequence[Line]) -> Iterator[str]:
    """A table for each temperature, of the latest line of each prompt; and the builds."""
    latest = {(line["temperature"], line["task"], line["prompt"]): line for line in lines}
    tasks = list(dict.fromkeys(line["task"] for line in lines))
    for temperature in sorted({key[0] for key in latest}):
        of = [line for key, line in latest.items() if key[0] == temperature]
        title = f"{of[0]['model']}, T = {temperature:g}, {len(of)} prompts"
        yield f"\n{title}, at most {of[0]['tokens']} tokens\n"
        head = ["arm", "tokens/s", "of its plain (95 %)", "tokens a pass", "slower, worst", *tasks]
        yield f"| {' | '.join(head)} |\n|{'---|' * len(head)}"
        for arm in dict.fromkeys(name for line in of for name in sorted(line["arms"], key=_order)):
            yield f"| {' | '.join(_row(arm, of, tasks))} |"
    for told in {str(line["builds"]): line["builds"] for line in latest.values()}.values():
        yield "\n" + "; ".join(f"{name} {build}" for name, build in told.items())


def _order(arm: str) -> tuple[str, bool]:
    """Plain decoding of a runtime first."""
    runtime, name = arm.split(" ", 1)
    return runtime, name != "plain"


def _row(arm: str, lines: Sequence[Line], tasks: Sequence[str]) -> list[str]:
    """The cells of an arm; texts that end with their first token are left out."""
    plain = f"{arm.split()[0]} plain"
    both = [line for line in lines if all(line["arms"].get(name, {}).get("tokens") for name in (arm, plain))]
    answers = [line["arms"][arm] for line in both]
    if not answers:
        return [arm, *["-"] * (4 + len(tasks))]
    rates = np.array([each["tokens"] / each["seconds"] for each in answers])
    plain_rates = np.array([line["arms"][plain]["tokens"] / line["arms"][plain]["seconds"] for line in both])
    speeds, passes = rates / plain_rates, sum(each["passes"] for each in answers)
    cells = [arm, f"{len(rates) / np.sum(1.0 / rates):.0f}"]
    if arm == plain:
        return [*cells, *["1"] * 2, *[""] * (1 + len(tasks))]
    cells += [_mean(speeds), f"{sum(each['tokens'] for each in answers) / passes:.2f}"]
    cells.append(f"{np.sum(speeds < 1.0)} of {len(speeds)}, {speeds.min():.2f}x")
    own = [speeds[[line["task"] == task for line in both]] for task in tasks]
    return [*cells, *(_mean(each) if len(each) else "-" for each in own)]


def _mean(speeds: Any) -> str:
    """The geometric mean with its 95 % interval by bootstrap over prompts."""
    logs = np.log(speeds)
    drawn = np.random.default_rng(0).choice(logs, (RESAMPLES, len(logs))).mean(axis=1)
    low, high = np.exp(np.quantile(drawn, (0.025, 0.975)))
    return f"{np.exp(logs.mean()):.2f}x ({low:.2f}-{high:.2f})"
