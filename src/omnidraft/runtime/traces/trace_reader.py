"""Read traces for training: one generation after another, from any number of files and devices."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from omnidraft.errors import TraceFileError, refusing
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.traces.trace import Traced, Vocabularies
from omnidraft.runtime.traces.trace_file import MAX_SEGMENT_BYTES, Segment, decode

SUFFIX = ".odt"
_NAME = re.compile(r"trace-(\d{10})\.odt")
_REMEDIES = {
    "not_a_trace": "check the path",
    "unreadable": "check the path and its permissions",
    "version": "update omnidraft",
    "foreign_vocabulary": "use it with the pair of models that it was recorded with",
}


def read_traces(
    places: str | Path | Iterable[str | Path], vocabularies: Vocabularies | None = None
) -> Iterator[Traced]:
    """All generations of some traces, the oldest of each first. One segment at a time is in memory.

    Torn bytes at the end of a segment are skipped. So is a segment that a recording session deletes meanwhile
    to make room.

    Args:
        places: directories of traces, single segments, or both.
        vocabularies: of the models to train; None accepts any.

    Raises:
        TraceFileError: with the name of the fault, the file and the remedy.
    """
    for place in [places] if isinstance(places, str | Path) else places:
        for _, segment in read_segments(place, vocabularies):
            yield from segment.generations()


def read_segments(
    place: str | Path, vocabularies: Vocabularies | None = None
) -> Iterator[tuple[Path, Segment]]:
    """The segments of one trace with their files."""
    path = Path(place)
    with refusing(TraceFileError, f"{path} cannot be read", _REMEDIES["unreadable"], "unreadable"):
        segments = segments_of(path) if path.is_dir() else [path]
    if not segments:
        raise TraceFileError(f"{path} holds no trace", "check the path", fault="not_a_trace")
    for file in segments:
        try:
            segment = _read(file)
            if vocabularies is not None:
                vocabularies.check(segment.header.vocabularies)
        except FileNotFoundError:
            if path.is_dir():  # the recording session deleted it to make room
                continue
            raise TraceFileError(
                f"there is no trace {file}",
                "give a directory that a session with a trace recorded in, as "
                f"`omnidraft generate BUNDLE PROMPT --trace {file}` does",
                fault="unreadable",
            ) from None
        except TraceFileError as error:
            remedy = _REMEDIES.get(error.fault, "delete it, or give a whole copy of it")
            raise TraceFileError(f"{file} is refused: {error}", remedy, fault=error.fault) from None
        yield file, segment


def _read(path: Path) -> Segment:
    try:
        return decode(read_whole(path, MAX_SEGMENT_BYTES))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TraceFileError(f"it cannot be read ({error.strerror})", fault="unreadable") from None


def segments_of(path: Path) -> list[Path]:
    """The segments in a directory, by number."""
    return sorted(file for file in path.iterdir() if _NAME.fullmatch(file.name) and file.is_file())


def name_of(number: int) -> str:
    """The file name of a segment."""
    return f"trace-{number:010d}{SUFFIX}"


def number_of(path: Path) -> int:
    """The number of a segment by its file name."""
    return int(path.stem.removeprefix("trace-"))
