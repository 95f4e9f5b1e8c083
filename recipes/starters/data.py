"""Documents for the starter models: task texts and public-domain novels, cut, held out and encoded.

Alpaca is never read here: its licence (CC BY-NC) forbids what the starter weights are for.
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
DRAFTER_TASK_SHARE = 0.1  # the drafter starts out unaligned: it sees a tenth of each task only
JAPANESE_SHARE = 0.1  # enough to know the script, too little to crowd out English
HELD_OUT_SHARE = 0.02  # the end of each novel, for evaluation
NOVEL_BYTES = 1500  # a document of a novel ends at the first paragraph end after so many bytes


def data_folder() -> Path:
    """The data folder: OMNIDRAFT_DATA, or shared/data beside the repository."""
    folder = Path(os.environ.get("OMNIDRAFT_DATA", REPOSITORY.parent / "shared" / "data"))
    if not (folder / "tasks").is_dir():
        raise SettingError(
            f"No data in {str(folder)!r}: set OMNIDRAFT_DATA to the folder that holds tasks/ and text/."
        )
    return folder


def chat(prompt: str, answer: str) -> str:
    """One exchange in the form that the chat template of all three models writes."""
    return f"Question: {prompt}\nAnswer: {answer}"


def training_documents(data: Path, *, task_share: float = 1.0) -> dict[str, list[str]]:
    """Training texts by source; `task_share` keeps only the first rows of each task."""
    gsm8k = _share(_rows(data, "gsm8k/train"), task_share)
    mbpp = _share(_rows(data, "mbpp/mbpp")[:MBPP_TRAIN_ROWS], task_share)
    scitldr = _share(_rows(data, "scitldr/train"), task_share)
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
    """Evaluation texts by source: rows and chapters that no starter model has been trained on."""
    documents = {
        "gsm8k": [_gsm8k(row) for row in _rows(data, "gsm8k/test")[:200]],
        "mbpp": [_mbpp(row) for row in _rows(data, "mbpp/mbpp")[MBPP_TRAIN_ROWS:]],
        "humaneval": [
            chat(row["prompt"], "\n" + row["canonical_solution"])
            for row in _rows(data, "humaneval/humaneval")
        ],
        "scitldr": [_scitldr(row) for row in _rows(data, "scitldr/dev")[:100]],
    }
    for name, (_, held_out) in _novels(data).items():
        documents[name] = held_out
    return documents


def unseen_questions(data: Path, count: int) -> list[str]:
    """The first GSM8K test questions, for sample answers."""
    return [row["question"] for row in _rows(data, "gsm8k/test")[:count]]


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

    The mix (each document as often as `copies` says for its source) is shuffled anew and repeated
    until `length` ids are there. Returns int32 of shape (length,).
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


def _rows(data: Path, name: str) -> list[dict[str, Any]]:
    """JSON rows of tasks/NAME.jsonl.gz; split on newlines only, as strings may hold U+2028."""
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
    """(training, held-out) documents of each public-domain text."""
    folder = data / "text"
    frankenstein = _cut((folder / "frankenstein.txt").read_text("utf-8").split("\n\n"), "\n\n")
    shakespeare = _cut((folder / "tinyshakespeare.txt").read_text("utf-8").split("\n\n"), "\n\n")
    japanese_text = gzip.decompress((folder / "wagahai_ja.txt.gz").read_bytes()).decode("utf-8")
    # Aozora Bunko's list of editors at the end is not part of the novel.
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
    """Join whole paragraphs into documents of about NOVEL_BYTES bytes."""
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
