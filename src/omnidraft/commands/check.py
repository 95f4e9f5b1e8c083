"""`omnidraft check`: can this drafter write that target's tokens, before anything is exported?"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omnidraft.export.build_vocab_map import Progress, build_vocab_map
from omnidraft.runtime.vocab.tokenizer import Tokenizer

_EXAMPLES = 8


@dataclass(frozen=True)
class Comparison:
    """Two vocabularies compared as bytes; counts are of target tokens unless said otherwise.

    Attributes:
        draft_tokens, target_tokens: sizes of the two vocabularies.
        text_tokens: target tokens that stand for text.
        direct: with a draft token of equal bytes.
        spelled: written by several draft tokens.
        byte_fallback: among them, those that need the drafter's single-byte tokens.
        orphans: that the drafter can never propose (control tokens without a partner, unwritable bytes).
        expanded: draft tokens that the target writes as several of its own.
        longest_spelling: draft tokens in the longest spelling.
        paired_controls: control tokens with the same role, as (draft, target) contents.
        examples: some spelled tokens with their pieces.
    """

    draft_tokens: int
    target_tokens: int
    text_tokens: int
    direct: int
    spelled: int
    byte_fallback: int
    orphans: int
    expanded: int
    longest_spelling: int
    paired_controls: list[tuple[str, str]]
    examples: list[tuple[str, list[str]]]


def compare(drafter: str | Path, target: str | Path, progress: Progress | None = None) -> Comparison:
    """Compare two tokenizers, given as directories or tokenizer.json files.

    Raises:
        TokenizerError: one is absent or of a kind whose bytes cannot be read.
    """
    ours, theirs = Tokenizer.from_file(drafter), Tokenizer.from_file(target)
    found = build_vocab_map(ours, theirs, progress=progress)
    text = np.array([bool(token) for token in theirs.tokens])
    lengths = found.spellings.lengths
    single_bytes = _fallback_ids(ours)
    spelled = np.flatnonzero(text & (lengths > 1))
    names = (
        {c.id: c.content for c in ours.controls.values()},
        {c.id: c.content for c in theirs.controls.values()},
    )
    pairs = [
        (names[0][d], names[1][t])
        for d, t in enumerate(found.direct.tolist())
        if d in names[0] and t in names[1]
    ]
    return Comparison(
        draft_tokens=len(ours),
        target_tokens=len(theirs),
        text_tokens=int(text.sum()),
        direct=int((text & (lengths == 1)).sum()),
        spelled=len(spelled),
        byte_fallback=sum(any(d in single_bytes for d in found.spell(int(t))) for t in spelled),
        orphans=int((lengths == 0).sum()),
        expanded=int((found.expansions.lengths > 0).sum()),
        longest_spelling=int(lengths.max(initial=0)),
        paired_controls=pairs,
        examples=_examples(ours, theirs, found.spell, [int(t) for t in spelled]),
    )


def _fallback_ids(tokenizer: Tokenizer) -> set[int]:
    """Ids of the `<0xNN>` tokens of a SentencePiece drafter; a byte-level one has letters only."""
    if tokenizer.kind == "byte_level":
        return set()
    return set(tokenizer.byte_ids.values())


def _examples(
    ours: Tokenizer, theirs: Tokenizer, spell: Callable[[int], list[int]], spelled: list[int]
) -> list[tuple[str, list[str]]]:
    """Evenly spread spelled tokens that a person can read."""
    readable = [t for t in spelled if _show(theirs.tokens[t]).strip().isalnum()]
    chosen = readable[:: max(1, len(readable) // _EXAMPLES)][:_EXAMPLES]
    return [(_show(theirs.tokens[t]), [_show(ours.tokens[d]) for d in spell(t)]) for t in chosen]


def _show(token: bytes | None) -> str:
    return (token or b"").decode("utf-8", "backslashreplace")
