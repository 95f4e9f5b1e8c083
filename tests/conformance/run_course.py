"""Runners of `learner/rate` to `learner/average`: what is done with an adapter while it learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.choosing import Given
from conformance.vectors import Vector, close
from omnidraft.learning.averaged import RunningMean
from omnidraft.learning.online.guard import Guard, GuardOptions
from omnidraft.learning.online.interval import decide, roll_back, take_up
from omnidraft.learning.online.profiles import AdaptationProgress
from omnidraft.learning.step.schedule import rate_at
from omnidraft.learning.step.step_tensors import initial_vector, sites_of, vector_of
from omnidraft.runtime.bundle.head import Head
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.bundle.train_step_entry import layout_of
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.sync.average import average

EVENTS = {"roll back": "rolled back", "cool down": "rested"}
OF = "a" * 64, "d" * 64, "e" * 64
CREATED = "2026-01-02T03:04:05Z"


def run_rate(vector: Vector) -> None:
    given = vector["input"]
    rates = [rate_at(given["schedule"], given["rate"], i, given["total"]) for i in range(given["total"])]
    assert close(rates, vector["expect"]["rates"])


def run_mean(vector: Vector) -> None:
    mean = RunningMean()
    for step, wanted in zip(vector["input"]["steps"], vector["expect"]["means"], strict=True):
        if step is not None:
            mean.add({"tensor": np.array(step, np.float32)})
        if wanted is None:
            assert not mean.tensors
        else:
            assert np.allclose(mean.tensors["tensor"], wanted, rtol=1e-5, atol=1e-6)


def options_of(given: dict[str, Any]) -> GuardOptions:
    return GuardOptions(**given["options"])


def run_guard(vector: Vector) -> None:
    given, found = vector["input"], []
    guard = Guard(options_of(given))
    for answers in given["intervals"]:
        for tokens, passes in answers:
            guard.observe(tokens, passes)
        verdict, state = guard.judge(), guard.state()
        found.append([verdict, len(state["reference"]), len(state["current"])])
        guard = Guard(guard.options)  # as after a restart
        guard.restore(state)
    assert found == vector["expect"]["verdicts"]


def run_interval(vector: Vector) -> None:
    given = vector["input"]
    guard, progress = Guard(options_of(given)), AdaptationProgress()
    for i, (interval, wanted) in enumerate(
        zip(given["intervals"], vector["expect"]["intervals"], strict=True)
    ):
        for tokens, passes in interval["answers"]:
            guard.observe(tokens, passes)
            progress.answered += 1
            progress.pending.append(progress.answered)
        decision, _ = decide(progress, guard, given["memory"])
        event = EVENTS.get(decision, interval["outcome"])
        if event == "learned":
            take_up(progress)
        elif event == "not finite":
            roll_back(progress, guard, given["memory"])
            event = "rolled back"
        found = {name: value for name, value in progress.as_json().items() if name in wanted}
        assert {**found, "event": event, "verdict": wanted["verdict"]} == wanted, f"interval {i}"


@dataclass
class Table:
    """A drafter whose logits, and what its head says, are of the last token."""

    table: list[list[float]]
    says: list[float]
    context: list[int] = field(default_factory=list)
    reads: int = 0
    acceptance: float = 1.0
    max_length: int = 64

    @property
    def length(self) -> int:
        return len(self.context)

    @property
    def vocab_size(self) -> int:
        return len(self.table)

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> npt.NDArray[np.float64]:
        self.reads += 1
        self.context += tokens
        self.acceptance = self.says[tokens[-1]]
        return np.array([self.table[token] for token in tokens])[-(num_logits or len(tokens)) :]

    def rewind(self, length: int) -> None:
        del self.context[length:]


def run_stop(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    model, asked = Table(given["table"], given["acceptance"]), list[float]()
    length, random = FixedLength(given["count"], given["threshold"]), Given(given["uniforms"])

    class Asked:
        """The length, which notes what it is told."""

        stops_early = length.stops_early

        def next(self) -> int:
            return length.next()

        def more(self, drawn: int, survival: float) -> int:
            asked.append(survival)
            return length.more(drawn, survival)

    banned = np.array(given["banned"], dtype=np.int64)
    draft = Drafter(model).propose([given["last"]], Asked(), given["temperature"], banned, random)  # type: ignore[arg-type]
    random.finish()
    assert (draft.tokens, model.reads) == (expect["tokens"], expect["reads"])
    assert len(asked) == len(expect["asked"]) and close(asked, expect["asked"])


def run_vector(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    sites = {
        name: Site(site["inputs"], tuple((part, width) for part, width in site["parts"]))
        for name, site in given["sites"].items()
    }
    lora, scale = LoraSites(None, sites), given["alpha"] / given["rank"]
    layout = layout_of(lora, given["rank"])
    assert [{"name": n, "shape": list(s)} for n, s in layout.tensors.items()] == expect["tensors"]
    assert np.allclose(initial_vector(layout, int(given["seed"], 16)), expect["vector"], rtol=1e-7, atol=0)
    full = np.array(given["full"], np.float32)
    found = sites_of(full, layout, lora, scale)
    for name, wanted in expect["adapter"].items():
        for tensor, half in zip(found[name], ("lora_a", "lora_b"), strict=True):
            assert np.allclose(tensor, wanted[half], rtol=1e-6), f"{name}.{half}"
    again = vector_of(Adapter(*OF, found, CREATED), layout, lora, scale)
    assert np.allclose(again, full, rtol=1e-6)


def run_average(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    adapters = [_adapter(device) for device in given["devices"]]
    found = average(adapters, [device["accepted"] for device in given["devices"]], CREATED, given["rank"])
    assert found.adapter.tensors.keys() == expect["products"].keys()
    for site, wanted in expect["products"].items():
        a, b = found.adapter.tensors[site]
        assert np.allclose(a @ b, wanted, rtol=1e-5, atol=1e-6), site
        assert given["rank"] is None or a.shape[1] <= given["rank"]
    assert abs(found.lost - expect["lost"]) < 1e-6
    head = found.adapter.head
    assert (head is None) == (expect["head"] is None)
    if head is not None:
        for name, rows in expect["head"].items():
            assert np.allclose(head.tensors[name], rows[0] if name == "head.bias" else rows, rtol=1e-6)


def _adapter(device: dict[str, Any]) -> Adapter:
    tensors = {
        site: (np.array(pair["lora_a"], np.float32), np.array(pair["lora_b"], np.float32))
        for site, pair in device["tensors"].items()
    }
    head = device["head"] and Head({
        name: np.array(rows[0] if name == "head.bias" else rows, np.float32)
        for name, rows in device["head"].items()
    })  # fmt: skip
    return Adapter(*OF, tensors, CREATED, head)
