"""The four tasks as prompts, split as in the paper: GSM8K, code, Alpaca, SciTLDR (in place of XSum)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from benchmarks.support.task_data import rows

Split = Literal["train", "test"]
CODE_TRAIN = 910  # 80 % of the 1,138 rows of MBPP and HumanEval; all of them are MBPP's


@dataclass(frozen=True)
class Task:
    """Prompts of one kind.

    Attributes:
        name: a short name.
        title: the name in tables.
        prompts: all prompts of a split, in the order of the file.
        answers: the reference answers of the training prompts.
    """

    name: str
    title: str
    prompts: Callable[[Split], list[str]]
    answers: Callable[[], list[str]]


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
    file = "scitldr/train" if split == "train" else "scitldr/dev"
    return ["Summarize in one sentence: " + " ".join(row["source"]) for row in rows(file)]


def _code_answers() -> list[str]:
    """The first 910 answers of MBPP and HumanEval together, as in the paper."""
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
    """`count` items, evenly spread over the list: the test rows of code are MBPP's, then HumanEval's."""
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]
