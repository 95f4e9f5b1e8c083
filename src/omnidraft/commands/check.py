"""`omnidraft check`: can this drafter write that target's tokens, before anything is exported?"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from omnidraft.checkpoints.control_tokens import read_tokenizer
from omnidraft.checkpoints.gguf.find import find_gguf
from omnidraft.checkpoints.gguf.gguf_file import GgufFile
from omnidraft.commands.terminal import output
from omnidraft.commands.terminal.export_packages import need_gguf_packages
from omnidraft.commands.terminal.output import Table
from omnidraft.export.build_vocab_map import Progress, build_vocab_map
from omnidraft.pair_verdict import PairVerdict, vocabulary_verdict
from omnidraft.runtime.vocab.tokenizer import Tokenizer

_EXAMPLES = 8


def check(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The target's directory, tokenizer.json or GGUF file.")
    ],
    drafter: Annotated[str, typer.Argument(metavar="DRAFTER", help="The drafter's, given the same way.")],
) -> None:
    """Can the drafter write the target's tokens? The two vocabularies are compared as bytes."""
    with output.progress_bar("compare") as bar:
        comparison = compare(target, drafter, bar.step)
    output.out.print(comparison_table(comparison, _name(target), _name(drafter)))
    output.say(str(comparison.verdict))


@dataclass(frozen=True)
class Comparison:
    """Two vocabularies compared as bytes; counts are of target tokens unless stated otherwise.

    Attributes:
        byte_fallback: spelled tokens that need the drafter's single-byte tokens.
        orphans: tokens that the drafter can never propose: control tokens without a partner, unwritable
            bytes.
        expanded: draft tokens that the target writes as several of its own.
        longest_spelling: draft tokens in the longest spelling.
        paired_controls: control tokens with the same role, as (draft, target) contents.
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
    verdict: PairVerdict


def compare(target: str | Path, drafter: str | Path, progress: Progress | None = None) -> Comparison:
    """Compare two tokenizers, given as directories, tokenizer.json files or GGUF files.

    Raises:
        CheckpointError: a GGUF file is not sound.
        TokenizerError: a tokenizer is absent, or of a kind whose bytes cannot be read.
    """
    draft_side, target_side = _tokenizer(drafter), _tokenizer(target)
    vocab_map = build_vocab_map(draft_side, target_side, progress=progress)
    text = np.array([bool(token) for token in target_side.tokens])
    lengths = vocab_map.spellings.lengths
    single_bytes = _fallback_ids(draft_side)
    spelled = [int(t) for t in np.flatnonzero(text & (lengths > 1))]
    return Comparison(
        draft_tokens=len(draft_side),
        target_tokens=len(target_side),
        text_tokens=int(text.sum()),
        direct=int((text & (lengths == 1)).sum()),
        spelled=len(spelled),
        byte_fallback=sum(any(d in single_bytes for d in vocab_map.spell(t)) for t in spelled),
        orphans=int((lengths == 0).sum()),
        expanded=int((vocab_map.expansions.lengths > 0).sum()),
        longest_spelling=int(lengths.max(initial=0)),
        paired_controls=_paired_controls(draft_side, target_side, vocab_map.direct.tolist()),
        examples=_examples(draft_side, target_side, vocab_map.spell, spelled),
        verdict=vocabulary_verdict(target_side, vocab_map),
    )


def _tokenizer(source: str | Path) -> Tokenizer:
    if (file := find_gguf(str(source))) is None:
        return read_tokenizer(source)
    need_gguf_packages(str(source))
    gguf = GgufFile(str(source), file)  # its directory goes with it
    return read_tokenizer(gguf.directory)


def _paired_controls(
    draft_side: Tokenizer, target_side: Tokenizer, direct: list[int]
) -> list[tuple[str, str]]:
    draft_names = {c.id: c.content for c in draft_side.controls.values()}
    target_names = {c.id: c.content for c in target_side.controls.values()}
    return [
        (draft_names[d], target_names[t])
        for d, t in enumerate(direct)
        if d in draft_names and t in target_names
    ]


def _fallback_ids(tokenizer: Tokenizer) -> set[int]:
    """Ids of the `<0xNN>` tokens of a SentencePiece tokenizer; a byte-level one has none.

    No text has the byte 255, so a tokenizer that has a token for it falls back to bytes.
    """
    if tokenizer.kind == "byte_level" or 0xFF not in tokenizer.byte_ids:
        return set()
    return set(tokenizer.byte_ids.values())


def _examples(
    draft_side: Tokenizer, target_side: Tokenizer, spell: Callable[[int], list[int]], spelled: list[int]
) -> list[tuple[str, list[str]]]:
    readable = [t for t in spelled if _show(target_side.tokens[t]).strip().isalnum()]
    chosen = readable[:: max(1, len(readable) // _EXAMPLES)][:_EXAMPLES]
    return [(_show(target_side.tokens[t]), [_show(draft_side.tokens[d]) for d in spell(t)]) for t in chosen]


def _quoted(text: str) -> str:
    return "'" + text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + "'"


def _show(token: bytes | None) -> str:
    return (token or b"").decode("utf-8", "backslashreplace")


def comparison_table(comparison: Comparison, target: str, drafter: str) -> Table:
    """The counts of a comparison, and its examples.

    Args:
        comparison: of the two vocabularies.
        target: its name. drafter: its name.
    """
    c, text = comparison, max(1, comparison.text_tokens)
    table = Table(title=f"target: {target}, drafter: {drafter}", show_header=False)
    for name, value in (
        ("draft vocabulary", f"{c.draft_tokens:,}"),
        ("target vocabulary", f"{c.target_tokens:,} ({c.text_tokens:,} text)"),
        ("direct map (equal bytes)", f"{c.direct:,} ({c.direct / text:.1%})"),
        ("spelled by several draft tokens", f"{c.spelled:,} ({c.spelled / text:.1%})"),
        ("  of these with byte tokens", f"{c.byte_fallback:,}"),
        ("  longest spelling", f"{c.longest_spelling} draft tokens"),
        ("orphans (never proposed)", f"{c.orphans:,}"),
        ("draft tokens longer than a target token", f"{c.expanded:,}"),
        ("paired control tokens", ", ".join(f"{a} = {b}" for a, b in c.paired_controls) or "none"),
    ):
        table.add_row(name, value)
    for whole, pieces in c.examples:
        table.add_row(f"  e.g. {_quoted(whole)}", " ".join(map(_quoted, pieces)))
    return table


def _name(tokenizer: str) -> str:
    path = Path(tokenizer)
    return path.parent.name if path.name == "tokenizer.json" else path.name
