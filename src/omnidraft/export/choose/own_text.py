"""Text that a model writes itself, on which GPTQ calibrates: it is like the text that the model will decode.

It is sampled from the source with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from omnidraft.checkpoints.thin_model import ThinModel, reading
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.sample_prompts import PROMPTS, word_problems

Rows = list[list[int]]

ROWS, TOKENS = 8, 96  # sampled from each opening
_QUESTIONS = (
    *PROMPTS,
    *word_problems(2, seed=2),
    "Tell me a story about a lighthouse.",
    "What are the causes of the tides?",
    "Write a letter to a friend who has moved to another city.",
    "List ten things that one can do on a rainy day.",
)
_OPENINGS = (
    "The", "Once upon a time", "In recent years,", "def ", "Question:", "1. ", "Hello,", "According to",
    "import ", "She said", "El ", "Die ",
)  # fmt: skip


def own_text(
    thin: ThinModel,
    tokenizer: Tokenizer,
    prompt: PromptTemplate,
    special: tuple[Sequence[int], Sequence[int]],
    step: Callable[[int, int], None],
) -> Rows:
    """Rows of ids that a model writes: answers if it has a prompt template, else it goes on from openings.

    Args:
        special: the ids that end a text, and those that begin one.
        step: called with (openings done, all openings).
    """
    ends, start = special
    prefix, suffix = prompt.parts(1)
    if suffix:
        openings = [tokenizer.encode_prompt(prefix, question, suffix) for question in _QUESTIONS]
    else:
        openings = [[*start, *tokenizer.encode(opening)] for opening in _OPENINGS]
    rows: Rows = []
    generator = torch.Generator().manual_seed(0)
    for done, opening in enumerate(openings):
        step(done, len(openings))
        rows += _sampled(thin, opening, ends, generator)
    return rows


def _sampled(
    thin: ThinModel, opening: Sequence[int], ends: Sequence[int], generator: torch.Generator
) -> Rows:
    """`ROWS` continuations of an opening at temperature 1, each with the opening."""
    found = torch.tensor([list(opening)] * ROWS)
    read, past, ended = found, None, torch.zeros(ROWS, dtype=torch.bool)
    with reading(thin), torch.inference_mode():
        for _ in range(TOKENS):
            out = thin.model(input_ids=read, past_key_values=past, use_cache=True)
            past = out.past_key_values
            probabilities = torch.softmax(out.logits[:, -1].float(), dim=-1)
            read = torch.multinomial(probabilities, 1, generator=generator)
            found = torch.cat([found, read], dim=1)
            ended |= torch.isin(read[:, 0], torch.tensor(list(ends), dtype=torch.int64))
            if ended.all():
                break
    return [_until_end(row, len(opening), ends) for row in found.tolist()]


def _until_end(row: list[int], opening: int, ends: Sequence[int]) -> list[int]:
    """A row up to and with its first end."""
    places = [place for place in range(opening, len(row)) if row[place] in ends]
    return row[: places[0] + 1] if places else row
