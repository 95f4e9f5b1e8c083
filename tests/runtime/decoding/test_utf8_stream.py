"""Text that arrives as bytes in pieces."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidraft.runtime.decoding.stop import Utf8Stream


def streamed(pieces: list[bytes]) -> list[str]:
    stream = Utf8Stream()
    return [*(stream.push(piece) for piece in pieces), stream.flush()]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(p, len(data)) for p in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(st.text(), st.lists(st.integers(0, 60)))
def test_text_survives_any_cut(text: str, places: list[int]) -> None:
    assert "".join(streamed(cut(text.encode("utf-8", "ignore"), places))) == text.encode(
        "utf-8", "ignore"
    ).decode("utf-8")


@given(st.binary(), st.lists(st.integers(0, 60)))
def test_any_bytes_read_as_python_reads_them_whole(data: bytes, places: list[int]) -> None:
    assert "".join(streamed(cut(data, places))) == data.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("pieces", "texts"),
    [
        ([b"\xf0\x9f", b"\xa6", b"\x99!"], ["", "", "\N{LLAMA}!", ""]),  # half characters are held back
        ([b"caf\xc3"], ["caf", "\ufffd"]),  # an incomplete character at the end of the text becomes one mark
        ([b"\xff", b"a"], ["\ufffd", "a", ""]),  # can never become a character, so it is not held back
        ([b"\xe2\x82", b"a"], ["", "\ufffda", ""]),  # not a character after all
        ([b"", b""], ["", "", ""]),
    ],
)
def test_what_comes_out_when(pieces: list[bytes], texts: list[str]) -> None:
    assert streamed(pieces) == texts


def test_flush_ends_what_was_held() -> None:
    stream = Utf8Stream()
    stream.push(b"\xe2\x82")
    assert stream.flush() == "\ufffd"
    assert stream.push(b"\xac") == "\ufffd"  # the character before was ended by the flush
