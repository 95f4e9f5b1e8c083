"""The four tasks as prompts, split as in the paper: GSM8K, code, Alpaca, SciTLDR (in XSum's place)."""

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from omnidraft.errors import SettingError

Split = Literal["train", "test"]
DATA = Path(os.environ.get("OMNIDRAFT_DATA") or Path(__file__).resolve().parents[4] / "shared/data")
CODE_TRAIN = 910  # rows of MBPP + HumanEval: 80 % of 1,138, all of them MBPP's


@dataclass(frozen=True)
class Task:
    """Prompts of one kind.

    Attributes:
        name: short. title: for tables.
        prompts: all of a split, in file order.
        answers: reference answers of the training prompts.
    """

    name: str
    title: str
    prompts: Callable[[Split], list[str]]
    answers: Callable[[], list[str]]


def rows(file: str) -> list[dict[str, Any]]:
    """The rows of a task file; lines end at newlines only, as strings may hold U+2028.

    Raises:
        SettingError: there is no task data.
    """
    path = DATA / "tasks" / f"{file}.jsonl.gz"
    if not path.is_file():
        raise SettingError(f"there is no {path}", "set OMNIDRAFT_DATA to the folder that holds tasks/")
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def _gsm8k(split: Split) -> list[str]:
    return [row["question"] for row in rows(f"gsm8k/{split}")]


def _code(split: Split) -> list[str]:
    mbpp = [row["text"] for row in rows("mbpp/mbpp")]
    if split == "train":
        return mbpp[:CODE_TRAIN]
    return mbpp[CODE_TRAIN:] + [row["prompt"] for row in rows("humaneval/humaneval")]


def _alpaca(split: Split) -> list[str]:
    return ["\n".join(p for p in (r["instruction"], r["input"]) if p) for r in rows(f"alpaca/{split}")]


def _scitldr(split: Split) -> list[str]:
    found = rows("scitldr/train" if split == "train" else "scitldr/dev")
    return ["Summarize in one sentence: " + " ".join(row["source"]) for row in found]


def _code_answers() -> list[str]:
    """Of MBPP and HumanEval together: the first 910, as in the paper."""
    mbpp = [row["code"].replace("\r\n", "\n") for row in rows("mbpp/mbpp")]
    return (mbpp + [row["canonical_solution"] for row in rows("humaneval/humaneval")])[:CODE_TRAIN]


TASKS = {
    task.name: task
    for task in (
        Task("gsm8k", "GSM8K", _gsm8k, lambda: [row["answer"] for row in rows("gsm8k/train")]),
        Task("code", "MBPP + HumanEval", _code, _code_answers),
        Task("alpaca", "Alpaca", _alpaca, lambda: [row["output"] for row in rows("alpaca/train")]),
        Task("scitldr", "SciTLDR", _scitldr, lambda: [row["target"][0] for row in rows("scitldr/train")]),
    )
}


def spread(items: list[str], count: int) -> list[str]:
    """So many of a list, evenly over it: the test rows of code are MBPP's, then HumanEval's."""
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]
