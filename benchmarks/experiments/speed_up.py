"""Measured speed-up of trained drafters: real targets, interleaved with plain decoding.

The bundles are those that an app would ship: target in fp32, trained drafter in int8, no inputs for adapters.
One thread, greedy, to the end of each answer; the cache has learned the training answers.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from benchmarks.experiments.learning_gain import PASSES
from benchmarks.experiments.running.answers import MAX_NEW_TOKENS, load, prompts_of
from benchmarks.experiments.running.measure import NUM_DRAFT_TOKENS, learned
from benchmarks.experiments.running.pairs import TARGETS, torch_model
from benchmarks.experiments.running.recipes import LOSSES
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.tasks import TASKS, spread
from benchmarks.experiments.running.training import Training
from omnidraft.checkpoints.checkpoint import read_checkpoint
from omnidraft.checkpoints.write_checkpoint import write_checkpoint
from omnidraft.commands.bench import BENCH_CONFIG, bench, bench_json
from omnidraft.commands.starters import starter
from omnidraft.export.bundle import export_bundle
from omnidraft.export.options import Options
from omnidraft.export.quantize.quantize import FP32, INT8
from omnidraft.runtime.session.api import Session, load_bundle
from omnidraft.runtime.session.modes import Mode

PROMPTS = 20
WAYS: dict[str, int | Literal["auto"]] = {"fixed": NUM_DRAFT_TOKENS, "auto": "auto"}


def arms() -> Iterator[Arm]:
    """Every task and target: the untrained drafter, and one after a whole pass with trie-KL."""
    for task in TASKS:
        for target in TARGETS:
            settings = {
                "target": target, "task": task, "prompts": PROMPTS, "num_draft_tokens": NUM_DRAFT_TOKENS,
                "max_new_tokens": MAX_NEW_TOKENS,
            }  # fmt: skip
            yield Arm("speed_up", "untrained", settings, partial(_measure, None, target, task))
            training = Training(target, task, LOSSES["trie-kl"], PASSES[task], 0)
            trained = {"train": training.count, "seed": 0, "recipe": training.recipe.as_json()}
            yield Arm("speed_up", "trie-kl", settings | trained, partial(_measure, training, target, task))


def _measure(training: Training | None, target: str, task: str, work: Path) -> dict[str, Any]:
    model = torch_model("drafter") if training is None else training.drafter(work)[0]
    prompts = spread(prompts_of(task, "test"), PROMPTS)
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_checkpoint(model, read_checkpoint(str(starter("drafter"))), place / "drafter")
        options = Options(FP32, drafter_quantization=INT8, lora_drafter=False)
        export_bundle(str(starter(target)), str(place / "drafter"), place / "bundle", options)
        loaded = load_bundle(place / "bundle", threads=1)
        for name, length in WAYS.items():
            session = Session(loaded)
            if training is not None:
                answers = load(work, target, task, "train", training.count)
                session.cache = learned(loaded.vocab_map, answers)
            session.measure(prompts[0])
            mode: Mode = "direct" if training is None and length != "auto" else "trie"
            config = replace(
                BENCH_CONFIG,
                max_new_tokens=MAX_NEW_TOKENS,
                num_draft_tokens=length,
                mode=mode,
                ignore_eos=False,
            )
            result = bench(session, prompts, config)
            summary = {key: value for key, value in bench_json(result).items() if key != "prompts"}
            same = all(line.same_text for line in result.lines)
            measured[name] = summary | {"ratios": [line.ratio for line in result.lines], "same_text": same}
    return measured
