"""Traces of many devices as a stream: from folders and servers, shuffled, a few at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

fsspec = pytest.importorskip("fsspec")

from omnidraft.errors import SettingError  # noqa: E402
from omnidraft.learning.positions.alignment import Aligned, Aligner  # noqa: E402
from omnidraft.learning.positions.draft_targets import full_trie  # noqa: E402
from omnidraft.learning.positions.from_traces import TraceAligner  # noqa: E402
from omnidraft.runtime.traces.trace import Vocabularies  # noqa: E402
from omnidraft.runtime.traces.trace_file import Segment, TraceHeader, encode  # noqa: E402
from omnidraft.training.data.trace_source import find_sources  # noqa: E402
from omnidraft.training.data.trace_stream import BUFFER, TraceStream, shuffled  # noqa: E402
from support.toy import DRAFT, TARGET, toy_map  # noqa: E402
from support.trace_files import TOY, random_segment  # noqa: E402

MAP = toy_map()
TOYS = TraceAligner(Aligner(full_trie(MAP), max_length=200), (DRAFT.index("#"),))


def segment(seed: int, records: int = 3, vocabularies: Vocabularies = TOY) -> bytes:
    """A segment of several generations by the target without an adapter."""
    frames = random_segment(np.random.default_rng(seed), records).frames
    return encode(Segment(TraceHeader(vocabularies, 1), frames))


def fill(place: Path, devices: int, each: int, records: int = 3) -> Path:
    """Make a folder with segments for each device."""
    for device in range(devices):
        (place / f"phone-{device}").mkdir(parents=True)
        for i in range(each):
            file = place / f"phone-{device}" / f"trace-{i + 1:010d}.odt"
            file.write_bytes(segment(device * each + i, records))
    return place


def names(responses: Iterator[Aligned]) -> list[bytes]:
    return [r.draft_ids.tobytes() + r.tokens.tobytes() for r in responses]


def whole(*locations: str | Path) -> list[bytes]:
    stream = TraceStream(find_sources([str(x) for x in locations]), TOYS)
    responses = names(stream.epoch(0))
    assert len(responses) == stream.count() and not stream.left_out
    return responses


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """A folder on a local server, as `python -m http.server` serves it."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Print nothing."""

    (tmp_path / "served").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "served")))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_place_gives_the_same(tmp_path: Path, served: str) -> None:
    """A folder, the memory of this process, and a server, each with both devices."""
    folder = fill(tmp_path / "folder", 2, 3)
    expected = sorted(whole(folder))
    assert len(expected) > 10
    memory = fsspec.filesystem("memory")
    for file in folder.rglob("*.odt"):
        memory.pipe(f"/traces/{file.relative_to(folder).as_posix()}", file.read_bytes())
        copy = tmp_path / "served" / file.relative_to(tmp_path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    for place in ("memory://traces", f"file://{folder}", f"{served}/folder/"):
        assert sorted(whole(place)) == expected, place
    memory.rm("/traces", recursive=True)


def test_the_order_is_the_seeds_and_the_epochs(tmp_path: Path) -> None:
    folder = fill(tmp_path, 3, 5)
    sources = find_sources([str(folder)])
    stream = TraceStream(sources, TOYS, seed=1)
    first, second = names(stream.epoch(0)), names(stream.epoch(1))
    assert first == names(TraceStream(sources, TOYS, seed=1).epoch(0))
    assert sorted(first) == sorted(second) and first != second
    assert first != names(TraceStream(sources, TOYS, seed=2).epoch(0))
    for skip in (0, 1, 7, 8, 9, 20, len(first), len(first) + 5):
        assert names(stream.epoch(0, skip)) == first[skip:]


def test_a_buffer_shuffles() -> None:
    rng = np.random.default_rng(0)
    items = list(shuffled(range(1000), 50, rng))
    assert sorted(items) == list(range(1000)) and items != list(range(1000))
    assert all(value - at < 50 for at, value in enumerate(items))  # no item comes before it is read
    assert list(shuffled(range(3), 1, rng)) == [0, 1, 2]


def test_only_a_few_segments_are_in_memory(tmp_path: Path) -> None:
    """Segments that are deleted after the first response are missing: they had not been read."""
    folder = fill(tmp_path, 1, 12, records=BUFFER // 4)
    stream = TraceStream(find_sources([str(folder)]), TOYS)
    responses = stream.epoch(0)
    next(responses)
    for file in folder.rglob("*.odt"):
        file.unlink()
    rest = len(list(responses))
    assert 0 < rest <= 2 * BUFFER
    assert sum(stream.left_out.values()) >= 6
    assert all("there is no file:///" in sentence for sentence in stream.left_out)


def test_what_is_broken_or_foreign_is_left_out_and_counted(tmp_path: Path) -> None:
    folder = fill(tmp_path, 1, 3)
    expected = sorted(whole(folder))
    phone = folder / "phone-0"
    foreign = Vocabularies("a" * 64, "e" * 64, len(DRAFT), len(TARGET))
    (phone / "trace-0000000008.odt").write_bytes(segment(1, vocabularies=foreign))
    (phone / "trace-0000000009.odt").write_bytes(b"no trace")
    (phone / "notes.txt").write_text("not read")
    sources = find_sources([str(folder)])
    stream = TraceStream(sources, TOYS)
    assert sorted(names(stream.epoch(0))) == expected
    reasons = sorted(stream.left_out)
    assert "its drafter tokenizer is aaaaaaaaaaaa, that of these models is dddddddddddd" in reasons[0]
    assert "trace-0000000009.odt is refused: it is not a trace" in reasons[1]
    list(stream.epoch(1))
    assert list(stream.left_out.values()) == [1, 1]  # another epoch counts nothing twice
    strict = TraceStream(sources, TOYS, strict=True)
    with pytest.raises(SettingError, match=r"trace-000000000[89]\.odt is refused: it"):
        strict.count()
    for good in phone.glob("trace-000000000[123].odt"):
        good.unlink()
    with pytest.raises(
        SettingError, match="no response can be learned from in 2 trace segments; the first: "
    ):
        TraceStream(find_sources([str(folder)]), TOYS).count()


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("{tmp}/absent", "holds no trace"),
        ("{tmp}", "holds no trace"),
        ("nowhere://x", "cannot be read"),
        ("http://user:secret@127.0.0.1:9/x", "http://127.0.0.1:9/x"),
    ],
)
def test_places_without_traces_are_refused(tmp_path: Path, location: str, message: str) -> None:
    with pytest.raises(SettingError) as refused:
        find_sources([location.format(tmp=tmp_path)])
    assert message in str(refused.value) and "secret" not in str(refused.value)
