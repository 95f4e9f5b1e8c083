"""Conversations sampled from the teacher: it writes half of the requests itself, and all answers.

A request by the teacher is what it puts behind the opening of a user's turn (Magpie, arXiv 2406.08464).
Each batch is one JSONL file, whose number is its seed; files that exist are not made again.
"""

import json
import random
import time
import zlib
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from recipes.drafter.prompts import task_prompts, word_list_prompt
from recipes.drafter.sampler import Sampler

ROWS = 128
ANSWER_TOKENS = 320
REQUEST_TOKENS = 80
PROMPT_TOKENS = 320  # longer prompts are left out
TEMPERATURES = (0.0, 0.4, 0.6, 0.8, 0.8, 1.0)
LOOP_RATIO = 0.22  # zlib makes less of a text that repeats itself
KINDS = ("words", "tasks", "own", "words", "own", "words", "text")  # of the batches, in turn
_CONCISE = "You are a helpful, concise assistant."
SYSTEMS = (None, None, "You are a helpful assistant.", _CONCISE, "Answer briefly.")

Turn = dict[str, str]


def sample(teacher: str, out: Path, texts: list[str], *, first: int, every: int, stop: Path) -> None:
    """Sample batches first, first + every, ... until the process is ended.

    Args:
        teacher: folder of a Hugging Face checkpoint with a ChatML template.
        out: folder of the JSONL files.
        texts: public texts, of which the teacher continues short passages.
        first, every: which batches this process makes.
        stop: while this file exists, wait.
    """
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer: Any = AutoTokenizer.from_pretrained(teacher)
    sampler = Sampler(teacher, ROWS)
    tasks = task_prompts()
    number = first
    while True:
        path = out / f"{number:05d}.jsonl"
        while stop.exists():
            time.sleep(5)
        if not path.exists():
            started = time.monotonic()
            rows, tokens = _batch(sampler, tokenizer, KINDS[number % len(KINDS)], number, tasks, texts)
            part = path.with_suffix(".part")
            part.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
            part.rename(path)
            print(
                f"{path.name}: {len(rows)} rows, {tokens / (time.monotonic() - started):.0f} tokens/s",
                flush=True,
            )
        number += every


def _batch(
    sampler: Sampler, tokenizer: Any, kind: str, seed: int, tasks: list[str], texts: list[str]
) -> tuple[list[dict[str, Any]], int]:
    """The rows of one batch that are no loops, and the number of tokens sampled."""
    order, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    temperatures = torch.tensor([order.choice(TEMPERATURES) for _ in range(ROWS)])
    ends = [tokenizer.convert_tokens_to_ids(name) for name in ("<|im_end|>", "<|endoftext|>")]

    def answers(prompts: list[str], warmth: torch.Tensor, limit: int) -> list[list[int]]:
        ids = [tokenizer.encode(prompt, add_special_tokens=False)[:PROMPT_TOKENS] for prompt in prompts]
        return sampler.continue_prompts(
            ids, temperatures=warmth, new_tokens=limit, end_ids=ends, generator=generator
        )

    spent = 0
    if kind == "text":
        openings = [_passage(order.choice(texts), order) for _ in range(ROWS)]
        outputs = answers(openings, temperatures, ANSWER_TOKENS)
        rows: list[dict[str, Any]] = [{"opening": text} for text in openings]
    else:
        systems = [order.choice(SYSTEMS) for _ in range(ROWS)]
        if kind == "own":
            starts = [_chatml(_turns(system, "")).rpartition("<|im_end|>")[0] for system in systems]
            written = answers(starts, torch.full((ROWS,), 0.7), REQUEST_TOKENS)
            spent = sum(map(len, written))
            requests = [
                _whole(tokenizer.decode(ids, skip_special_tokens=True), ids[-1] in ends) for ids in written
            ]
        elif kind == "words":
            requests = [word_list_prompt(order) for _ in range(ROWS)]
        else:
            requests = order.sample(tasks, ROWS)
            systems = [None] * ROWS
        kept = [n for n, request in enumerate(requests) if request]
        rows = [{"messages": _turns(systems[n], requests[n])} for n in kept]
        temperatures = temperatures[kept]
        prompts = [_chatml(row["messages"]) + "<|im_start|>assistant\n" for row in rows]
        outputs = answers(prompts, temperatures, ANSWER_TOKENS)
    for row, ids, warmth in zip(rows, outputs, temperatures.tolist(), strict=True):
        row["answer"] = tokenizer.decode(ids, skip_special_tokens=True)
        row["ended"], row["temperature"], row["kind"] = ids[-1] in ends, round(warmth, 1), kind
    spent += sum(map(len, outputs))
    return [row for row in rows if not is_loop(row["answer"])], spent


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
    return " ".join(words[start : start + 50])


def _turns(system: str | None, request: str) -> list[Turn]:
    first = [{"role": "system", "content": system}] if system else []
    return [*first, {"role": "user", "content": request}]


def _chatml(messages: list[Turn]) -> str:
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
