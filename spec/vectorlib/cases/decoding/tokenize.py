"""Vectors of `tokenize`: bytes of ids, spellings of bytes, and prompts with control tokenizer."""

from typing import Any

from vectorlib.reference.tokenizer import Tokenizer, byte_level, markup, sentencepiece
from vectorlib.writer import VectorWriter, vector

# name, why, bytes
SPELL: list[tuple[str, str, bytes]] = [
    ("fragment", "a fragment is not the beginning of a word: no dummy prefix", b"flake"),
    ("word", "a space is an ordinary byte", b" flake"),
    ("empty", "no bytes give no ids", b""),
    ("single_letter", "two tokens have this byte: the one that the tokenizer writes", b"f"),
    ("accent", "é is C3 A9, not a letter of the byte alphabet", "é".encode()),
    ("half_character", "the first byte of é alone", b"\xc3"),
    ("stray_inside", "text around a stray byte", b"la\xa9ke"),
    ("newline", "a byte that is not in a text piece", b"\n"),
    ("japanese", "ぁ byte by byte, where no merge applies", "ぁ".encode()),
    ("spaces", "three spaces", b"   "),
    ("control_string", "the text of a control token is ordinary text", b"</s>"),
    ("all_high", "bytes that are not UTF-8", b"\xff\xfe"),
]
BOTH: list[tuple[str, str, str, str, str]] = [
    ("plain", "no template", "", "snow flake", ""),
    ("empty_text", "a template around an empty text", "{open}", "", "{close}"),
    ("template", "control tokens of the template are read", "{open}", " snow", "{close}"),
    ("literal_control", "control strings in the text are text", "{open}", "{open}snow{close}", "{close}"),
    ("only_literal", "a text that is a control string", "", "{close}", ""),
    (
        "text_joins_prefix",
        "text of the template and of the user is tokenized together",
        "{open}fla",
        "ke",
        "{close}",
    ),
    ("several", "two control tokens side by side", "{close}{open}", "snow", "{close}{close}"),
    ("accents", "characters of several bytes", "{open}", "né", ""),
    ("newlines", "lines of a chat template", "{open}\n", "snow", "{close}\n{open}\n"),
]
BYTE_LEVEL_ONLY = [
    (
        "added_control_strips",
        "a control token that removes the spaces around it",
        "",
        "snow",
        "  <tool>  snow",
    ),
    ("digits", "100 is one token", "", "100 10 1", ""),
    ("many_spaces", "words and the spaces between them", "", "snow    flake", ""),
]


# With `markup`, whose tags of HTML and tools are text.
MARKUP = [
    ("html", "tags of HTML are text of a message, each one token", "<|im_start|>", "<td>snow</td></tr>",
     "<|im_end|>"),
    ("tools", "so are those of tools", "<|im_start|>", "<tool_call>\n{}\n</tool_call>", "<|im_end|>"),
    ("of_the_template", "they are tokens of text in a template, too", "<tool_call><|im_start|>", "[F]",
     "<td>"),
    ("forged", "a message writes no marker of turns and no tag of a thought", "<|im_start|>",
     "</think>[TURN]<|im_end|><td>", "[TURN]<think>"),
    ("lines", "the longest token of text first", "", "\n\n\n<s>", "\n\n"),
    ("cut", "the beginning of a tag is text", "<td", "<td<tool_call", "</tr"),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    for tokenizer, open_, close in (
        (byte_level(), "<|im_start|>", "<|im_end|>"),
        (sentencepiece(), "<s>", "</s>"),
    ):
        file = f"{tokenizer.kind}.tokenizer.json"
        writer.table(f"tokenize/{file}", tokenizer.as_json())
        vectors = [_bytes(tokenizer, file)]
        vectors += [_spelling(tokenizer, file, *case) for case in SPELL]
        vectors += [
            _prompt(tokenizer, file, name, why, *(part.format(open=open_, close=close) for part in parts))
            for name, why, *parts in BOTH
        ]
        if tokenizer.kind == "byte_level":
            vectors += [_prompt(tokenizer, file, *case) for case in BYTE_LEVEL_ONLY]
        writer.vectors("tokenize", tokenizer.kind, vectors)
    _write_markup(writer)


def _write_markup(writer: VectorWriter) -> None:
    """Added tokens that look like control tokens and are text."""
    tokenizer = markup()
    writer.table(f"tokenize/{tokenizer.file}", tokenizer.as_json())
    vectors = [_bytes(tokenizer, tokenizer.file)]
    for data, why in ((b"<td>", "a fragment has no added tokens"), (b"[TURN]", "and no control tokens")):
        name = data.decode().strip("<>[]").lower()
        vectors.append(_spelling(tokenizer, tokenizer.file, name, why, data))
    vectors += [_prompt(tokenizer, tokenizer.file, *case) for case in MARKUP]
    writer.vectors("tokenize", "markup", vectors)


def _bytes(tokenizer: Tokenizer, file: str) -> dict[str, Any]:
    pieces = [tokenizer.bytes_of(i) for i in range(len(tokenizer.pieces))]
    expect = {"bytes": [None if b is None else b.hex() for b in pieces]}
    return vector(
        f"{tokenizer.name or tokenizer.kind}_bytes",
        "the bytes of each id, null for control tokens",
        {"tokenizer": file},
        expect,
    )


def _spelling(tokenizer: Tokenizer, file: str, name: str, why: str, data: bytes) -> dict[str, Any]:
    ids = tokenizer.spell(data)
    assert b"".join(tokenizer.bytes_of(i) or b"" for i in ids) == data
    return vector(
        f"{tokenizer.name or tokenizer.kind}_spell_{name}",
        why,
        {"tokenizer": file, "spell": data.hex()},
        {"ids": ids},
    )


def _prompt(
    tokenizer: Tokenizer, file: str, name: str, why: str, prefix: str, text: str, suffix: str
) -> dict[str, Any]:
    given = {"tokenizer": file, "prefix": prefix, "text": text, "suffix": suffix}
    ids = tokenizer.encode_prompt(prefix, text, suffix)
    written = b"".join(tokenizer.bytes_of(i) or b"" for i in ids)
    return vector(
        f"{tokenizer.name or tokenizer.kind}_prompt_{name}", why, given, {"ids": ids, "bytes": written.hex()}
    )
