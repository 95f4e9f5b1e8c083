"""Vectors of `tokenize`: bytes of ids, spellings of bytes, and prompts with control tokens."""

from typing import Any

from vectorlib.reference.tokenizer import Tokens, byte_level, sentencepiece
from vectorlib.writer import VectorWriter, vector

# name, why, bytes
SPELL: list[tuple[str, str, bytes]] = [
    ("fragment", "no dummy prefix: the fragment is not a word's beginning", b"flake"),
    ("word", "a space is a byte like others", b" flake"),
    ("empty", "nothing is written by nothing", b""),
    ("single_letter", "of two tokens with this byte the one that the tokenizer writes", b"f"),
    ("accent", "é is C3 A9, not a letter of the byte alphabet", "é".encode()),
    ("half_character", "the first byte of é alone", b"\xc3"),
    ("stray_inside", "text around a stray byte", b"la\xa9ke"),
    ("newline", "a byte that no piece holds as text", b"\n"),
    ("japanese", "ぁ byte by byte where no merge helps", "ぁ".encode()),
    ("spaces", "three spaces", b"   "),
    ("control_string", "a control token's text is only text", b"</s>"),
    ("all_high", "bytes that are no text at all", b"\xff\xfe"),
]
BOTH: list[tuple[str, str, str, str, str]] = [
    ("plain", "no template", "", "snow flake", ""),
    ("empty_text", "a template around nothing", "{open}", "", "{close}"),
    ("template", "control tokens of the template are read", "{open}", " snow", "{close}"),
    ("literal_control", "the same strings in the text are text", "{open}", "{open}snow{close}", "{close}"),
    ("only_literal", "a text that is a control string", "", "{close}", ""),
    (
        "text_joins_prefix",
        "text of the template and of the user is cut into words together",
        "{open}fla",
        "ke",
        "{close}",
    ),
    ("several", "two control tokens side by side", "{close}{open}", "snow", "{close}{close}"),
    ("accents", "characters of several bytes", "{open}", "né", ""),
    ("newlines", "lines of a chat template", "{open}\n", "snow", "{close}\n{open}\n"),
]
BYTE_LEVEL_ONLY = [
    ("added_control_strips", "a control token that eats the spaces around it", "", "snow", "  <tool>  snow"),
    ("digits", "100 is one token", "", "100 10 1", ""),
    ("many_spaces", "words and the spaces between them", "", "snow    flake", ""),
]


def write(writer: VectorWriter) -> None:
    for tokens, open_, close in (
        (byte_level(), "<|im_start|>", "<|im_end|>"),
        (sentencepiece(), "<s>", "</s>"),
    ):
        file = f"{tokens.kind}.tokenizer.json"
        writer.table(f"tokenize/{file}", tokens.as_json())
        found = [_bytes(tokens, file)]
        found += [_spelling(tokens, file, *case) for case in SPELL]
        found += [
            _prompt(tokens, file, name, why, *(part.format(open=open_, close=close) for part in parts))
            for name, why, *parts in BOTH
        ]
        if tokens.kind == "byte_level":
            found += [_prompt(tokens, file, *case) for case in BYTE_LEVEL_ONLY]
        writer.vectors("tokenize", tokens.kind, found)


def _bytes(tokens: Tokens, file: str) -> dict[str, Any]:
    shown = [tokens.bytes_of(i) for i in range(len(tokens.pieces))]
    expect = {"bytes": [None if b is None else b.hex() for b in shown]}
    return vector(
        f"{tokens.kind}_bytes", "what each id writes, null for control tokens", {"tokenizer": file}, expect
    )


def _spelling(tokens: Tokens, file: str, name: str, why: str, data: bytes) -> dict[str, Any]:
    ids = tokens.spell(data)
    assert b"".join(tokens.bytes_of(i) or b"" for i in ids) == data
    return vector(f"{tokens.kind}_spell_{name}", why, {"tokenizer": file, "spell": data.hex()}, {"ids": ids})


def _prompt(
    tokens: Tokens, file: str, name: str, why: str, prefix: str, text: str, suffix: str
) -> dict[str, Any]:
    given = {"tokenizer": file, "prefix": prefix, "text": text, "suffix": suffix}
    ids = tokens.encode_prompt(prefix, text, suffix)
    written = b"".join(tokens.bytes_of(i) or b"" for i in ids)
    return vector(f"{tokens.kind}_prompt_{name}", why, given, {"ids": ids, "bytes": written.hex()})
