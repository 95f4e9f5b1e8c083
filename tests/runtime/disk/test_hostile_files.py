"""Every file that the runtime reads: pipes, devices, directories and too large files are refused at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from omnidraft.errors import BundleError, OmnidraftError
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST
from omnidraft.runtime.bundle.manifest_file import MAX_BYTES as MAX_MANIFEST_BYTES
from omnidraft.runtime.bundle.signature import SIGNATURE, read_signature
from omnidraft.runtime.models import adapter_file
from omnidraft.runtime.session import session_file
from omnidraft.runtime.session.session_store import read_session
from omnidraft.runtime.traces.trace_file import MAX_SEGMENT_BYTES
from omnidraft.runtime.traces.trace_reader import read_traces
from omnidraft.runtime.vocab import vocab_map
from omnidraft.runtime.vocab.cache_store import read_table
from support.closed_directory import closed


def _manifest(path: Path) -> object:
    path.rename(path.with_name(MANIFEST))
    return open_bundle(path.parent)


def _signature(path: Path) -> object:
    path.rename(path.with_name(SIGNATURE))
    return read_signature(path.parent)


# The reader of each file, the fault of what is no regular file, and that of a file of too many bytes.
READERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "manifest": (_manifest, "unreadable"),
    "map": (vocab_map.load_vocab_map, "unreadable"),
    "session": (read_session, "unreadable"),
    "cache": (read_table, "unreadable"),
    "adapter": (adapter_file.read_adapter, "unreadable"),
    "trace": (lambda path: list(read_traces(path)), "unreadable"),
    "signature": (_signature, "malformed"),
}
SIZES = {
    "manifest": MAX_MANIFEST_BYTES,
    "map": vocab_map.MAX_FILE_BYTES,
    "session": session_file.MAX_FILE_BYTES,
    "adapter": adapter_file.MAX_FILE_BYTES,
    "trace": MAX_SEGMENT_BYTES,
}


@pytest.mark.parametrize("what", ["map", "session", "cache", "adapter", "trace"])
def test_a_directory_without_permission_is_refused(what: str, tmp_path: Path) -> None:
    read, fault = READERS[what]
    directory = tmp_path / "closed"
    directory.mkdir()
    for path in (directory / "file", *([directory] if what == "trace" else [])):
        with closed(directory), pytest.raises(OmnidraftError, match=r"\(Permission denied\); ") as caught:
            read(path)
        assert caught.value.fault == fault and str(path) in caught.value.message


@pytest.mark.parametrize("what", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_is_no_regular_file_is_refused_at_once(what: str, kind: str, tmp_path: Path) -> None:
    if what == "trace" and kind == "directory":
        pytest.skip("a trace is a directory")
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)  # nobody writes to it: opening it for reading would wait forever
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    read, fault = READERS[what]
    with pytest.raises(OmnidraftError) as refused:
        read(path)
    assert refused.value.fault == fault, str(refused.value)


@pytest.mark.parametrize("what", SIZES)
def test_a_file_of_one_byte_too_many_is_not_read(what: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8) + b"{" if what == "adapter" else b"{")
    os.truncate(path, SIZES[what] + 1)  # no block of it is on the disk
    with pytest.raises(OmnidraftError, match=f"it has more than {SIZES[what]} bytes") as refused:
        READERS[what][0](path)
    assert refused.value.fault == "unreadable"


@pytest.mark.parametrize("depth", [33, 1000, 100_000, 4_000_000])
def test_deep_json_is_refused_in_a_sentence(depth: int, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(b"[" * depth)
    with pytest.raises(BundleError, match="nested more than 32 deep") as refused:
        open_bundle(tmp_path)
    assert refused.value.fault == "unreadable"
