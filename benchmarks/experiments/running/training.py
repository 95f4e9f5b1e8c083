"""Train an arm's drafter on cached answers; trained drafters are kept in the work directory."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from benchmarks.experiments.running.answers import Answer, load
from benchmarks.experiments.running.drafters import restore, save
from benchmarks.experiments.running.pairs import load_pair, torch_model
from benchmarks.experiments.running.recipes import Recipe
from omnidraft.learning.positions.alignment import Aligned, Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.training.objectives import objective
from omnidraft.training.trainer import Trainer

KEEP = 32  # draft ids that a distribution lists
MAX_LENGTH = 512  # draft tokens of a prompt and its answer; longer prompts leave no room for an answer


@dataclass(frozen=True)
class Training:
    """All that a trained drafter depends on."""

    target: str
    task: str
    recipe: Recipe
    count: int
    seed: int

    @property
    def key(self) -> str:
        """A name that differs where any of the attributes does."""
        values = [self.target, self.task, self.recipe.as_json(), self.count, self.seed]
        digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
        return f"{self.target}-{self.task}-{digest[:12]}"

    def drafter(self, work: Path) -> tuple[PreTrainedModel, dict[str, Any]]:
        """The trained drafter, and a summary of its training: steps, skipped, first and last losses."""
        file, summary_file = (
            work / "drafters" / f"{self.key}{suffix}" for suffix in (".safetensors", ".json")
        )
        if summary_file.exists() and file.exists():
            alpha = self.recipe.trainer_options(self.seed).lora_alpha
            return restore(file, self.recipe.lora_rank, alpha), json.loads(summary_file.read_text("utf-8"))
        responses = aligned(work, self.target, self.task, self.count)
        trainer = Trainer(
            torch_model("drafter"),
            self.recipe.trainer_options(self.seed),
            objective=objective(self.recipe.objective, **self.recipe.settings),
        )
        reports = trainer.train(responses)
        tenth = max(1, len(reports) // 10)
        summary = {
            "answers": len(responses),
            "steps": trainer.steps,
            "skipped": trainer.skipped,
            "first_loss": round(sum(r.loss for r in reports[:tenth]) / tenth, 4),
            "last_loss": round(sum(r.loss for r in reports[-tenth:]) / tenth, 4),
        }
        model: Any = trainer.model
        save(model, file)
        summary_file.write_text(json.dumps(summary), "utf-8")
        return model, summary


@lru_cache(maxsize=2)
def aligned(work: Path, target: str, task: str, count: int) -> list[Aligned]:
    """The first answers of a target to a task, as training positions."""
    return align(load_pair(work, target), load(work, target, task, "train", count))


def align(pair: LoadedBundle, answers: Sequence[Answer]) -> list[Aligned]:
    """Answers as training positions, without those whose prompt fills the length."""
    aligner = Aligner(full_trie(pair.vocab_map), max_length=MAX_LENGTH, keep=KEEP)
    bos = pair.bundle.drafter.bos_id
    start = [] if bos is None else [bos]
    positions = [
        aligner.align([*start, *each.draft_prompt], each.tokens, each.rows, before=each.prompt[-1])
        for each in answers
        if len(each.draft_prompt) < MAX_LENGTH - 8
    ]
    return [each for each in positions if len(each.tokens.ids)]
