"""Train a drafter on sampled answers, measuring it on the way."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedModel

from benchmarks.experiments.running.drafters import begin_with, restore, save
from benchmarks.experiments.running.pairs import load_pair, torch_model
from benchmarks.experiments.running.recipes import Recipe
from benchmarks.experiments.running.sampled_answers import MIXED, Pool
from benchmarks.experiments.running.training import MAX_LENGTH
from omnidraft.learning.positions.alignment import Aligned, Aligner, SparseDistributions
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.learning.positions.target_rows import TargetRows
from omnidraft.training.objectives import objective
from omnidraft.training.trainer import Trainer

KEEP = 128  # draft ids of a distribution
Observe = Callable[[int, float, PreTrainedModel], None]  # answers so far, seconds of training, the drafter


@dataclass(frozen=True)
class Course:
    """All that a drafter trained on sampled answers depends on.

    Attributes:
        target: whose answers.
        tasks: prompts of each task, all or the first `count`.
        temperatures: those of the answers that are learned from; of the others nothing is learned.
        recipe: the loss and the trainer's options.
        count: answers of each task and number; None for all.
        pool: the temperatures that answers are sampled at, in turn.
        numbers: of the passes over the prompts; each has other answers.
        repeats: how often the answers are learned from.
        start: the adapter that the drafter begins with: that of a target in examples/starters/learned.
        seed: of the order of the answers.
        by_ngrams: answers are drawn with replacement, each with a weight of 1 and its n-grams.
    """

    target: str
    tasks: tuple[str, ...]
    temperatures: tuple[float, ...]
    recipe: Recipe
    count: int | None = None
    pool: tuple[float, ...] = MIXED
    numbers: tuple[int, ...] = (0,)
    repeats: int = 1
    start: str | None = None
    seed: int = 0
    by_ngrams: bool = False

    def as_json(self) -> dict[str, Any]:
        """Plain values, for an arm's settings and key; the keys of older arms have no `by_ngrams`."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        if not self.by_ngrams:
            del plain["by_ngrams"]
        return plain

    def drafter(
        self, work: Path, points: Sequence[int] = (), observe: Observe | None = None
    ) -> tuple[PreTrainedModel, dict[str, Any]]:
        """The trained drafter and a summary of its training; kept in the work directory without `observe`.

        Args:
            work: the work directory.
            points: numbers of answers after which `observe` is called; 0 is before the first.
            observe: measures the drafter.
        """
        digest = hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()[:12]
        file, summary_file = (
            work / "sampled-drafters" / f"{self.target}-{digest}{end}" for end in (".safetensors", ".json")
        )
        if observe is None and file.exists() and summary_file.exists():
            alpha = self.recipe.trainer_options(self.seed).lora_alpha
            return restore(file, self.recipe.lora_rank, alpha), json.loads(summary_file.read_text("utf-8"))
        loss = objective(self.recipe.objective, **self.recipe.settings)
        trainer = Trainer(torch_model("drafter"), self.recipe.trainer_options(self.seed), objective=loss)
        if self.start is not None:
            begin_with(work, trainer.model, self.start)
        summary = self._train(trainer, self.lessons(work), points, observe)
        model: Any = trainer.model
        save(model, file)
        summary_file.write_text(json.dumps(summary), "utf-8")
        return model, summary

    def lessons(self, work: Path) -> list[Aligned]:
        """The answers as training positions."""
        every = list[Aligned]()
        for number in self.numbers:
            for task in self.tasks:
                every += [
                    lesson
                    for temperature, lesson in _lessons(
                        work, Pool(self.target, task, "train", self.pool, number), self.count
                    )
                    if temperature in self.temperatures
                ]
        return every

    def order(self, lessons: Sequence[Aligned]) -> npt.NDArray[np.int64]:
        """Indices of the answers as they are learned from, `repeats` times as many as there are answers."""
        rng = np.random.default_rng(self.seed)
        if not self.by_ngrams:
            return np.concatenate([rng.permutation(len(lessons)) for _ in range(self.repeats)])
        weights = np.array([1.0 + np.count_nonzero(np.bincount(each.owners) > 1) for each in lessons])
        return rng.choice(len(lessons), self.repeats * len(lessons), p=weights / weights.sum())

    def _train(
        self, trainer: Trainer, lessons: Sequence[Aligned], points: Sequence[int], observe: Observe | None
    ) -> dict[str, Any]:
        order, size = self.order(lessons), trainer.options.batch_size
        total, seconds, losses, left = -(-len(order) // size), 0.0, list[float](), sorted(points)
        if observe is not None and left and left[0] == 0:
            start: Any = trainer.model
            observe(left.pop(0), 0.0, start)
        for at in range(total):
            started = time.thread_time()
            trainer.set_rate(trainer.options.rate_at(at, total))
            losses.append(trainer.step([lessons[i] for i in order[at * size : (at + 1) * size]]).loss)
            seconds += time.thread_time() - started
            answers = min((at + 1) * size, len(order))
            if observe is not None and left and answers >= left[0]:
                left = [each for each in left if each > answers]
                model: Any = trainer.model
                observe(answers, seconds, model)
        tenth = max(1, len(losses) // 10)
        return {
            "answers": len(lessons), "steps": total, "skipped": trainer.skipped,
            "seconds": round(seconds, 1), "first_loss": round(float(np.mean(losses[:tenth])), 4),
            "last_loss": round(float(np.mean(losses[-tenth:])), 4),
        }  # fmt: skip


@lru_cache(maxsize=4)
def _lessons(work: Path, pool: Pool, count: int | None) -> list[tuple[float, Aligned]]:
    """Answers of a pool as training positions, each with its temperature."""
    pair = load_pair(work, pool.target)
    aligner = Aligner(full_trie(pair.vocab_map), max_length=MAX_LENGTH, keep=KEEP)
    bos = pair.bundle.drafter.bos_id
    start, lessons = [] if bos is None else [bos], list[tuple[float, Aligned]]()
    for each in pool.answers(work, len(pool.prompts()) if count is None else count):
        if len(each.draft_prompt) < MAX_LENGTH - 8:
            lesson = aligner.align(
                [*start, *each.draft_prompt], each.tokens, each.rows, before=each.prompt[-1], roots=each.roots
            )
            lessons.append((each.temperature, _slim(lesson)))
    return [(temperature, lesson) for temperature, lesson in lessons if len(lesson.tokens.ids)]


def _slim(lesson: Aligned) -> Aligned:
    """The lesson without what these losses do not read, in small types: a pass has to fit in memory."""
    trie, rows = lesson.trie_distributions, lesson.target_rows
    small = SparseDistributions(
        trie.rows, trie.ids.astype(np.int16), trie.probabilities.astype(np.float16), trie.other, trie.weights
    )
    direct = lesson.direct_distributions
    none = replace(direct, ids=direct.ids[:, :1], probabilities=direct.probabilities[:, :1])
    cut = TargetRows(rows.ids[:, :1], rows.probabilities[:, :1], rows.rest)
    return replace(lesson, trie_distributions=small, direct_distributions=none, target_rows=cut)
