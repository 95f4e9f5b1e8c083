"""Make an adapter and a cache of the starter drafter for each starter target: examples/starters/learned.

    python -m benchmarks.experiments prepare             # the answers of the targets
    python -m benchmarks.starter_adapters [--work DIR] [--rank N] [--out DIR]
    python -m benchmarks.starter_adapters --sampled [--count N] --out NEW
    python -m benchmarks.starter_adapters --compare --out NEW

First one pass with trie-KL over each target's greedy answers to the training prompts of GSM8K, MBPP and
SciTLDR (not Alpaca, whose licence is non-commercial). `--sampled` goes on from the adapters in
examples/starters/learned: one pass over answers of which half is sampled at temperature 1, a quarter at 0.7
and a quarter is greedy, with the loss 1 - acceptance; the n-grams stay as they are. `--compare` prints the
expected tokens per target pass with the adapters in examples/starters/learned and in NEW, on unseen prompts.
`omnidraft generate --adapter examples/starters/learned` uses the result.
"""

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.experiments.running.answers import Answer, load
from benchmarks.experiments.running.drafters import begin_with
from benchmarks.experiments.running.expected_counts import expected
from benchmarks.experiments.running.measure import learned, tokens_per_pass
from benchmarks.experiments.running.pairs import TARGETS, load_pair, torch_model
from benchmarks.experiments.running.recipes import LORA, LOSSES, Recipe
from benchmarks.experiments.running.sampled_answers import MIXED
from benchmarks.experiments.running.sampled_training import Course
from benchmarks.experiments.running.training import align
from omnidraft.learning.online.profiles import profile_of
from omnidraft.runtime.models.adapter_file import write_adapter
from omnidraft.runtime.vocab.cache_store import write_table
from omnidraft.training.lora import to_adapter
from omnidraft.training.objectives import objective
from omnidraft.training.trainer import Trainer

TASKS = ("gsm8k", "code", "scitldr")
SEED = 0
COMPARED = 100  # unseen prompts of a task, for --compare
CREATED = "2026-11-21T00:00:00Z"  # fixed, so that the same answers make the same bytes
STARTERS = Path(__file__).resolve().parents[1] / "examples/starters"


def make(work: Path, target: str, rank: int, out: Path) -> dict[str, object]:
    """Train on a target's answers, write the adapter and the cache, and return a summary of the training."""
    pair = load_pair(work, target)
    answers: list[Answer] = [each for task in TASKS for each in load(work, target, task)]
    recipe = LOSSES["trie-kl"].with_lora(rank)
    trainer = Trainer(
        torch_model("drafter"), recipe.trainer_options(SEED), objective=objective(recipe.objective)
    )
    aligned = align(pair, answers)
    reports = trainer.train(aligned)
    entry = pair.bundle.drafter
    assert entry.lora is not None and entry.fingerprint is not None, "the bundle takes adapters"
    tokenizers = pair.vocab_map.draft_fingerprint, pair.vocab_map.target_fingerprint
    profile = profile_of(out, pair.bundle)
    profile.directory.mkdir(parents=True, exist_ok=True)
    write_adapter(
        profile.adapter, to_adapter(trainer.model, entry.lora, entry.fingerprint, tokenizers, CREATED)
    )
    write_table(profile.cache, learned(pair.vocab_map, answers).table(), overwrite=True)
    tenth = max(1, len(reports) // 10)
    return {
        "target": target, "answers": len(aligned), "tasks": list(TASKS), "seed": SEED, "steps": trainer.steps,
        "recipe": recipe.as_json(), "skipped": trainer.skipped,
        "first_loss": round(sum(r.loss for r in reports[:tenth]) / tenth, 4),
        "last_loss": round(sum(r.loss for r in reports[-tenth:]) / tenth, 4),
    }  # fmt: skip


def make_sampled(work: Path, target: str, count: int | None, out: Path) -> dict[str, object]:
    """Go on from the adapter in examples/starters/learned with sampled answers, and write the new one."""
    pair, course = load_pair(work, target), sampled_course(target, count)
    model, summary = course.drafter(work)
    entry = pair.bundle.drafter
    assert entry.lora is not None and entry.fingerprint is not None, "the bundle takes adapters"
    tokenizers = pair.vocab_map.draft_fingerprint, pair.vocab_map.target_fingerprint
    file = profile_of(out, pair.bundle).adapter
    file.parent.mkdir(parents=True, exist_ok=True)
    write_adapter(file, to_adapter(model, entry.lora, entry.fingerprint, tokenizers, CREATED))
    return {"target": target, **summary, "course": course.as_json()}


def sampled_course(target: str, count: int | None) -> Course:
    """The answers and the loss of the second pass; `count` prompts of each task, or all."""
    recipe = Recipe("trie-acceptance", {"kind": "refusals"}, {**LORA, "learning_rate": 1e-3})
    return Course(target, TASKS, MIXED, recipe, count, start=target)


def compared(work: Path, target: str, out: Path) -> Iterator[dict[str, object]]:
    """Tokens per target pass with the old and with the new adapter, by task and temperature."""
    models = {"old": torch_model("drafter"), "new": torch_model("drafter")}
    begin_with(work, models["old"], target)
    begin_with(work, models["new"], target, out)
    for task in (*TASKS, "alpaca"):
        for temperature in (0.0, 0.7, 1.0):
            line: dict[str, object] = {"target": target, "task": task, "temperature": temperature}
            for name, model in models.items():
                measured = expected(work, target, task, temperature, model, COMPARED)
                line[name] = {way: round(tokens_per_pass(counts), 3) for way, counts in measured.items()}
            yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rank", type=int, default=32, help="rank of LoRA")
    parser.add_argument("--out", type=Path, default=STARTERS / "learned", help="directory of profiles")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=TARGETS)
    parser.add_argument(
        "--work", type=Path, default=Path(os.environ.get("OMNIDRAFT_EXPERIMENTS", "omnidraft-experiments"))
    )
    parser.add_argument("--sampled", action="store_true", help="go on with sampled answers")
    parser.add_argument("--compare", action="store_true", help="measure the adapters in --out; train nothing")
    parser.add_argument("--count", type=int, help="prompts of each task, for --sampled (default: all)")
    options = parser.parse_args()
    for target in options.targets:
        if options.compare:
            for line in compared(options.work, target, options.out):
                print(json.dumps(line), flush=True)
            continue
        if options.sampled:
            summary = make_sampled(options.work, target, options.count, options.out)
        else:
            summary = make(options.work, target, options.rank, options.out)
        print(json.dumps(summary), flush=True)


if __name__ == "__main__":
    main()
