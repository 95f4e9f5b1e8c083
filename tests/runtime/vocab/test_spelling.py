"""How a tokenizer spells given bytes: with any kind of vocabulary, for any bytes, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_tokenizer import READ

from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from support.real_tokenizers import TokenizerOf
from support.tiny_tokenizers import SPACE, byte_level


def spelled(tokenizer: Tokenizer, data: bytes) -> list[bytes] | None:
    ids = tokenizer.spell(data)
    return None if ids is None else [tokenizer.tokens[i] or b"" for i in ids]


def test_a_fragment_has_no_dummy_prefix() -> None:
    tokenizer = READ["sentencepiece"]
    assert spelled(tokenizer, b"flake") == [b"f", b"la", b"ke"]
    assert spelled(tokenizer, b" flake") == [b" fla", b"ke"]
    assert [tokenizer.tokens[i] for i in tokenizer.encode("flake")] == [b" fla", b"ke"]


def test_flake_in_llama2(tokenizer_of: TokenizerOf) -> None:
    """The first trap of method 4.5: encoding the fragment as a text gives other pieces."""
    llama = tokenizer_of("llama2")
    assert spelled(llama, b"flake") == [b"f", b"la", b"ke"]
    assert [llama.tokens[i] for i in llama.encode("flake")] == [b" fla", b"ke"]


def test_byte_letters_in_qwen2(data: Path, tokenizer_of: TokenizerOf) -> None:
    spec = json.loads((data / "tokenizers/qwen2/tokenizer.json").read_text(encoding="utf-8"))
    assert tokenizer_of("qwen2").tokens[spec["model"]["vocab"]["\u00a1"]] == b"\xa1"


def test_double_bytes_in_llama2(tokenizer_of: TokenizerOf) -> None:
    """96 bytes exist as <0xNN> and as a piece; a spelling takes the piece, which the model writes."""
    llama = tokenizer_of("llama2")
    twice = [b for b in range(256) if llama.tokens.count(bytes([b])) == 2]
    assert len(twice) == 96
    for byte in twice:
        if byte < 0x80:
            (spelling,) = llama.spell(bytes([byte])) or [-1]
            assert spelling >= 259  # after <unk>, <s>, </s> and the 256 byte tokens
    assert llama.spell(b"\n") == [3 + 0x0A]  # only the byte token has it


def test_half_characters_in_qwen2(tokenizer_of: TokenizerOf) -> None:
    """1,448 tokens are no UTF-8; Llama-2 writes each with byte tokens, not with U+FFFD."""
    qwen, llama = tokenizer_of("qwen2"), tokenizer_of("llama2")

    def is_text(data: bytes) -> bool:
        try:
            data.decode()
        except UnicodeDecodeError:
            return False
        return True

    halves = [t for t in qwen.tokens if t and not is_text(t)]
    assert len(halves) == 1448
    for half in halves:
        ids = llama.spell(half)
        assert ids is not None and llama.text_of(ids) == half


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece"])
@given(
    data=st.one_of(st.binary(max_size=12), st.text("flake \n\u2581é\N{LLAMA}", max_size=10).map(str.encode))
)
def test_whatever_has_all_bytes_spells_everything(kind: str, data: bytes) -> None:
    """Every byte string has a spelling, and the spelling has exactly these bytes."""
    tokenizer = READ[kind]
    ids = tokenizer.spell(data)
    assert ids is not None and tokenizer.text_of(ids) == data


@given(data=st.text("hel é", max_size=10).map(str.encode))
def test_unigram_spells_what_it_has_pieces_for(data: bytes) -> None:
    ids = READ["unigram"].spell(data)
    assert ids is not None and READ["unigram"].text_of(ids) == data


@pytest.mark.parametrize("data", [b"x", b"he\n", "\N{LLAMA}".encode(), b"\xc3", b"he\xff", SPACE.encode()])
def test_unigram_has_no_spelling_for_the_rest(data: bytes) -> None:
    assert READ["unigram"].spell(data) is None


@pytest.mark.parametrize("around", ["", "a", " "])
def test_the_letter_that_writes_a_space_is_spelled_by_bytes(around: str) -> None:
    """U+2581 in a text is not a space; as a piece it would become one."""
    data = (around + SPACE + around).encode()
    spelling = spelled(READ["sentencepiece"], data)
    assert spelling is not None and b"".join(spelling) == data
    assert [piece for piece in spelling if piece[0] >= 0x80] == [b"\xe2", b"\x96", b"\x81"]


def test_u2581_in_llama2(tokenizer_of: TokenizerOf) -> None:
    data = f"a{SPACE}b c".encode()
    assert spelled(tokenizer_of("llama2"), data) == [b"a", b"\xe2", b"\x96", b"\x81", b"b", b" c"]


def test_a_byte_level_spelling_is_cut_as_the_model_cuts_text() -> None:
    """The pre-tokenizer's words hold inside a fragment: no merge crosses them."""
    spec = byte_level([(b"a", b" "), (b"b", b"c")])
    tokenizer = LibraryTokenizer(spec)
    assert spelled(tokenizer, b"a bc") == [b"a", b" ", b"bc"]
