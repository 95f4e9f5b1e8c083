"""Documents of the tasks' training rows and of public-domain novels, whose ends are held out.

Alpaca is not used: its licence (CC BY-NC) forbids commercial use, which the weights permit.
"""

from pathlib import Path

from benchmarks.support.task_data import DATA, rows
from benchmarks.support.task_prompts import FIRST_UNSEEN_MBPP

HELD_OUT_SHARE = 0.02  # of each novel, at its end, for evaluation
NOVEL_BYTES = 1500  # a document of a novel ends with the paragraph that reaches this size


def training_documents() -> dict[str, list[str]]:
    """Training texts by source.

    Raises:
        SettingError: OMNIDRAFT_DATA has no tasks.
    """
    scitldr = rows("scitldr/train")
    return {
        "gsm8k": [_chat(row["question"], row["answer"]) for row in rows("gsm8k/train")],
        "mbpp": [
            _chat(row["text"], "\n" + row["code"].replace("\r\n", "\n"))
            for row in rows("mbpp/mbpp")[:FIRST_UNSEEN_MBPP]
        ],
        "scitldr": [
            _chat("Summarize in one sentence: " + " ".join(row["source"]), row["target"][0])
            for row in scitldr
        ],
        "abstracts": [f"{row['title']}\n\n{' '.join(row['source'])}" for row in scitldr],
        "frankenstein": _novel(DATA / "text/frankenstein.txt"),
        "shakespeare": _novel(DATA / "text/tinyshakespeare.txt"),
    }


def _chat(prompt: str, answer: str) -> str:
    return f"Question: {prompt}\nAnswer: {answer}"


def _novel(file: Path) -> list[str]:
    """Whole paragraphs, joined into documents of about NOVEL_BYTES bytes; the last ones are held out."""
    documents: list[str] = []
    paragraphs: list[str] = []
    for paragraph in file.read_text("utf-8").split("\n\n"):
        if text := paragraph.strip("\r\n"):
            paragraphs.append(text)
        if sum(len(each.encode("utf-8")) for each in paragraphs) >= NOVEL_BYTES:
            documents.append("\n\n".join(paragraphs))
            paragraphs = []
    if paragraphs:
        documents.append("\n\n".join(paragraphs))
    return documents[: len(documents) - max(1, round(len(documents) * HELD_OUT_SHARE))]
