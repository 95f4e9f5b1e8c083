"""Text that arrives as bytes in pieces."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from omnidraft.runtime.decoding.stop import Utf8Stream


def streamed(pieces: list[bytes]) -> list[str]:
    stream = Utf8Stream()
    return [*(stream.push(piece) for piece in pieces), stream.flush()]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(p, len(data)) for p in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(st.binary(), st.lists(st.integers(0, 60)))
def test_any_bytes_read_as_python_reads_them_whole(data: bytes, places: list[int]) -> None:
    assert "".join(streamed(cut(data, places))) == data.decode("utf-8", "replace")
