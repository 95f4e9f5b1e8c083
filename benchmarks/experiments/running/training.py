"""Train an arm's drafter on cached answers; what was trained is kept in the work directory."""

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
from benchmarks.experiments.running.pairs import torch_model, weights
from benchmarks.experiments.running.recipes import Recipe
from omnidraft.learning.positions.alignment import Aligned, Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.training.objectives import objective
from omnidraft.training.trainer import Trainer

KEEP = 32  # draft ids that a distribution lists
MAX_LENGTH = 512  # draft tokens of a prompt and its answer; longer prompts teach nothing and are left out


@dataclass(frozen=True)
class Training:
    """What makes a trained drafter what it is."""

    target: str
    task: str
    recipe: Recipe
    count: int
    seed: int

    @property
    def key(self) -> str:
        """A name that changes with each of these."""
        told = json.dumps(
            [self.target, self.task, self.recipe.as_json(), self.count, self.seed], sort_keys=True
        )
        return f"{self.target}-{self.task}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"

    def drafter(self, work: Path) -> tuple[PreTrainedModel, dict[str, Any]]:
        """The trained drafter, and what its training tells: steps, skipped, first and last losses."""
        file, told = work / "drafters" / f"{self.key}.safetensors", work / "drafters" / f"{self.key}.json"
        if told.exists() and file.exists():
            alpha = self.recipe.trainer_options(self.seed).lora_alpha
            return restore(file, self.recipe.lora_rank, alpha), json.loads(told.read_text("utf-8"))
        responses = aligned(work, self.target, self.task, self.count)
        trainer = Trainer(
            torch_model("drafter"),
            self.recipe.trainer_options(self.seed),
            objective=objective(self.recipe.objective, **self.recipe.settings),
        )
        reports = trainer.train(responses)
        ten = max(1, len(reports) // 10)
        found = {
            "answers": len(responses),
            "steps": trainer.steps,
            "skipped": trainer.skipped,
            "first_loss": round(sum(r.loss for r in reports[:ten]) / ten, 4),
            "last_loss": round(sum(r.loss for r in reports[-ten:]) / ten, 4),
        }
        model: Any = trainer.model
        save(model, file)
        told.write_text(json.dumps(found), "utf-8")
        return model, found


@lru_cache(maxsize=2)
def aligned(work: Path, target: str, task: str, count: int) -> list[Aligned]:
    """The first answers of a target to a task, as training positions."""
    return align(weights(work, target), load(work, target, task, "train", count))


def align(pair: LoadedBundle, answers: Sequence[Answer]) -> list[Aligned]:
    """Answers as training positions; those whose prompt fills the length are left out."""
    aligner = Aligner(full_trie(pair.vocab_map), max_length=MAX_LENGTH, keep=KEEP)
    bos = pair.bundle.drafter.bos_id
    start = [] if bos is None else [bos]
    found = [
        aligner.align([*start, *each.draft_prompt], each.tokens, each.rows, before=each.prompt[-1])
        for each in answers
        if len(each.draft_prompt) < MAX_LENGTH - 8
    ]
    return [each for each in found if len(each.tokens.ids)]
