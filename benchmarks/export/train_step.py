"""Seconds and memory of a training step on the device, beside the torch trainer and a decoding step.

    python -m benchmarks.export.train_step BUNDLE --drafter CHECKPOINT

The bundle is exported with --train-step. It answers built-in prompts, and each arm learns from the traces
in a process of its own. The memory of a step is ru_maxrss of that process, less that of a process that
loads the models and makes no step. The arms take turns; a time is the median of all steps after the first.
One thread, batches of 8.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.support.peak_memory import peak_of
from omnidraft.learning.learn_traces import LearnOptions, responses_of
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.ort_model import Graph, OrtModel
from omnidraft.runtime.session.api import load
from omnidraft.runtime.vocab.vocab_map import load_vocab_map
from omnidraft.sample_prompts import PROMPTS

ARMS = ("onnxruntime, 1 at once", "onnxruntime, 8 at once", "torch")
BATCH, WORDS = 8, 160
Step = Callable[[list[Aligned]], Any]


def record(bundle: Path, place: Path) -> None:
    """Record answers to the built-in prompts."""
    session = load(bundle, trace=place)
    for prompt in islice(PROMPTS, BATCH):
        session.generate(prompt, max_new_tokens=WORDS, num_draft_tokens=2).finish()
    assert session.trace is not None
    session.trace.close()


def stepper(arm: str, path: Path, drafter: str) -> Step:
    """The function that makes a step of an arm."""
    bundle = open_bundle(path)
    if arm != "torch":
        at_once = 8 if "8 at once" in arm else 1
        options = StepOptions(at_once=at_once)
        return OrtLearner(bundle, load_vocab_map(bundle.file(bundle.vocab_map)), options).learn
    import torch

    from omnidraft.checkpoints.checkpoint import load_model, read_checkpoint
    from omnidraft.training.trainer import Trainer
    from omnidraft.training.trainer_options import TrainerOptions

    torch.set_num_threads(1)
    assert bundle.drafter.train is not None
    options_of = TrainerOptions(lora_rank=bundle.drafter.train.rank)
    return Trainer(load_model(read_checkpoint(drafter)), options_of).step


def child(arm: str, path: Path, drafter: str, trace: Path, steps: int) -> dict[str, Any]:
    """Seconds of each step of an arm."""
    bundle = open_bundle(path)
    vocab_map = load_vocab_map(bundle.file(bundle.vocab_map))
    responses = responses_of([trace], bundle, vocab_map, LearnOptions())
    step, seconds = stepper(arm, path, drafter), []
    batch = [responses[i % len(responses)] for i in range(BATCH)]
    for _ in range(steps):
        began = time.perf_counter()
        step(batch)
        seconds.append(time.perf_counter() - began)
    return {"seconds": seconds[1:], "tokens": sum(len(r.draft_ids) for r in batch)}


def measured(arm: str, arguments: argparse.Namespace, trace: Path, steps: int) -> dict[str, Any]:
    """`child` in a process of its own, and its peak memory in bytes."""
    printed, peak = peak_of(
        "benchmarks.export.train_step", str(arguments.bundle), "--drafter", arguments.drafter,
        "--arm", arm, "--trace", str(trace), "--steps", str(steps),
    )  # fmt: skip
    return {**json.loads(printed), "bytes": peak}


def decoding_seconds(path: Path) -> float:
    """The median seconds of a pass of the drafter over one token."""
    entry = open_bundle(path).drafter
    model, seconds = OrtModel(Graph(path / entry.graph, entry.kv, entry.vocab_size)), []
    for token in range(min(64, entry.kv.max_length)):
        began = time.perf_counter()
        model.score([token])
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--drafter", required=True, help="the checkpoint that the drafter was exported from")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.arm:
        seconds = child(arguments.arm, arguments.bundle, arguments.drafter, arguments.trace, arguments.steps)
        print(json.dumps(seconds))
        return
    with tempfile.TemporaryDirectory() as folder:
        record(arguments.bundle, Path(folder) / "trace")
        runs: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
        idle = {arm: measured(arm, arguments, Path(folder) / "trace", 0)["bytes"] for arm in ARMS}
        for _ in range(arguments.rounds):
            for arm in ARMS:
                runs[arm].append(measured(arm, arguments, Path(folder) / "trace", arguments.steps))
        one_token = decoding_seconds(arguments.bundle)
    seconds = {arm: statistics.median([s for run in runs[arm] for s in run["seconds"]]) for arm in ARMS}
    tokens, token_ms = runs["torch"][0]["tokens"], 1e3 * one_token
    print(f"batches of {BATCH} responses, {tokens} draft tokens; a draft token takes {token_ms:.2f} ms")
    print(f"{'arm':28} {'ms a step':>10} {'of torch':>9} {'draft tokens':>13} {'step MB':>8} {'peak MB':>8}")
    for arm in ARMS:
        peak = max(run["bytes"] for run in runs[arm])
        print(
            f"{arm:28} {1e3 * seconds[arm]:10.1f} {seconds[arm] / seconds['torch']:8.2f}x "
            f"{seconds[arm] / one_token:13.0f} {(peak - idle[arm]) / 1e6:8.0f} {peak / 1e6:8.0f}"
        )


if __name__ == "__main__":
    main()
