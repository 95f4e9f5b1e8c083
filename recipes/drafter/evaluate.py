"""The drafter on texts of targets that it may never have seen: greedy acceptance of the first draft token.

A position counts as accepted if the drafter's greedy tokens write the target's next token, byte for byte,
behind the prompt and the target's text so far. Both go through the vocabulary map, as in a session.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from benchmarks.support.task_prompts import unseen
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer

NEW_TOKENS = 96
PROMPT_TOKENS = 400
EACH = 8  # prompts of each kind
_OPEN = (
    "What makes a good friend?",
    "Write a short story about a lighthouse in a storm.",
    "Give me five ideas for a rainy weekend with children.",
    "Explain how a refrigerator keeps food cold.",
    "Write a polite email to a colleague to move a meeting to Friday.",
    "What are the main differences between cats and dogs as pets?",
    "How do I write a for loop in Python? Show an example.",
    "Summarize the plot of a fairy tale of your choice in three sentences.",
)


@dataclass(frozen=True)
class Text:
    """A target's greedy answer."""

    kind: str
    prompt: list[int]
    answer: list[int]


def unseen_prompts() -> dict[str, list[str]]:
    """Prompts by kind: rows of the tasks that no training reads, and open requests."""
    return {**{kind.lower(): prompts for kind, prompts in unseen(EACH).items()}, "open": list(_OPEN)}


@torch.inference_mode()
def target_texts(target: Path, cache: Path) -> list[Text]:
    """The target's greedy answers to the unseen prompts, made once and kept in the file `cache`."""
    if cache.exists():
        return [Text(**row) for row in json.loads(cache.read_text("utf-8"))]
    tokenizer: Any = AutoTokenizer.from_pretrained(target)
    model: Any = AutoModelForCausalLM.from_pretrained(target, dtype=torch.bfloat16)
    end = tokenizer.eos_token_id
    texts = []
    for kind, prompts in unseen_prompts().items():
        rows = [_prompt_ids(tokenizer, kind, prompt)[:PROMPT_TOKENS] for prompt in prompts]
        longest = max(map(len, rows))
        padded = [[0] * (longest - len(row)) + row for row in rows]
        mask = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
        output = model.generate(
            torch.tensor(padded),
            attention_mask=torch.tensor(mask),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            pad_token_id=end,
        )
        for row, ids in zip(rows, output[:, longest:].tolist(), strict=True):
            texts.append(Text(kind, row, ids[: ids.index(end) + 1] if end in ids else ids))
    cache.write_text(json.dumps([vars(text) for text in texts]) + "\n", "utf-8")
    return texts


def _prompt_ids(tokenizer: Any, kind: str, prompt: str) -> list[int]:
    """The prompt in the target's chat template; for a base model a question, or code to complete."""
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
        )
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids
    return list(tokenizer.encode(prompt if kind == "humaneval" else f"Question: {prompt}\nAnswer:"))


@torch.inference_mode()
def acceptance(drafter: Path, target: Path, texts: Sequence[Text]) -> dict[str, tuple[int, int]]:
    """(accepted, positions) of each kind of text."""
    tokenizer = LibraryTokenizer.from_file(drafter)
    vocab_map = build_vocab_map(tokenizer, LibraryTokenizer.from_file(target))
    model: Any = AutoModelForCausalLM.from_pretrained(drafter, dtype=torch.float32)
    window = model.config.max_position_embeddings
    start = tokenizer.controls[tokenizer.adds_bos].id if tokenizer.adds_bos else None
    if start is None:
        start = PreTrainedTokenizerFast.from_pretrained(drafter).pad_token_id
    counts: dict[str, tuple[int, int]] = {}
    for text in texts:
        ids = [start, *(i for t in text.prompt for i in vocab_map.spellings.row(t).tolist())]
        spans: list[tuple[int, int]] = []
        for t in text.answer:
            spelling = vocab_map.spellings.row(t).tolist()
            spans.append((len(ids), len(ids) + len(spelling)))
            ids += spelling
        dropped = max(0, len(ids) - window)
        guesses = model(input_ids=torch.tensor([ids[dropped:]])).logits[0].argmax(dim=-1).tolist()
        guesses = [-1] * (dropped + 1) + guesses  # guesses[i] is the guess of ids[i]
        hits = [_writes(tokenizer, guesses[a:b], ids[a:b]) for a, b in spans if a > dropped]
        accepted, positions = counts.get(text.kind, (0, 0))
        counts[text.kind] = accepted + sum(hits), positions + len(hits)
    return counts


def _writes(tokenizer: LibraryTokenizer, guesses: Sequence[int], spelling: Sequence[int]) -> bool:
    """Whether guesses, each made behind the tokens of the spelling before it, write the spelling."""
    for n, (guess, token) in enumerate(zip(guesses, spelling, strict=True)):
        if guess != token:
            rest = b"".join(tokenizer.tokens[i] or b"" for i in spelling[n:])
            return bool(rest) and (tokenizer.tokens[guess] or b"").startswith(rest)
    return bool(spelling)


def evaluate(drafters: Sequence[Path], targets: Sequence[Path], work: Path) -> Iterator[str]:
    """Lines of a table: the acceptance of each drafter on each target, in all and by kind."""
    work.mkdir(parents=True, exist_ok=True)
    for target in targets:
        texts = target_texts(target, work / f"{target.name}.json")
        for drafter in drafters:
            counts = acceptance(drafter, target, texts)
            accepted, positions = (sum(column) for column in zip(*counts.values(), strict=True))
            parts = ", ".join(f"{kind} {a / n:.1%}" for kind, (a, n) in counts.items())
            name = f"{drafter.parent.name}/{drafter.name} on {target.name}"
            yield f"{name}: {accepted / positions:.1%} of {positions} ({parts})"
