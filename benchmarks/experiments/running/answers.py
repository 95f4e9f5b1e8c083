"""Each target's greedy answers to each task's prompts, with distributions: computed once, kept in shards.

    python -m benchmarks.experiments prepare

Greedy text does not depend on the drafter, so every arm reads these. A shard is an .npz of flat arrays; ids
are uint16 and probabilities float16, which a row's rest makes a distribution again.
"""

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.experiments.running.pairs import TARGETS, encode, torch_model, weights
from benchmarks.experiments.running.tasks import TASKS, Split, spread
from benchmarks.support.responses import Response, respond
from omnidraft.errors import SettingError
from omnidraft.learning.positions.target_rows import TargetRows

TOP = 64  # ids kept of a row
MAX_NEW_TOKENS = 96
MAX_PROMPT = 800  # target ids; longer prompts are left out
NUM_TEST = 80
COUNTS = {"gsm8k": 7473, "code": 910, "alpaca": 8000, "scitldr": 1992}  # training prompts that are answered
EVERY = 1024  # of them come first, in all tasks
_BATCH = 64
_SHARD = 256


@dataclass(frozen=True)
class Answer:
    """A greedy answer: the prompt in target ids and in draft ids (without start), and what was said."""

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
        """Where it lies."""
        name = f"{self.target}-{self.task}-{self.split}-{self.start:05}-{self.stop:05}.npz"
        return work / "answers" / name


def plan() -> list[Shard]:
    """All shards, the ones that every experiment needs first."""
    found = list[Shard]()
    for first, last in ((0, EVERY), (EVERY, max(COUNTS.values()))):
        for task, count in COUNTS.items():
            for target in TARGETS:
                if not first:
                    found.append(Shard(target, task, "test", 0, NUM_TEST))
                stops = range(first, min(last, count), _SHARD)
                found += [Shard(target, task, "train", at, min(at + _SHARD, last, count)) for at in stops]
    return found


def prompts_of(task: str, split: Split) -> list[str]:
    """All training prompts, or the test prompts that arms are measured on."""
    found = TASKS[task].prompts(split)
    return found if split == "train" else spread(found, NUM_TEST)


def compute(work: Path, shard: Shard) -> None:
    """Let the target answer a shard, and write it."""
    pair = weights(work, shard.target)
    target = torch_model(shard.target)
    texts = prompts_of(shard.task, shard.split)[shard.start : shard.stop]
    pairs = [encode(pair, text) for text in texts]
    places = sorted(
        (i for i, (p, _) in enumerate(pairs) if len(p) <= MAX_PROMPT), key=lambda i: len(pairs[i][0])
    )
    said = respond(
        target, [pairs[i][0] for i in places], max_new_tokens=MAX_NEW_TOKENS, top=TOP, batch_size=_BATCH,
        eos_ids=pair.bundle.target.eos_ids,
    )  # fmt: skip
    found = dict(zip(places, said, strict=True))
    write(shard.file(work), [(found[i], pairs[i][1]) for i in sorted(found)])


def load(
    work: Path, target: str, task: str, split: Split = "train", count: int | None = None
) -> list[Answer]:
    """The first `count` answers of a target to a task, all there are when None.

    Raises:
        SettingError: there are fewer.
    """
    found: list[Answer] = []
    for shard in present(work, target, task, split):
        if count is not None and len(found) >= count:
            break
        found += _read(shard.file(work))
    if not found or (count is not None and len(found) < count):
        raise SettingError(
            f"{work} has {len(found)} answers of {target} to {task} ({split}) and {count or 1} are wanted",
            "run `python -m benchmarks.experiments prepare` first",
        )
    return found[:count]


def present(work: Path, target: str, task: str, split: Split) -> list[Shard]:
    """The shards that are there, without a gap from the first prompt on."""
    found, at = list[Shard](), 0
    for file in sorted((work / "answers").glob(f"{target}-{task}-{split}-*.npz")):
        start, stop = (int(part) for part in file.stem.split("-")[-2:])
        if start != at:
            break
        found.append(Shard(target, task, split, start, stop))
        at = stop
    return found


def write(path: Path, said: Sequence[tuple[Response | Answer, Sequence[int]]]) -> None:
    """A shard of answers and their draft prompts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "ids": np.concatenate([r.rows.ids for r, _ in said]).astype(np.uint16),
        "probabilities": np.concatenate([r.rows.probabilities for r, _ in said]).astype(np.float16),
    }
    for name, lists in (
        ("prompt", [r.prompt for r, _ in said]),
        ("draft_prompt", [draft for _, draft in said]),
        ("tokens", [r.tokens for r, _ in said]),
    ):
        arrays[name] = np.concatenate([np.asarray(each, dtype=np.uint16) for each in lists])
        arrays[f"{name}_lengths"] = np.array([len(each) for each in lists], dtype=np.int32)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    partial.replace(path)


def _read(path: Path) -> Iterator[Answer]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise SettingError(f"{path} cannot be read ({error})", "delete it and prepare it again") from None
    names = ("prompt", "draft_prompt", "tokens")
    split = {
        name: np.split(arrays[name].astype(np.int64), np.cumsum(arrays[f"{name}_lengths"])[:-1])
        for name in names
    }
    ends = np.cumsum(arrays["tokens_lengths"])
    for i, end in enumerate(ends.tolist()):
        span = slice(end - len(split["tokens"][i]), end)
        p = arrays["probabilities"][span].astype(np.float64)
        p /= np.maximum(p.sum(axis=1, keepdims=True), 1.0)  # float16 may round up
        rows = TargetRows(arrays["ids"][span].astype(np.int32), p, np.maximum(1.0 - p.sum(axis=1), 0.0))
        prompt, draft_prompt, tokens = (tuple(split[name][i].tolist()) for name in names)
        yield Answer(prompt, draft_prompt, tokens, rows)
