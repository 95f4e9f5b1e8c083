"""All texts as one stream of draft tokens: documents drawn by source, chats in the forms a drafter meets.

A drafter reads its target's prompt with the target's control tokens translated where they have a pair (the
end of a turn, as a rule) and left out where they have none: each chat is written in one of several forms.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from benchmarks.support.task_data import rows
from benchmarks.support.task_prompts import FIRST_UNSEEN_MBPP

END = "<|im_end|>"
START = "<|im_start|>"
SPLIT = "<|endoftext|>"  # between documents, and behind a text that has an end

# (what is before each role's message, what is behind a message), by role
_FORMS: dict[str, tuple[Mapping[str, str], str]] = {
    "chatml": ({role: f"{START}{role}\n" for role in ("system", "user", "assistant")}, f"{END}\n"),
    "chatml without start": ({role: f"{role}\n" for role in ("system", "user", "assistant")}, f"{END}\n"),
    "llama 3": ({role: f"{role}\n\n" for role in ("system", "user", "assistant")}, END),
    "gemma": ({"system": "user\n", "user": "user\n", "assistant": "model\n"}, f"{END}\n"),
    "gemma without end": ({"system": "user\n", "user": "user\n", "assistant": "model\n"}, "\n"),
    "phi": ({"system": "\n", "user": "\n", "assistant": "\n"}, f"{END}\n"),
    "instruct": ({"system": "", "user": "[INST] ", "assistant": " [/INST] "}, ""),
    "question": ({"system": "", "user": "Question: ", "assistant": "Answer: "}, "\n"),
    "plain": ({"system": "", "user": "", "assistant": ""}, "\n\n"),
}
_SHARES = (2, 5, 2, 1, 1, 1, 1, 4, 2)  # of the forms
WEIGHTS = {  # share of each source in the characters of the stream
    "samples": 110.0,
    "gsm8k": 6.0,
    "mbpp": 1.5,
    "scitldr": 2.0,
    "abstracts": 2.0,
    "frankenstein": 0.7,
    "shakespeare": 0.3,
    "moby-dick": 4.0,
    "sotu": 3.0,
    "python3.11-doc": 4.0,
    "rust-doc": 4.0,
    "nodejs-doc": 1.0,
    "python-django-doc": 3.5,
    "sqlite3-doc": 2.0,
    "python": 2.0,
    "packages": 2.0,
}

Render = Callable[[random.Random], str]


def chat_text(messages: Sequence[Mapping[str, str]], order: random.Random, *, ended: bool) -> str:
    """A conversation in a form drawn at random; without its last end where the answer was cut."""
    before, behind = _FORMS[order.choices(list(_FORMS), _SHARES)[0]]
    text = "".join(f"{before[m['role']]}{m['content']}{behind}" for m in messages)
    last = text[: len(text) - len(behind)] if behind else text
    return last + (END if ended else "")


def load_documents(samples: Path, texts: Path) -> dict[str, list[Render]]:
    """Documents by source, as functions that write them: samples, texts.json if it is there, and tasks."""
    documents: dict[str, list[Render]] = {"samples": []}
    for path in sorted(samples.glob("*.jsonl")):
        lines = path.read_text("utf-8").split("\n")
        documents["samples"] += [_sample(json.loads(line)) for line in lines if line]
    free = json.loads(texts.read_text("utf-8")) if texts.exists() else {}
    for name, plain in free.items():
        if name not in ("gsm8k", "mbpp", "scitldr"):
            documents[name] = [_plain(text) for text in plain]
    for row in rows("gsm8k/train"):
        documents.setdefault("gsm8k", []).append(_chat(row["question"], row["answer"]))
    for row in rows("mbpp/mbpp")[:FIRST_UNSEEN_MBPP]:
        code = row["code"].replace("\r\n", "\n")
        documents.setdefault("mbpp", []).append(_chat(row["text"], f"```python\n{code}\n```"))
    for row in rows("scitldr/train"):
        request = f"Summarize in one sentence: {' '.join(row['source'])}"
        documents.setdefault("scitldr", []).append(_chat(request, row["target"][0]))
    return {name: found for name, found in documents.items() if found}


def _plain(text: str) -> Render:
    return lambda order: text


def _chat(request: str, answer: str) -> Render:
    messages = [{"role": "user", "content": request}, {"role": "assistant", "content": answer}]
    return lambda order: chat_text(messages, order, ended=True)


def _sample(row: Mapping[str, Any]) -> Render:
    if "opening" in row:
        return _plain(row["opening"] + row["answer"])
    messages = [*row["messages"], {"role": "assistant", "content": row["answer"]}]
    return lambda order: chat_text(messages, order, ended=row["ended"])


def token_stream(
    documents: Mapping[str, Sequence[Render]],
    tokenizer: Tokenizer,
    imitated: Sequence[Tokenizer],
    *,
    length: int,
    seed: int,
) -> torch.Tensor:
    """A stream of `length` ids, int32, in which each document stands behind SPLIT.

    Half of the documents are spelled as a target's text is: each token of another tokenizer on its own.

    Args:
        documents: by source, drawn with WEIGHTS.
        tokenizer: the drafter's.
        imitated: tokenizers of other families.
        length: ids.
        seed: of all draws.
    """
    order = random.Random(seed)
    bags: dict[str, list[Render]] = {name: [] for name in documents}
    spent = dict.fromkeys(documents, 0.0)
    split = _id(tokenizer, SPLIT)
    stream: list[int] = []
    while len(stream) < length:
        source = min(spent, key=spent.__getitem__)  # the source that is furthest behind its share
        if not bags[source]:
            bags[source] = order.sample(list(documents[source]), len(documents[source]))
        text = bags[source].pop()(order)
        spent[source] += (len(text) + 1) / WEIGHTS[source]
        stream.append(split)
        if imitated and order.random() < 0.5:
            stream += spell(tokenizer, text, order.choice(imitated))
        else:
            stream += tokenizer.encode(text, add_special_tokens=False).ids
    return torch.tensor(stream[:length], dtype=torch.int32)


def spell(tokenizer: Tokenizer, text: str, imitated: Tokenizer) -> list[int]:
    """Draft tokens of each token of another tokenizer on its own; control tokens of a chat stay whole."""
    ids: list[int] = []
    for part in _parts(text):
        if part in (START, END):
            ids.append(_id(tokenizer, part))
            continue
        place = 0
        for _, end in imitated.encode(part, add_special_tokens=False).offsets:
            ids += _piece(tokenizer, part[place:end])  # also what the other tokenizer left out
            place = max(place, end)
        ids += _piece(tokenizer, part[place:])
    return ids


def _id(tokenizer: Tokenizer, control: str) -> int:
    number = tokenizer.token_to_id(control)
    assert number is not None, f"the tokenizer has no {control}"
    return number


@lru_cache(maxsize=200_000)
def _piece(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False).ids)


def _parts(text: str) -> list[str]:
    """Text cut around the control tokens of a chat."""
    parts = [text]
    for control in (START, END):
        parts = [q for part in parts for q in _with_separator(part, control)]
    return [part for part in parts if part]


def _with_separator(text: str, control: str) -> list[str]:
    first, *rest = text.split(control)
    return [first, *(piece for after in rest for piece in (control, after))]
