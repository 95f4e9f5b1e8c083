"""Conversations sampled from the teacher: it writes half of the requests itself, and all answers.

A request by the teacher is what it puts behind the opening of a user's turn (Magpie, arXiv 2406.08464).
The rows are in JSONL files, whose number is the seed of their requests; a file that exists is not made again.
"""

import json
import random
import re
import time
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from recipes.drafter.prompts import task_prompts, word_list_prompt
from recipes.drafter.sampler import Request, Sampler

ROWS = {"cuda": 3072, "cpu": 64}  # prompts at once
FILE_ROWS = {"cuda": 8192, "cpu": 128}
LENGTH = 512
ANSWER_TOKENS = (64, 128, 192, 256)
REQUEST_TOKENS = 80
PROMPT_TOKENS = 250  # longer prompts are left out
TEMPERATURES = (0.0, 0.0, 0.4, 0.6, 0.7, 0.8, 1.0)
LOOP_RATIO = 0.22  # zlib makes less of a text that repeats itself
KINDS = ("words", "tasks", "own", "own", "tasks", "own", "text", "own", "code")  # of the requests, in turn
_CONCISE = "You are a helpful, concise assistant."
SYSTEMS = (None, None, None, "You are a helpful assistant.", _CONCISE, "Answer briefly.")
_FUNCTION = re.compile(r'^def \w+\(.*\).*:\n    """(?:.*\n)*?.*"""\n', re.MULTILINE)

Turn = dict[str, str]


def sample(
    teacher: str, out: Path, texts: list[str], code: list[str], *, device: str, seconds: float, stop: Path
) -> None:
    """Sample until `seconds` have passed.

    Args:
        teacher: folder of a Hugging Face checkpoint with a ChatML template.
        out: folder of the JSONL files.
        texts: public texts, of which the teacher continues short passages.
        code: Python code, of whose functions the teacher gets the head and the docstring.
        device: cuda or cpu.
        seconds: after which it ends; the rows that are under way are left out.
        stop: while this file exists, wait.
    """
    begun = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    tokenizer: Any = AutoTokenizer.from_pretrained(teacher)
    ends = [tokenizer.convert_tokens_to_ids(name) for name in ("<|im_end|>", "<|endoftext|>")]
    model = AutoModelForCausalLM.from_pretrained(teacher, dtype=torch.float32)
    sampler = Sampler(model, rows=ROWS[device], length=LENGTH, end_ids=ends, device=device)
    number = sum(1 for _ in out.glob("*.jsonl"))
    torch.manual_seed(number)
    heads = [found.group() for text in code for found in _FUNCTION.finditer(text)]
    sources = {"tasks": task_prompts(), "text": texts, "code": [head for head in heads if len(head) < 800]}
    answered: deque[Request] = deque()
    rows: list[str] = []
    spent = 0
    started = time.monotonic()
    for request, ids in sampler.answers(_requests(tokenizer, sources, answered, random.Random(number))):
        spent += len(ids)
        ended, text = ids[-1] in ends, tokenizer.decode(ids, skip_special_tokens=True)
        if request.row["kind"] == "request":
            if asked := _whole(text, ended):
                answered.append(_answer(tokenizer, request.row["system"], asked, "own", request.temperature))
        elif not is_loop(text):
            kept = {key: value for key, value in request.row.items() if key != "system"}
            rows.append(json.dumps({**kept, "answer": text, "ended": ended}, ensure_ascii=False) + "\n")
        if len(rows) == FILE_ROWS[device]:
            path = out / f"{number:05d}.jsonl"
            part = path.with_suffix(".part")
            part.write_text("".join(rows), "utf-8")
            part.rename(path)
            rows, number = [], number + 1
            print(f"{path.name}: {spent / (time.monotonic() - started):.0f} tokens/s of answers", flush=True)
        if time.monotonic() - begun > seconds:
            return
        while stop.exists():
            time.sleep(5)


def _requests(
    tokenizer: Any, sources: dict[str, list[str]], answered: deque[Request], order: random.Random
) -> Iterator[Request]:
    """Requests without end; those that the teacher wrote itself come first."""
    number = 0
    while True:
        if answered:
            yield answered.popleft()
            continue
        kind, number = KINDS[number % len(KINDS)], number + 1
        warmth, system = order.choice(TEMPERATURES), order.choice(SYSTEMS)
        if kind == "own":
            start = _chatml(_turns(system, "")).rpartition("<|im_end|>")[0]
            row: dict[str, Any] = {"kind": "request", "system": system}
            yield Request(tokenizer.encode(start), 0.8, REQUEST_TOKENS, row)
        elif kind == "text":
            opening = _passage(order.choice(sources["text"]), order)
            row = {"opening": opening, "kind": kind, "temperature": warmth}
            yield Request(tokenizer.encode(opening), warmth, order.choice(ANSWER_TOKENS), row)
        else:
            asked = word_list_prompt(order) if kind == "words" else order.choice(sources[kind])
            request = _answer(tokenizer, system if kind == "words" else None, asked, kind, warmth)
            request.new_tokens = order.choice(ANSWER_TOKENS)
            if len(request.ids) <= PROMPT_TOKENS:
                yield request


def _answer(tokenizer: Any, system: str | None, asked: str, kind: str, warmth: float) -> Request:
    turns = _turns(system, asked)
    ids = tokenizer.encode(_chatml(turns) + "<|im_start|>assistant\n")
    row = {"messages": turns, "kind": kind, "temperature": warmth}
    return Request(ids, warmth, ANSWER_TOKENS[-1], row)


def is_loop(text: str) -> bool:
    """Whether a text is empty or repeats itself over and over."""
    data = text.encode("utf-8")
    return len(data) < 8 or (len(data) > 200 and len(zlib.compress(data)) < LOOP_RATIO * len(data))


def _whole(text: str, ended: bool) -> str:
    """A request without its last sentence if that was cut."""
    last = max(text.rfind(mark) for mark in (". ", "? ", ".\n", "?\n"))
    return (text if ended else text[: last + 1]).strip()


def _passage(text: str, order: random.Random) -> str:
    """About fifty words from a random word of a text."""
    words = text.split(" ")
    start = order.randrange(max(1, len(words) - 60))
    return " ".join(words[start : start + 50])[:800]


def _turns(system: str | None, request: str) -> list[Turn]:
    first = [{"role": "system", "content": system}] if system else []
    return [*first, {"role": "user", "content": request}]


def _chatml(messages: list[Turn]) -> str:
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
