"""Costs of another machine are measured once, and kept by machine and bundle."""

from __future__ import annotations

import os
import platform
import random
from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.device import device_costs
from omnidraft.runtime.device.device_costs import Measure
from omnidraft.runtime.device.machine import Machine, this_machine
from omnidraft.runtime.session import language_model
from omnidraft.runtime.session.api import TextSession, load_bundle
from omnidraft.runtime.session.measure import CostsWatch, known_costs
from support.command_line import Run, config

SEAL = "5e" * 32
HERE = this_machine("1.23.0", 1, "cpu", "cpu")
OTHER = replace(HERE, cpu="another")
MANIFEST = Costs((1.0, 1.5), 0.5, 0.25, 0.75)
MEASURED = Costs((2.0, 2.5), 0.125, 0.0, 0.5)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMNIDRAFT_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(language_model, "MEASURE_SECONDS", 60.0)  # a slow machine is timed, too
    return tmp_path / "state"


def ask(
    measure: Measure, measured_on: Machine | None, measured: Costs | None = MEASURED
) -> tuple[str, Costs]:
    found = device_costs.device_costs(SEAL, MANIFEST, measured_on, HERE, measure, lambda: measured)
    return found.source, found.costs


def test_nothing_is_kept_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIDRAFT_STATE", "/dev/null")
    assert [ask("auto", OTHER)[0] for _ in range(2)] == ["measured", "measured"]


def test_a_damaged_record_is_none(state: Path) -> None:
    ask("auto", OTHER)
    (record,) = (state / "costs").iterdir()
    record.write_bytes(record.read_bytes()[:-1])
    assert ask("auto", OTHER)[0] == "measured"


def test_a_record_is_measured_again_after_a_month(state: Path) -> None:
    ask("auto", OTHER)
    (record,) = (state / "costs").iterdir()
    now = record.stat().st_mtime
    for days, source in ((29, "kept"), (31, "measured"), (0, "kept"), (-2, "kept")):
        os.utime(record, (now, now - days * 86_400))
        assert ask("auto", OTHER)[0] == source, days


def test_any_bytes_are_costs_or_none(state: Path) -> None:
    rng, whole = random.Random(3), device_costs.costs_record(SEAL, HERE, MEASURED)
    read = 0
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        costs = device_costs.parse_costs(
            bytes(data[: rng.choice((len(data), rng.randrange(len(data))))]), SEAL, HERE
        )
        read += costs is not None
        assert costs is None or min(*costs.target, costs.draft) > 0.0 <= costs.host
    assert 0 < read < 1000, "a digit of a number may change"


def test_no_record_names_its_user(state: Path) -> None:
    """Nor the host, nor a path."""
    ask("auto", OTHER)
    (record,) = (state / "costs").iterdir()
    text = record.read_text()
    for private in (Path.home(), Path.cwd(), platform.node()):
        assert str(private) not in text


def test_an_exported_bundle_names_this_machine(bundle: Path) -> None:
    opened = open_bundle(bundle)
    assert known_costs(opened).source == "manifest"
    assert known_costs(opened).are_of_this_machine
    assert load_bundle(bundle).costs == opened.costs


def test_other_threads_are_measured_and_kept(bundle: Path) -> None:
    first = load_bundle(bundle, threads=2)
    again = load_bundle(bundle, threads=2)
    assert first.device is not None and again.device is not None
    assert (first.device.source, again.device.source) == ("measured", "kept")
    assert TextSession(first).costs == TextSession(again).costs != first.bundle.costs
    assert len(first.costs.target) > 1 and min(first.costs.target) > 0.0
    assert first.costs.acceptance == first.bundle.costs.acceptance


@pytest.mark.parametrize(("seconds", "length", "after"), [
    (2.01, 512, "measured"), (1.99, 512, "kept"), (2.01, 513, "kept"),
])  # fmt: skip
def test_costs_of_faster_passes_are_outdated(seconds: float, length: int, after: str) -> None:
    """By the median of the first passes, of a short text, and once."""
    ask("auto", OTHER)
    watch = CostsWatch(ask("auto", OTHER)[1])
    slow = [seconds * MEASURED.pass_seconds(n) for n in (1, 2, 3)]
    passes = [(1, slow[0]), (2, slow[1]), (3, slow[2])] * 3 + [(1, 0.0)] * 7
    found = [watch.are_outdated(tokens, taken, length) for tokens, taken in passes]
    assert not any(found[:-1])
    if found[-1]:
        device_costs.forget_costs(SEAL, HERE)
    assert ask("auto", OTHER)[0] == after
    assert not watch.are_outdated(1, 1e9, 0)


@pytest.mark.parametrize(("seconds", "after"), [(1e-9, "measured"), (1e3, "kept")])
def test_kept_costs_of_another_speed_are_measured_again(
    bundle: Path, state: Path, seconds: float, after: str
) -> None:
    first = load_bundle(bundle, threads=2).device
    assert first is not None
    (record,) = (state / "costs").iterdir()
    false = Costs((seconds, seconds), seconds, 0.0)
    seal = str(open_bundle(bundle).manifest["seal"])
    record.write_bytes(device_costs.costs_record(seal, first.machine, false))
    session = TextSession(load_bundle(bundle, threads=2))
    session.generate("Tell me a story.", max_new_tokens=40, mode="plain", ignore_eos=True).finish()
    again = load_bundle(bundle, threads=2).device
    assert again is not None and again.source == after


def test_the_command_says_that_it_measured(bundle: Path, run: Run) -> None:
    command = ("generate", bundle, "hi", "-n", "1", "--threads", "2")
    for option, told in (((), True), ((), False), (config(measure="never"), False), (("-k", "2"), False)):
        code, _, err = run(*command, *option)
        assert code == 0
        assert ("timed this machine" in err) == told, (option, err)
    for name in ("measure", "verify"):
        code, _, err = run(*command, *config(**{name: "perhaps"}))
        assert code != 0 and "'perhaps' is not auto" in err
