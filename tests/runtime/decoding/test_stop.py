"""Where an output ends: stop strings as bytes, which may begin and end anywhere in tokens and rounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.stop import StopText


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


@pytest.mark.parametrize("stop", ["", "\ud83d"])
def test_what_is_no_stop_string(stop: str) -> None:
    with pytest.raises(SettingError, match="stop string"):
        StopText([stop])
