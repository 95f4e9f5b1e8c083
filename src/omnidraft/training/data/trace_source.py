"""Traces of many devices from any place that fsspec knows: which segments there are, and one at a time.

A location is a folder, an archive or a single segment, by a path or a URL: `traces/phone`,
`s3://bucket/traces`, `zip::https://host/phone.zip`. Folders are searched whole, so one location may hold a
folder or an archive for each device.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from omnidraft.errors import OmnidraftError, SettingError, TraceFileError, reason
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_file import Segment, decode
from omnidraft.runtime.traces.trace_payload import demand
from omnidraft.runtime.traces.trace_reader import SUFFIX

ARCHIVES = {".zip": "zip", ".tar": "tar"}
MAX_SEGMENT = 256 << 20  # bytes; a store's segments have 2 MiB unless it was given more room


@dataclass(frozen=True, order=True)
class TraceSource:
    """A segment somewhere.

    Attributes:
        url: what fsspec opens. size: bytes; -1 where the file system does not say.
    """

    url: str
    size: int

    @property
    def shown(self) -> str:
        """Its address for people, without a password."""
        return _shown(self.url)

    def read(self, vocabularies: Vocabularies) -> Segment:
        """The segment, decoded.

        Raises:
            TraceFileError: it cannot be read, is none, or is of another pair of vocabularies.
        """
        try:
            with _telling(self.shown):
                fs, path = _opened(self.url)
                with fs.open(path, "rb") as file:
                    data = file.read(MAX_SEGMENT + 1)
        except SettingError as error:
            raise TraceFileError(str(error), fault="unreadable") from None
        try:
            demand(len(data) <= MAX_SEGMENT, "limits", f"it has more than {MAX_SEGMENT} bytes")
            found = decode(data)
            vocabularies.check(found.header.vocabularies)
        except TraceFileError as error:
            raise TraceFileError(f"{self.shown} is refused: {error}", fault=error.fault) from None
        return found


def find_sources(locations: Sequence[str]) -> list[TraceSource]:
    """All segments at some locations, each once, in an order that does not change.

    Raises:
        SettingError: nothing is there, it cannot be reached, or a package is missing.
    """
    found: set[TraceSource] = set()
    for location in locations:
        here = set(_sources_of(location))
        if not here:
            raise SettingError(
                f"{_shown(location)} holds no trace (NAME{SUFFIX}) or cannot be reached",
                "give a folder, an archive or a segment",
            )
        found |= here
    return sorted(found)


def digest(sources: Sequence[TraceSource]) -> str:
    """Of which segments there are, by their names and sizes in order, wherever they lie."""
    names = [f"{_name(source.url)} {source.size}" for source in sources]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _sources_of(location: str) -> Iterator[TraceSource]:
    if _archive(location) and "::" not in location:
        location = f"{_archive(location)}::{location}"
    with _telling(_shown(location)):
        fs, root = _opened(location)
        fs.invalidate_cache()
        details = fs.find(root, detail=True)
    for path, info in sorted(details.items()):
        if path.endswith(SUFFIX):
            yield TraceSource(_url(location, fs, path), -1 if info.get("size") is None else int(info["size"]))
        elif _archive(path) and "::" not in location:
            yield from _sources_of(fs.unstrip_protocol(path))


def _archive(name: str) -> str | None:
    """How fsspec calls what opens an archive of that name."""
    return next((kind for suffix, kind in ARCHIVES.items() if name.lower().endswith(suffix)), None)


def _url(location: str, fs: Any, path: str) -> str:
    """The address of a file that was found at a location."""
    outer, chained, inner = location.partition("::")
    if not chained:
        return str(fs.unstrip_protocol(path))
    if "::" not in inner:  # one way to write each place
        inner_fs, inner_path = _opened(inner)
        inner = inner_fs.unstrip_protocol(inner_path)
    return f"{outer.partition('://')[0]}://{path}::{inner}"


def _name(url: str) -> str:
    return url.partition("::")[0].rpartition("/")[2]


def _opened(location: str) -> tuple[Any, str]:
    """A file system of fsspec and the place in it."""
    if find_spec("fsspec") is None:
        raise SettingError("reading traces from here needs fsspec", "run `pip install 'omnidraft[train]'`")
    from fsspec.core import url_to_fs

    fs, root = url_to_fs(location)
    return fs, str(root)


def _shown(location: str) -> str:
    return re.sub(r"//[^/@]*@", "//", location)


@contextmanager
def _telling(what: str) -> Iterator[None]:
    """Turn what a file system raises into a sentence."""
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
