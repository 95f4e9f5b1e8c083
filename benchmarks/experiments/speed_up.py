"""Measured speed-up of the trained drafters: real targets, interleaved with plain decoding.

Exported as an app would ship them: target in fp32, the trained drafter in int8, without places for adapters;
one thread, greedy, to the answer's own end; the cache is the one that saw the training answers.
"""

import tempfile
from collections.abc import Iterator
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
from omnidraft.commands.bench import as_json, bench
from omnidraft.commands.demo import starter
from omnidraft.export.bundle import export_bundle
from omnidraft.export.options import Options
from omnidraft.export.quantize.quantize import FP32, INT8
from omnidraft.runtime.decoding.speculate import Mode
from omnidraft.runtime.session.api import Session, load_bundle

PROMPTS = 20
WAYS: dict[str, int | Literal["auto"]] = {"fixed": NUM_DRAFT_TOKENS, "auto": "auto"}


def arms() -> Iterator[Arm]:
    """Every task and target: not trained, with the direct map or freely; and after a pass with trie-KL."""
    for task in TASKS:
        for target in TARGETS:
            settings = {
                "target": target, "task": task, "prompts": PROMPTS, "num_draft_tokens": NUM_DRAFT_TOKENS,
                "max_new_tokens": MAX_NEW_TOKENS,
            }  # fmt: skip
            yield Arm("speed_up", "untrained", settings, partial(_measure, None, target, task))
            training = Training(target, task, LOSSES["trie-kl"], PASSES[task], 0)
            told = {"train": training.count, "seed": 0, "recipe": training.recipe.as_json()}
            yield Arm("speed_up", "trie-kl", settings | told, partial(_measure, training, target, task))


def _measure(training: Training | None, target: str, task: str, work: Path) -> dict[str, Any]:
    model = torch_model("drafter") if training is None else training.drafter(work)[0]
    prompts = spread(prompts_of(task, "test"), PROMPTS)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_checkpoint(model, read_checkpoint(str(starter("drafter"))), place / "drafter")
        options = Options(FP32, drafter_quantization=INT8, lora_drafter=False, head_blocks=None)
        export_bundle(str(starter(target)), str(place / "drafter"), place / "bundle", options)
        loaded = load_bundle(place / "bundle", threads=1)
        for name, length in WAYS.items():
            session = Session(loaded)
            if training is not None:
                answers = load(work, target, task, "train", training.count)
                session.pair.cache = learned(loaded.vocab_map, answers)
            session.measure(prompts[0])
            mode: Mode = "direct" if training is None and length != "auto" else "trie"
            result = bench(
                session, prompts, max_new_tokens=MAX_NEW_TOKENS, num_draft_tokens=length, mode=mode,
                ignore_eos=False,
            )  # fmt: skip
            told = {key: value for key, value in as_json(result).items() if key != "prompts"}
            same = all(line.same_text for line in result.lines)
            found[name] = told | {"ratios": [line.ratio for line in result.lines], "same_text": same}
    return found
