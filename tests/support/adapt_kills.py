"""Kill an adapting process at any moment and compare its files with a run without kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

from omnidraft.learning.online.adaptation import CURVE
from omnidraft.learning.online.curve import read_curve
from omnidraft.learning.online.profiles import profile_of
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.runtime.session.language_model import LanguageModel, load_bundle
from omnidraft.runtime.traces.trace_file import decode
from omnidraft.runtime.vocab.cache_store import read_table
from support.adapting import assert_same, pair_of_weights
from support.places import ROOT


def start(bundle: Path, place: Path, answers: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"}
    # One thread, so that forking is safe and sums are the same.
    environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, str(ROOT / "tests/support/adapt_writer.py"), str(bundle), str(place)]
    command.append(str(answers))
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def run_once(writer: subprocess.Popen[str], wait: float | None, after: int) -> bool:
    """Adapt, and kill the process `wait` seconds after `after` answers (None: never); whether it finished."""
    assert writer.stdin is not None and writer.stdout is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()
    child, done, answered = 0, False, 0
    timer: threading.Timer | None = None
    for line in writer.stdout:
        if line == "gone\n":
            if timer is not None:
                timer.cancel()
            return done
        done = done or line == "done\n"
        if line.startswith("answered "):
            answered += 1
        elif line.strip().isdecimal():
            child = int(line)
        if wait is not None and timer is None and child and answered >= after:
            timer = threading.Timer(wait, kill, [child])
            timer.start()
    raise AssertionError("the process that forks ended by itself")


def kill(child: int) -> None:
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        return  # it had finished


def check_whole(place: Path, weights: LanguageModel) -> int:
    """Check that every file is whole and fits the others; return the number of answers in the checkpoint."""
    profile = profile_of(place, weights.bundle)
    checkpoint = profile.read(pair_of_weights(weights))
    if checkpoint is None:
        return 0
    assert len(read_curve(place / CURVE)) >= checkpoint.progress.answered
    for number in (*checkpoint.progress.memory, *checkpoint.progress.pending):
        assert not decode(profile.answer(number).read_bytes()).torn
    if profile.cache.exists():
        read_table(profile.cache)
    if profile.adapter.exists():
        read_adapter(profile.adapter)
    return checkpoint.progress.answered


def assert_kills_change_nothing(bundle: Path, tmp_path: Path, usual: int) -> None:
    """Adapt without kills, and with OMNIDRAFT_KILLS (or `usual`) kills: both give the same files."""
    kills = int(os.environ.get("OMNIDRAFT_KILLS", usual))
    weights, rng, answers = load_bundle(bundle), random.Random(0), 3 * kills + 8
    whole, place = tmp_path / "whole", tmp_path / "place"
    writer = start(bundle, whole, answers)
    try:
        assert run_once(writer, None, 0)
    finally:
        writer.kill()
        writer.communicate()
    writer = start(bundle, place, answers)
    ends, reached = 0, [0]
    try:
        for _ in range(kills):
            # Some kills happen while it loads, others while it answers, learns and writes.
            after = rng.choice((0, 1, 1, 2, 3))
            ends += run_once(writer, rng.uniform(0.0, 1.0 if after == 0 else 0.3), after)
            reached.append(check_whole(place, weights))
        assert run_once(writer, None, 0)
    finally:
        writer.kill()
        writer.communicate()
    # Progress is never lost, and some kills happened before the end.
    assert reached == sorted(reached) and ends < kills
    assert check_whole(place, weights) == answers
    assert_same(whole, place, weights)
