"""Tokenizers read as bytes: what an id writes, where control tokens are read, and which are refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from omnidraft.errors import TokenizerError
from omnidraft.runtime.vocab.library_tokenizer import MAX_TOKENS, LibraryTokenizer
from support.real_tokenizers import TokenizerOf
from support.tiny_tokenizers import LETTERS, SPACE, byte_level, letters, sentencepiece, unigram

PUBLISHED = ["llama2", "phi3", "llama3", "qwen2", "gpt2"]

MERGES = [(b"h", b"e"), (b" ", b"he"), (b"\xc3", b"\xa9"), (b"l", b"l")]
PIECES = [("l", "a"), ("k", "e"), (SPACE, "f"), (SPACE + "f", "la")]
LibraryOf = Callable[[str], tokenizers.Tokenizer]
TINY = {
    "byte_level": byte_level(MERGES, controls=["<s>", "<|end|>"]),
    "sentencepiece": sentencepiece(PIECES),
    "unigram": unigram(
        [SPACE, SPACE + "he", "he", "h", "e", "l", "ll", "\N{LATIN SMALL LETTER E WITH ACUTE}"]
    ),
}


READ = {kind: LibraryTokenizer(spec) for kind, spec in TINY.items()}


@pytest.fixture(scope="module")
def library_of(data: Path) -> LibraryOf:
    """The tokenizers library's own reading of the same files."""
    return cache(
        lambda name: tokenizers.Tokenizer.from_file(str(data / "tokenizers" / name / "tokenizer.json"))
    )


# Bytes of tokens


def test_the_gpt2_alphabet_is_inverted() -> None:
    """The piece `¡` is byte A1, not the character U+00A1; the letter for a space is U+0120."""
    tokenizer = READ["byte_level"]
    assert sorted(t for t in tokenizer.tokens[:256] if t) == [bytes([b]) for b in range(256)]
    ids = TINY["byte_level"]["model"]["vocab"]
    assert tokenizer.tokens[ids["\u00a1"]] == b"\xa1"
    assert tokenizer.tokens[ids["\u0120"]] == b" "
    assert tokenizer.tokens[ids[letters(b"\xc3\xa9")]] == "é".encode()
    assert all(tokenizer.tokens[ids[letter]] == bytes([byte]) for byte, letter in LETTERS.items())


def test_sentencepiece_pieces_and_byte_tokens() -> None:
    tokenizer = READ["sentencepiece"]
    ids = TINY["sentencepiece"]["model"]["vocab"]
    assert tokenizer.tokens[ids[SPACE + "fla"]] == b" fla"
    assert tokenizer.tokens[ids["<0x0A>"]] == b"\n"
    assert [tokenizer.tokens[ids[c]] for c in ("<unk>", "<s>", "</s>")] == [None, None, None]
    assert tokenizer.kind == "sentencepiece" and tokenizer.adds_bos == "<s>"


def test_without_byte_fallback_a_byte_token_is_its_letters() -> None:
    spec = unigram([SPACE, "<0x41>"])
    assert LibraryTokenizer(spec).tokens[-1] == b"<0x41>"


def test_control_tokens_have_no_bytes() -> None:
    plain = ["<tool_call>", "  ", "[PAD]", "plain"]
    spec = byte_level(controls=["<s>"], added=plain)
    tokenizer, in_a_checkpoint = LibraryTokenizer(spec), LibraryTokenizer(spec, roles={"[PAD]", "absent"})
    assert set(tokenizer.controls) == {"<s>"}  # by its flag, never by its form
    assert set(in_a_checkpoint.controls) == {"<s>", "[PAD]"}
    assert tokenizer.text_of(tokenizer.encode("".join(plain))) == "".join(plain).encode()
    assert len(tokenizer.encode("".join(plain))) == len(plain)
    assert in_a_checkpoint.tokens[in_a_checkpoint.controls["[PAD]"].id] is None
    assert len(in_a_checkpoint.encode("[PAD]")) == len("[PAD]")
    assert [tokenizer.tokens[-n] for n in (5, 4, 3, 2, 1)] == [None, *(each.encode() for each in plain)]
    assert tokenizer.text_of([*tokenizer.encode("ab"), tokenizer.controls["<s>"].id]) == b"ab"


@pytest.mark.parametrize("name", PUBLISHED)
def test_encode_gives_the_published_ids(data: Path, tokenizer_of: TokenizerOf, name: str) -> None:
    """All 47 of them. None holds a control string, where ours differs on purpose: see the next test."""
    vectors = json.loads((data / "tokenizers/encode_vectors.json").read_text(encoding="utf-8"))
    tokenizer, compared = tokenizer_of(name), 0
    for text, ids in zip(vectors["inputs"], vectors["ids"][name], strict=True):
        assert not any(control in text for control in tokenizer.controls)
        assert tokenizer.encode(text) == ids, text
        compared += 1
    assert compared == 47


def test_a_control_string_in_a_text_stays_text_without_data() -> None:
    tokenizer = READ["byte_level"]
    assert tokenizer.text_of(tokenizer.encode("a<s>b")) == b"a<s>b"
    assert tokenizer.controls["<s>"].id not in tokenizer.encode("a<s>b")


def test_an_added_token_after_a_control_token_keeps_its_id() -> None:
    """As in OLMo-2: plain `|||PHONE_NUMBER|||` stands after <|endoftext|>, outside the model's own vocab."""
    spec = byte_level(controls=["<s>", "<|end|>"], added=["|||PHONE|||"])
    tokenizer = LibraryTokenizer(spec)
    library = tokenizers.Tokenizer.from_str(json.dumps(spec))
    assert tokenizer.encode("a|||PHONE|||") == library.encode("a|||PHONE|||").ids


# Prompts


def test_controls_are_read_in_the_template_only() -> None:
    tokenizer = READ["byte_level"]
    bos, end = tokenizer.controls["<s>"].id, tokenizer.controls["<|end|>"].id
    ids = tokenizer.encode_prompt("<s>he", "<s>ll<|end|>", "<|end|>he<|end|>")
    assert [i for i in ids if i in (bos, end)] == [bos, end, end]
    assert ids == [
        bos,
        *tokenizer.encode("he<s>ll<|end|>"),  # the template's text and the user's are one run
        end,
        *tokenizer.encode("he"),
        end,
    ]


CHAT = {
    "llama2": ("<s>[INST] ", " [/INST]"),
    "phi3": ("<|user|>\n", "<|end|>\n<|assistant|>\n"),
    "llama3": (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "qwen2": (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n",
        "<|im_end|>\n<|im_start|>assistant\n",
    ),
    "gpt2": ("<|endoftext|>Question: ", "\nAnswer:"),
}


@pytest.mark.parametrize("name", CHAT)
@pytest.mark.parametrize(
    "text", ["Hello, how are you?", "def f(x):\n    return 12345 * x\n", "naïve \N{LLAMA}"]
)
def test_a_prompt_is_what_the_library_makes_of_it(
    library_of: LibraryOf, tokenizer_of: TokenizerOf, name: str, text: str
) -> None:
    """Where the user's text holds no control string, encode_prompt equals the library on the whole."""
    prefix, suffix = CHAT[name]
    ids = tokenizer_of(name).encode_prompt(prefix, text, suffix)
    assert ids == library_of(name).encode(prefix + text + suffix, add_special_tokens=False).ids
    assert any(control.id in ids for control in tokenizer_of(name).controls.values())


# Refusals


def refusal(path: Path) -> str:
    with pytest.raises(TokenizerError) as caught:
        LibraryTokenizer.from_file(path)
    return str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    assert refusal(tmp_path) == (
        f"no tokenizer at {tmp_path / 'tokenizer.json'}; give a tokenizer.json or a directory that holds one"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"{", "is not a readable tokenizer.json"),
        (b"\xff\xfe", "is not a readable tokenizer.json"),
        (b"[]", 'has no "model"'),
        (b"{}", 'has no "model"'),
    ],
)
def test_no_tokenizer_in_the_file(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    message = refusal(tmp_path / "tokenizer.json")
    assert expected in message and str(tmp_path) in message and "; save it again" in message


def regex(text: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": text}, "behavior": "Isolated", "invert": False}


DOUBLING = [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 40
KINDS: tuple[Any, ...] = (1, "x", [[]], True)
HOSTILE: list[tuple[dict[str, Any], str]] = [
    *(({name: kind}, "is not a readable") for name in ("model", "added_tokens") for kind in KINDS),
    *(({name: {"type": 1}}, "is not a readable") for name in ("normalizer", "pre_tokenizer", "decoder")),
    *(({"post_processor": kind}, "is not a readable") for kind in (1, "x", [1])),
    ({"added_tokens": [{"content": "<x>", "id": 10**9}]}, "id 1000000000 is not from 0"),
    ({"added_tokens": [{"content": "<x>", "id": -1}]}, "id -1 is not from 0"),
    (
        {"added_tokens": [{"content": f"<{i}>", "id": i} for i in range(MAX_TOKENS)]},
        "tokens, more than 524288",
    ),
    ({"normalizer": {"type": "Sequence", "normalizers": DOUBLING}}, "more than 4096 characters of one"),
    ({"pre_tokenizer": regex("(")}, "is not a readable"),
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_tokenizer_is_one_sentence(number: int) -> None:
    changes, expected = HOSTILE[number]
    with pytest.raises(TokenizerError, match=expected):
        LibraryTokenizer({**byte_level(), **changes})


def test_a_panic_of_the_package_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    """And nothing else: what the package itself writes is not shown, and what others write is."""
    tokenizer = LibraryTokenizer({**byte_level(), "pre_tokenizer": regex("(x+x+)+y")})
    with pytest.raises(TokenizerError, match="is not a readable"):
        tokenizer.encode("x" * 200)
    assert capfd.readouterr().err == ""
    tokenizer._run(os.write, 2, b"of another thread")
    assert capfd.readouterr().err == "of another thread"


def test_threads_that_encode_leave_the_error_stream_where_it_was() -> None:
    kept, before, interval = os.dup(2), os.fstat(2), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(READ["byte_level"].encode, ["the hello"] * 2_000))
        after = os.fstat(2)
    finally:
        sys.setswitchinterval(interval)
        os.dup2(kept, 2)
        os.close(kept)
    assert (after.st_dev, after.st_ino) == (before.st_dev, before.st_ino)


@pytest.mark.parametrize(
    ("merges", "expected"),
    [
        ([["a", "b"]] * 1_000_000, "ends of strings, more than"),
        (["a b"] * 1_000_000, "it has 1000000 merges, more than"),
        ([0] * 2_000_000, "commas, more than"),
    ],
    ids=["pairs", "strings", "numbers"],
)
def test_a_file_of_too_many_values_is_not_parsed(tmp_path: Path, merges: list[Any], expected: str) -> None:
    spec = byte_level()
    spec["model"]["merges"] = merges
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    with pytest.raises(TokenizerError, match=expected):
        LibraryTokenizer.from_file(tmp_path)


def test_lists_in_lists_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("[" * 100_000)
    assert "is not a readable tokenizer.json" in refusal(tmp_path)


def unreadable(model: Any) -> dict[str, Any]:
    tokenizer = tokenizers.Tokenizer(model)
    spec: dict[str, Any] = json.loads(tokenizer.to_str())
    return spec


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (unreadable(tokenizers.models.WordPiece({"[UNK]": 0, "##a": 1}, unk_token="[UNK]")), "WordPiece"),
        (unreadable(tokenizers.models.WordLevel({"a": 0}, unk_token="a")), "WordLevel"),
        (unreadable(tokenizers.models.BPE({"a": 0}, [])), "BPE"),  # says nothing of bytes or spaces
    ],
)
def test_a_kind_without_bytes_is_refused_by_name(tmp_path: Path, spec: dict[str, Any], kind: str) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec), encoding="utf-8")
    message = refusal(tmp_path)
    assert f"is a {kind} tokenizer whose tokens have no exact bytes; use a byte-level BPE" in message
