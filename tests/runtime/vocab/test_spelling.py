"""How a tokenizer spells given bytes: with any kind of vocabulary, for any bytes, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_tokenizer import READ

from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from support.tiny_tokenizers import SPACE, byte_level


def spelled(tokenizer: Tokenizer, data: bytes) -> list[bytes] | None:
    ids = tokenizer.spell(data)
    return None if ids is None else [tokenizer.tokens[i] or b"" for i in ids]


def test_a_fragment_has_no_dummy_prefix() -> None:
    tokenizer = READ["sentencepiece"]
    assert spelled(tokenizer, b"flake") == [b"f", b"la", b"ke"]
    assert spelled(tokenizer, b" flake") == [b" fla", b"ke"]
    assert [tokenizer.tokens[i] for i in tokenizer.encode("flake")] == [b" fla", b"ke"]


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


def test_a_byte_level_spelling_is_cut_as_the_model_cuts_text() -> None:
    """The pre-tokenizer's words hold inside a fragment: no merge crosses them."""
    spec = byte_level([(b"a", b" "), (b"b", b"c")])
    tokenizer = LibraryTokenizer(spec)
    assert spelled(tokenizer, b"a bc") == [b"a", b" ", b"bc"]
