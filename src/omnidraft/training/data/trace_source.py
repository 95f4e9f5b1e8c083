"""Traces at any location that fsspec can open: list their segments, and read one.

A location is a folder or a segment, as `traces/phone` or `s3://bucket/traces`. Folders are searched
recursively, pushes (`NAME.push`, spec/15-sync.md) too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from omnidraft.errors import OmnidraftError, SettingError, SyncError, TraceFileError, install, reason
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_file import Segment, decode
from omnidraft.runtime.traces.trace_payload import demand
from omnidraft.runtime.traces.trace_reader import SUFFIX
from omnidraft.sync.channel import PUSH_END
from omnidraft.sync.record import MOST_HEAD, read_head

MAX_SEGMENT = 256 << 20  # bytes; a trace store writes segments of 2 MiB by default


@dataclass(frozen=True, order=True)
class TraceSource:
    """The place of a segment.

    Attributes:
        url: address for fsspec.
        offset: where it begins in the file.
        size: bytes; -1 if the file system does not report it.
        sha256: that a push says it has; None for a file of its own.
    """

    url: str
    offset: int
    size: int
    sha256: str | None = None

    @property
    def shown(self) -> str:
        """The address without user name and password, for messages."""
        return _shown(self.url)

    def read(self, vocabularies: Vocabularies) -> Segment:
        """The decoded segment.

        Raises:
            TraceFileError: the file cannot be read, is not a trace, or is of another pair of vocabularies.
        """
        try:
            with _errors_about(self.shown):
                fs, path = _opened(self.url)
                with fs.open(path, "rb") as file:
                    file.seek(self.offset)
                    data = file.read(MAX_SEGMENT + 1 if self.sha256 is None else self.size)
        except SettingError as error:
            raise TraceFileError(str(error), fault="unreadable") from None
        try:
            demand(len(data) <= MAX_SEGMENT, "limits", f"it has more than {MAX_SEGMENT} bytes")
            changed = self.sha256 is not None and hashlib.sha256(data).hexdigest() != self.sha256
            demand(not changed, "checksum", "it is not the segment that the push names")
            segment = decode(data)
            vocabularies.check(segment.header.vocabularies)
        except TraceFileError as error:
            raise TraceFileError(f"{self.shown} is refused: {error}", fault=error.fault) from None
        return segment


def find_sources(locations: Sequence[str]) -> list[TraceSource]:
    """All segments at some locations, each once, sorted.

    Raises:
        SettingError: a location has no segment or cannot be reached, or a package is missing.
    """
    sources: set[TraceSource] = set()
    for location in locations:
        segments = set(_sources_of(location))
        if not segments:
            raise SettingError(
                f"{_shown(location)} holds no trace (NAME{SUFFIX}, NAME{PUSH_END}) or cannot be reached",
                "give a folder or a segment",
            )
        sources |= segments
    return sorted(sources)


def digest(sources: Sequence[TraceSource]) -> str:
    """A hash of the segments' names and sizes in order; it does not depend on their location."""
    names = [f"{source.url.rpartition('/')[2]} {source.size}" for source in sources]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _sources_of(location: str) -> Iterator[TraceSource]:
    with _errors_about(_shown(location)):
        fs, root = _opened(location)
        fs.invalidate_cache()
        details = fs.find(root, detail=True)
    for path, info in sorted(details.items()):
        url = str(fs.unstrip_protocol(path))
        if path.endswith(SUFFIX):
            yield TraceSource(url, 0, -1 if info.get("size") is None else int(info["size"]))
        elif path.endswith(PUSH_END):
            yield from _pushed(url)


def _pushed(url: str) -> Iterator[TraceSource]:
    with _errors_about(_shown(url)):
        fs, path = _opened(url)
        with fs.open(path, "rb") as file:
            head = file.read(MOST_HEAD)
    try:
        record = read_head(head, "push", None)
    except SyncError:  # it is left out, or refused where the training is strict, when it is read as a trace
        yield TraceSource(url, 0, len(head))
        return
    offset = record.size - sum(each.size for each in record.traces)
    for each in record.traces:
        yield TraceSource(url, offset, each.size, each.sha256)
        offset += each.size


def _opened(location: str) -> tuple[Any, str]:
    if find_spec("fsspec") is None:
        raise SettingError("reading traces from here needs fsspec", install("train"))
    from fsspec.core import url_to_fs

    fs, root = url_to_fs(location)
    return fs, str(root)


def _shown(location: str) -> str:
    return re.sub(r"//[^/@]*@", "//", location)


@contextmanager
def _errors_about(what: str) -> Iterator[None]:
    try:
        yield
    except OmnidraftError:
        raise
    except ImportError as error:
        raise SettingError(f"{what} needs a package that is not installed ({reason(error)})") from None
    except FileNotFoundError:
        raise SettingError(f"there is no {what}", "check the address") from None
    except Exception as error:  # the file systems behind fsspec share no narrower base
        raise SettingError(
            f"{what} cannot be read ({reason(error)})", "check the address and try again"
        ) from None
