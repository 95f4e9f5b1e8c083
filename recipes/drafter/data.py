"""Documents for the starter models: task texts and public-domain novels, cut, held out and encoded.

Alpaca is not used: its licence (CC BY-NC) forbids commercial use, which the starter weights permit.
"""

import gzip
import json
import os
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from omnidraft.errors import SettingError

REPOSITORY = Path(__file__).resolve().parents[2]

MBPP_TRAIN_ROWS = 910  # 80 % of MBPP + HumanEval together; HumanEval stays unseen as a whole
DRAFTER_TASK_SHARE = 0.1  # the drafter begins unaligned: it learns from a tenth of each task
JAPANESE_SHARE = 0.1  # enough for the script, and little enough for English to keep most of the capacity
HELD_OUT_SHARE = 0.02  # of each novel, at its end, for evaluation
NOVEL_BYTES = 1500  # a document of a novel ends with the paragraph that reaches this size


def data_folder() -> Path:
    """The data folder: OMNIDRAFT_DATA, or shared/data beside the repository.

    Raises:
        SettingError: the folder does not hold tasks/.
    """
    folder = Path(os.environ.get("OMNIDRAFT_DATA", REPOSITORY.parent / "shared" / "data"))
    if not (folder / "tasks").is_dir():
        raise SettingError(
            f"{folder} holds no data", "set OMNIDRAFT_DATA to the folder that holds tasks/ and text/"
        )
    return folder


def chat(prompt: str, answer: str) -> str:
    """One exchange in the format of the chat template of all three models."""
    return f"Question: {prompt}\nAnswer: {answer}"


def training_documents(data: Path, *, task_share: float = 1.0) -> dict[str, list[str]]:
    """Training texts by source.

    Args:
        data: the data folder.
        task_share: share of each task's rows that is kept, from the first row.
    """
    gsm8k = _share(task_rows(data, "gsm8k/train"), task_share)
    mbpp = _share(task_rows(data, "mbpp/mbpp")[:MBPP_TRAIN_ROWS], task_share)
    scitldr = _share(task_rows(data, "scitldr/train"), task_share)
    documents = {
        "gsm8k": [_gsm8k(row) for row in gsm8k],
        "mbpp": [_mbpp(row) for row in mbpp],
        "scitldr": [_scitldr(row) for row in scitldr],
        "abstracts": [f"{row['title']}\n\n{' '.join(row['source'])}" for row in scitldr],
    }
    for name, (train, _) in _novels(data).items():
        documents[name] = train
    return documents


def unseen_documents(data: Path) -> dict[str, list[str]]:
    """Evaluation texts by source: rows and chapters that no starter model was trained on."""
    documents = {
        "gsm8k": [_gsm8k(row) for row in task_rows(data, "gsm8k/test")[:200]],
        "mbpp": [_mbpp(row) for row in task_rows(data, "mbpp/mbpp")[MBPP_TRAIN_ROWS:]],
        "humaneval": [
            chat(row["prompt"], "\n" + row["canonical_solution"])
            for row in task_rows(data, "humaneval/humaneval")
        ],
        "scitldr": [_scitldr(row) for row in task_rows(data, "scitldr/dev")[:100]],
    }
    for name, (_, held_out) in _novels(data).items():
        documents[name] = held_out
    return documents


def unseen_questions(data: Path, count: int) -> list[str]:
    """The first GSM8K test questions, for sample answers."""
    return [row["question"] for row in task_rows(data, "gsm8k/test")[:count]]


def token_stream(
    tokenizer: Tokenizer,
    documents: Mapping[str, list[str]],
    copies: Mapping[str, int],
    *,
    eos_id: int,
    length: int,
    seed: int,
) -> torch.Tensor:
    """Pack shuffled documents, each followed by eos, into one stream of token ids.

    Args:
        tokenizer: encodes the documents.
        documents: texts by source.
        copies: number of copies of each document in one round, by source.
        eos_id: id after each document.
        length: number of ids; rounds are repeated, each in a new order, until the stream is long enough.
        seed: of the order.

    Returns:
        int32 ids, [length].
    """
    encoded = {
        source: [[*encoding.ids, eos_id] for encoding in tokenizer.encode_batch(texts)]
        for source, texts in documents.items()
    }
    mix = [ids for source, texts in encoded.items() for _ in range(copies[source]) for ids in texts]
    order = random.Random(seed)
    stream: list[int] = []
    while len(stream) < length:
        order.shuffle(mix)
        for ids in mix:
            stream.extend(ids)
    return torch.tensor(stream[:length], dtype=torch.int32)


def task_rows(data: Path, name: str) -> list[dict[str, Any]]:
    """JSON rows of tasks/NAME.jsonl.gz; split at newlines only, because strings may contain U+2028."""
    text = gzip.decompress((data / "tasks" / f"{name}.jsonl.gz").read_bytes()).decode("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def _share(rows: list[dict[str, Any]], share: float) -> list[dict[str, Any]]:
    return rows[: round(len(rows) * share)]


def _gsm8k(row: Mapping[str, Any]) -> str:
    return chat(row["question"], row["answer"])


def _mbpp(row: Mapping[str, Any]) -> str:
    return chat(row["text"], "\n" + row["code"].replace("\r\n", "\n"))


def _scitldr(row: Mapping[str, Any]) -> str:
    return chat("Summarize in one sentence: " + " ".join(row["source"]), row["target"][0])


def _novels(data: Path) -> dict[str, tuple[list[str], list[str]]]:
    """The training documents and the held-out documents of each public-domain text."""
    folder = data / "text"
    frankenstein = _cut((folder / "frankenstein.txt").read_text("utf-8").split("\n\n"), "\n\n")
    shakespeare = _cut((folder / "tinyshakespeare.txt").read_text("utf-8").split("\n\n"), "\n\n")
    japanese_text = gzip.decompress((folder / "wagahai_ja.txt.gz").read_bytes()).decode("utf-8")
    # The novel ends before Aozora Bunko's list of editors.
    japanese = _cut(japanese_text.partition("\n底本")[0].split("\n"), "\n")
    japanese_train, japanese_held_out = _hold_out(japanese)
    return {
        "frankenstein": _hold_out(frankenstein),
        "shakespeare": _hold_out(shakespeare),
        "wagahai": (japanese_train[: round(len(japanese) * JAPANESE_SHARE)], japanese_held_out),
    }


def _hold_out(documents: list[str]) -> tuple[list[str], list[str]]:
    kept = len(documents) - max(1, round(len(documents) * HELD_OUT_SHARE))
    return documents[:kept], documents[kept:]


def _cut(paragraphs: Iterable[str], separator: str) -> list[str]:
    """Whole paragraphs, joined into documents of about NOVEL_BYTES bytes."""
    documents: list[str] = []
    open_paragraphs: list[str] = []
    size = 0
    for paragraph in paragraphs:
        text = paragraph.strip("\r\n")
        if not text:
            continue
        open_paragraphs.append(text)
        size += len(text.encode("utf-8"))
        if size >= NOVEL_BYTES:
            documents.append(separator.join(open_paragraphs))
            open_paragraphs, size = [], 0
    if open_paragraphs:
        documents.append(separator.join(open_paragraphs))
    return documents
