"""Built-in texts of several kinds, on which `omnidraft export` and `omnidraft eval` measure a model.

They are in `sample_texts.json`: prose, chat, code, maths, lists and other languages, all written for this.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.vocab.tokenizer import Tokenizer

NAME = "built-in 1"  # of the texts; another number for other texts, whose figures cannot be compared
LONGEST = 256  # tokens of a piece; a longer text is cut into several


@dataclass(frozen=True)
class SampleText:
    """One text."""

    kind: str  # of the text
    text: str  # the text; the answer where there is a question
    question: str = ""  # of a chat; empty for a plain text


@dataclass(frozen=True)
class TextPiece:
    """A part of a text in a model's ids, which is scored as one context."""

    kind: str
    ids: tuple[int, ...]


@cache
def sample_texts() -> tuple[SampleText, ...]:
    """The built-in texts."""
    rows = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return tuple(SampleText(row["kind"], row["text"], row.get("question", "")) for row in rows)


def pieces_of(
    texts: Sequence[SampleText],
    tokenizer: Tokenizer,
    prompt: PromptTemplate,
    start: Sequence[int],
    longest: int = LONGEST,
) -> list[TextPiece]:
    """Texts in a model's ids; a chat stands in the model's chat template.

    Args:
        longest: tokens of a piece, at least 2. Pieces of one token have nothing to predict and are left out.
    """
    prefix, suffix = prompt.parts(1)
    pieces = []
    for each in texts:
        if each.question:
            between = suffix or "\n\n"  # of a model without a template
            asked = tokenizer.encode_prompt(prefix, each.question, between)
            ids = [*asked, *tokenizer.encode(each.text)]
            begin: Sequence[int] = ()
        else:
            ids, begin = tokenizer.encode(each.text), start
        pieces += [TextPiece(each.kind, part) for part in _cut(ids, begin, longest) if len(part) > 1]
    return pieces


def _cut(ids: Sequence[int], start: Sequence[int], longest: int) -> Iterator[tuple[int, ...]]:
    size = max(2, longest) - len(start)
    for at in range(0, len(ids), size):
        yield (*start, *ids[at : at + size])
