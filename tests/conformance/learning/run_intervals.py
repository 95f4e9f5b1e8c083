"""Runners of `learner/rate`, `mean`, `guard` and `interval`: an adapter while it learns."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.vectors import Vector, close
from omnidraft.learning.averaged import RunningMean
from omnidraft.learning.online.guard import Guard, GuardOptions
from omnidraft.learning.online.interval import count_version, decide, roll_back
from omnidraft.learning.online.profiles import AdaptationProgress
from omnidraft.learning.step.schedule import rate_at

EVENTS = {"roll back": "rolled back", "cool down": "rested"}  # decision -> event of the vectors


def run_rate(vector: Vector) -> None:
    given = vector["input"]
    rates = [rate_at(given["schedule"], given["rate"], i, given["total"]) for i in range(given["total"])]
    assert close(rates, vector["expect"]["rates"])


def run_mean(vector: Vector) -> None:
    mean = RunningMean()
    for step, expected in zip(vector["input"]["steps"], vector["expect"]["means"], strict=True):
        if step is not None:
            mean.add({"tensor": np.array(step, np.float32)})
        if expected is None:
            assert not mean.tensors
        else:
            assert np.allclose(mean.tensors["tensor"], expected, rtol=1e-5, atol=1e-6)


def options_of(given: dict[str, Any]) -> GuardOptions:
    return GuardOptions(**given["options"])


def run_guard(vector: Vector) -> None:
    given, verdicts = vector["input"], []
    guard = Guard(options_of(given))
    for answers in given["intervals"]:
        for tokens, passes in answers:
            guard.observe(tokens, passes)
        verdict, state = guard.judge(), guard.state()
        verdicts.append([verdict, len(state["reference"]), len(state["current"])])
        guard = Guard(guard.options)  # as after a restart
        guard.restore(state)
    assert verdicts == vector["expect"]["verdicts"]


def run_interval(vector: Vector) -> None:
    given = vector["input"]
    guard, progress = Guard(options_of(given)), AdaptationProgress()
    for i, (interval, expected) in enumerate(
        zip(given["intervals"], vector["expect"]["intervals"], strict=True)
    ):
        for tokens, passes in interval["answers"]:
            guard.observe(tokens, passes)
            progress.answered += 1
            progress.pending.append(progress.answered)
        decision, _ = decide(progress, guard, given["memory"])
        event = EVENTS.get(decision, interval["outcome"])
        if event == "learned":
            count_version(progress)
        elif event == "not finite":
            roll_back(progress, guard, given["memory"])
            event = "rolled back"
        state = {name: value for name, value in progress.as_json().items() if name in expected}
        assert {**state, "event": event, "verdict": expected["verdict"]} == expected, f"interval {i}"
