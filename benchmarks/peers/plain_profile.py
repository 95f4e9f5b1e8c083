"""Microseconds of a round of plain decoding, part by part: the graph, onnxruntime's Python, this runtime.

    python -m benchmarks.peers.plain_profile BUNDLE [--tokens N] [--json]

The graph is run by onnxruntime's own session object, without Python around it. "call" is what onnxruntime's
Python method adds to a run with the options of this runtime. The other parts are measured with a graph that
does nothing: the parts of a round as `Statistics.seconds` counts them, and the rest, which is text, counts
and locks. Each figure is the least of many repetitions.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from omnidraft.runtime.models.engine_run import EngineRun
from omnidraft.runtime.session.api import GenerationConfig, Session, load

PROMPT = list(range(100, 132))
PLAIN = GenerationConfig(mode="plain", ignore_eos=True)
REPEATS = 12
CALLS = 300  # of onnxruntime's method around a run that does nothing


def least(measure: Callable[[], float]) -> float:
    """Microseconds; the least of the repetitions is the one that was disturbed least."""
    return 1e6 * min(measure() for _ in range(REPEATS))


def decode(session: Session, tokens: int) -> tuple[float, dict[str, float]]:
    """Seconds of a round after the first, and of its parts."""
    generation = session.generate(PROMPT, PLAIN, max_new_tokens=tokens)
    next(iter(generation))
    before = dict(generation.statistics.seconds)
    started = time.perf_counter()
    generation.finish()
    seconds = time.perf_counter() - started
    parts = {name: value - before[name] for name, value in generation.statistics.seconds.items()}
    return seconds / (tokens - 1), {name: value / (tokens - 1) for name, value in parts.items()}


def graph(session: Session, tokens: int) -> float:
    """CPU seconds of a run of the graph, over the same positions."""
    runs = list[float]()

    def timed(run: Any, binding: Any, cancelled: Callable[[], bool]) -> None:
        started = time.thread_time()
        run._session._sess.run_with_iobinding(binding._iobinding, run._options)
        runs.append(time.thread_time() - started)

    with patch.object(EngineRun, "__call__", timed):
        session.generate(PROMPT, PLAIN, max_new_tokens=tokens).finish()
    return sum(runs[-(tokens - 1) :]) / (tokens - 1)


class _Nothing:
    """A session object of onnxruntime whose runs do nothing."""

    def is_webgpu_graph_capture_enabled(self) -> bool:
        return False

    def run_with_iobinding(self, binding: object, options: object) -> None:
        """Run nothing."""


def call(session: Session) -> float:
    """CPU seconds of `EngineRun` and of onnxruntime's method, without the run."""
    seconds = list[float]()

    def timed(run: Any, binding: Any, cancelled: Callable[[], bool]) -> None:
        engine, nothing = run._session._sess, _Nothing()
        run._session._sess = binding._session = nothing
        started = time.thread_time()
        for _ in range(CALLS):
            original(run, binding, cancelled)
        seconds.append((time.thread_time() - started) / CALLS)
        run._session._sess = binding._session = engine

    original = EngineRun.__call__
    with patch.object(EngineRun, "__call__", timed):
        session.generate(PROMPT, PLAIN, max_new_tokens=1).finish()
    return seconds[-1]


def profile(bundle: Path, tokens: int) -> dict[str, float]:
    """Microseconds of a round by part."""
    session = load(bundle, threads=1, drafter=False)
    decode(session, tokens)
    figures = {"graph": least(lambda: graph(session, tokens)), "call": least(lambda: call(session))}
    with patch.object(EngineRun, "__call__", lambda *_: None):
        rounds = [decode(session, tokens) for _ in range(3 * REPEATS)]
    for name in rounds[0][1]:
        figures[name] = 1e6 * min(parts[name] for _, parts in rounds)
    figures["rest"] = 1e6 * min(whole - sum(parts.values()) for whole, parts in rounds)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = profile(options.bundle, options.tokens)
    if options.json:
        print(json.dumps(figures))
        return
    host = sum(figures.values()) - figures["graph"]
    print(f"| {' | '.join(figures)} | all but the graph |\n{'|---' * (len(figures) + 1)}|")
    cells = [f"{value:.0f}" for value in figures.values()]
    print(f"| {' | '.join(cells)} | {host:.0f} ({host / figures['graph']:.1%}) |")


if __name__ == "__main__":
    main()
