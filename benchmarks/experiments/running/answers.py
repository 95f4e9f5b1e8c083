"""Each target's greedy answers to each task's prompts, with distributions: computed once, kept in shards.

    python -m benchmarks.experiments prepare

Greedy text does not depend on the drafter, so every arm reads these answers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.experiments.running import answer_files
from benchmarks.experiments.running.answer_files import Arrays, Texts, target_rows
from benchmarks.experiments.running.pairs import TARGETS, fitting, load_pair, torch_model
from benchmarks.experiments.running.tasks import TASKS, Split, spread
from benchmarks.support.responses import Response, respond
from omnidraft.errors import SettingError
from omnidraft.learning.positions.target_rows import TargetRows

TOP = 64  # ids that are kept of a row
MAX_NEW_TOKENS = 96
MAX_PROMPT = 800  # target ids; longer prompts are left out
NUM_TEST = 80
COUNTS = {"gsm8k": 7473, "code": 910, "alpaca": 8000, "scitldr": 1992}  # training prompts that are answered
FIRST = 1024  # the answers to these come before the rest, in all tasks
BATCH = 64  # prompts that are answered at once
_SHARD = 256


@dataclass(frozen=True)
class Answer:
    """A greedy answer.

    Attributes:
        prompt: in target ids.
        draft_prompt: in draft ids, without the start token.
        tokens: the answer, in target ids.
        rows: the target's distribution at each token.
    """

    prompt: tuple[int, ...]
    draft_prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    rows: TargetRows


@dataclass(frozen=True)
class Shard:
    """A range of a task's prompts of a split, answered by a target."""

    target: str
    task: str
    split: Split
    start: int
    stop: int

    def file(self, work: Path) -> Path:
        """The shard's file."""
        name = f"{self.target}-{self.task}-{self.split}-{self.start:05}-{self.stop:05}.npz"
        return work / "answers" / name


def plan() -> list[Shard]:
    """All shards; those that every experiment needs come first."""
    shards = list[Shard]()
    for first, last in ((0, FIRST), (FIRST, max(COUNTS.values()))):
        for task, count in COUNTS.items():
            for target in TARGETS:
                if not first:
                    shards.append(Shard(target, task, "test", 0, NUM_TEST))
                starts = range(first, min(last, count), _SHARD)
                shards += [Shard(target, task, "train", at, min(at + _SHARD, last, count)) for at in starts]
    return shards


def prompts_of(task: str, split: Split) -> list[str]:
    """All training prompts, or the test prompts that arms are measured on."""
    prompts = TASKS[task].prompts(split)
    return prompts if split == "train" else spread(prompts, NUM_TEST)


def compute(work: Path, shard: Shard) -> None:
    """Answer the prompts of a shard with its target, and write the shard."""
    pair = load_pair(work, shard.target)
    texts = prompts_of(shard.task, shard.split)[shard.start : shard.stop]
    prompts = fitting(pair, texts, MAX_PROMPT)
    responses = respond(
        torch_model(shard.target), [prompt for prompt, _ in prompts.values()], max_new_tokens=MAX_NEW_TOKENS,
        top=TOP, batch_size=BATCH, eos_ids=pair.bundle.target.eos_ids,
    )  # fmt: skip
    by_place = dict(zip(prompts, responses, strict=True))
    write(shard.file(work), [(by_place[i], prompts[i][1]) for i in sorted(prompts)])


def load(
    work: Path, target: str, task: str, split: Split = "train", count: int | None = None
) -> list[Answer]:
    """The first `count` answers of a target to a task, or all that were computed.

    Raises:
        SettingError: fewer were computed, or none.
    """
    answers: list[Answer] = []
    for shard in present(work, target, task, split):
        if count is not None and len(answers) >= count:
            break
        answers += _read(shard.file(work))
    if not answers or (count is not None and len(answers) < count):
        raise SettingError(
            f"{work} has {len(answers)} answers of {target} to {task} ({split}), not {count or 1}",
            "run `python -m benchmarks.experiments prepare` first",
        )
    return answers[:count]


def present(work: Path, target: str, task: str, split: Split) -> list[Shard]:
    """The shards on disk, from the first prompt up to the first gap."""
    shards, end = list[Shard](), 0
    for file in sorted((work / "answers").glob(f"{target}-{task}-{split}-*.npz")):
        start, stop = (int(part) for part in file.stem.split("-")[-2:])
        if start != end:
            break
        shards.append(Shard(target, task, split, start, stop))
        end = stop
    return shards


def write(path: Path, answers: Sequence[tuple[Response | Answer, Sequence[int]]]) -> None:
    """Write a shard: answers, each with its prompt in draft ids."""
    texts = [Texts(answer.prompt, tuple(draft_prompt), answer.tokens) for answer, draft_prompt in answers]
    arrays: Arrays = {
        "ids": np.concatenate([r.rows.ids for r, _ in answers]).astype(np.uint16),
        "probabilities": np.concatenate([r.rows.probabilities for r, _ in answers]).astype(np.float16),
    }
    answer_files.write(path, texts, arrays)


def _read(path: Path) -> Iterator[Answer]:
    arrays, answers = answer_files.read(path)
    for texts, span in answers:
        rows = target_rows(arrays["ids"][span], arrays["probabilities"][span])
        yield Answer(*texts, rows)
