"""Where an output ends: stop strings as bytes, which may begin and end anywhere in tokens and rounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.stop import StopText, cut_at_stop, whole_tokens


def feed(stops: Sequence[str], chunks: Sequence[bytes]) -> tuple[str, list[str], StopText]:
    """The whole text, its pieces, and the state at the end."""
    text, pieces = StopText(stops), []
    for chunk in chunks:
        ended = text.push(chunk)
        pieces.append(text.take())
        if ended:
            break
    pieces.append(text.end())
    return "".join(pieces), pieces, text


def expected(stops: Sequence[str], whole: bytes) -> tuple[str, str | None]:
    """The same result in another way: the shortest prefix of the bytes that ends with a stop string."""
    for end in range(len(whole) + 1):
        matches = [s for s in stops if whole[:end].endswith(s.encode())]
        if matches:
            matched = max(matches, key=lambda s: len(s.encode()))
            return whole[: end - len(matched.encode())].decode("utf-8", "replace"), matched
    return whole.decode("utf-8", "replace"), None


@pytest.mark.parametrize(
    ("stops", "chunks", "text", "matched"),
    [
        (["STOP"], [b"go on ", b"ST", b"OP and on"], "go on ", "STOP"),
        (["STOP"], [b"go ST", b"ART"], "go START", None),
        (["\n\n"], [b"a\n", b"\n", b"b"], "a", "\n\n"),
        (["abc", "b"], [b"xabc"], "xa", "b"),  # the one that is completed first
        (["b", "ab"], [b"xab"], "x", "ab"),  # completed by the same byte: the longest
        (["aab"], [b"a", b"a", b"a", b"b"], "a", "aab"),  # the beginning moves on
        (["é"], [b"caf\xc3", b"\xa9!"], "caf", "é"),  # inside a character
        (["é"], [b"\xc3", b"\xa8"], "è", None),
        (["end"], [b"the en"], "the en", None),  # only the beginning of a stop string, so it is text
        (["x"], [b"x"], "", "x"),
        ([], [b"any", b"thing"], "anything", None),
    ],
)
def test_a_stop_string_ends_the_text(
    stops: list[str], chunks: list[bytes], text: str, matched: str | None
) -> None:
    whole, _, state = feed(stops, chunks)
    assert (whole, state.matched) == (text, matched)


def test_what_may_be_a_beginning_is_held_back_and_nothing_else() -> None:
    text = StopText(["STOP"])
    shown = []
    for chunk in (b"a", b"S", b"T", b"x", b"S", b"TO"):
        assert not text.push(chunk)
        shown.append(text.take())
    assert shown == ["a", "", "", "STx", "", ""]
    assert text.end() == "STO"


@given(
    st.text("abé\u3042", max_size=24),
    st.lists(st.text("abé\u3042", min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(0, 40), max_size=12),
)
def test_the_end_depends_on_the_bytes_alone(whole: str, stops: list[str], places: list[int]) -> None:
    data = whole.encode()
    cuts = sorted({0, len(data), *(p for p in places if p < len(data))})
    chunks = [data[a:b] for a, b in pairwise(cuts)]
    text, pieces, state = feed(stops, chunks)
    assert (text, state.matched) == expected(stops, data)
    if state.matched is not None:
        assert state.start is not None
        assert data[state.start :].startswith(state.matched.encode())
    for n in range(len(pieces)):  # no piece is withdrawn later
        assert text.startswith("".join(pieces[:n]))


BYTES = {0: b"a", 1: b"STO", 2: b"P!", 3: b"z", 9: b"never written"}


@pytest.mark.parametrize(
    ("tokens", "kept", "ended"),
    [
        ([0, 3, 0], [0, 3, 0], False),
        ([0, 9, 3], [0, 9], True),  # 9 is the end token
        ([0, 1, 2, 3, 9], [0, 1, 2], True),
        ([0, 9, 1, 2], [0, 9], True),  # the first of the two
        ([1, 2], [1, 2], True),
    ],
)
def test_a_round_is_cut_at_its_first_end(tokens: list[int], kept: list[int], ended: bool) -> None:
    text = StopText(["STOP"])
    assert cut_at_stop(tokens, (9,), text, BYTES.__getitem__) == (kept, ended)
    assert "never" not in text.take()


def test_tokens_before_a_byte() -> None:
    assert whole_tokens([2, 3, 1], 5) == (2, 0)
    assert whole_tokens([2, 3, 1], 4) == (1, 2)
    assert whole_tokens([2, 3, 1], 0) == (0, 0)
    assert whole_tokens([0, 2], 0) == (1, 0)
    assert whole_tokens([1, 1], 2) == (2, 0)


@pytest.mark.parametrize("stop", ["", "\ud83d"])
def test_what_is_no_stop_string(stop: str) -> None:
    with pytest.raises(SettingError, match="stop string"):
        StopText([stop])
