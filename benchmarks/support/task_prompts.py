"""Prompts of four tasks, split into those that training may read and those that it must not."""

from benchmarks.support.task_data import rows

FIRST_UNSEEN_MBPP = 910  # rows before it may be trained on; the starters' targets were


def _summarize(row: dict[str, list[str]]) -> str:
    return "Summarize in one sentence: " + " ".join(row["source"])


def seen(count: int) -> dict[str, list[str]]:
    """At most `count` prompts of each task that training may read."""
    return {
        "GSM8K": [row["question"] for row in rows("gsm8k/train")[:count]],
        "MBPP": [row["text"] for row in rows("mbpp/mbpp")[: min(count, FIRST_UNSEEN_MBPP)]],
        "SciTLDR": [_summarize(row) for row in rows("scitldr/train")[:count]],
    }


def unseen(count: int) -> dict[str, list[str]]:
    """`count` prompts of each task that no model of this project was trained on."""
    mbpp = rows("mbpp/mbpp")[FIRST_UNSEEN_MBPP:]
    return {
        "GSM8K": [row["question"] for row in rows("gsm8k/test")[:count]],
        "MBPP": [row["text"] for row in mbpp[:count]],
        "HumanEval": [row["prompt"] for row in rows("humaneval/humaneval")[:count]],
        "SciTLDR": [_summarize(row) for row in rows("scitldr/dev")[:count]],
    }
