"""JSON lines on disk, added one by one, so that a run that was ended goes on where it was."""

import json
import os
import sys
from pathlib import Path
from typing import Any

if sys.platform != "win32":  # Windows: two processes must not write one file
    import fcntl

Line = dict[str, Any]


def whole_lines(file: Path) -> list[bytes]:
    """The lines of a file, if there is one; an end without a newline was cut by a kill and does not count."""
    data = file.read_bytes() if file.exists() else b""
    return data[: _end(data)].splitlines()


def read(file: Path) -> list[Line]:
    """The objects of the lines of a file, if there is one."""
    return [json.loads(line) for line in whole_lines(file)]


def append(file: Path, line: Line, *, sort_keys: bool = False) -> None:
    """Add a line under a lock; a part of a line that a killed process left is dropped first.

    Args:
        file: it and its folder are made if they do not exist.
        line: plain values.
        sort_keys: whether the names in the line are sorted.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+b") as out:
        if sys.platform != "win32":
            fcntl.flock(out, fcntl.LOCK_EX)
        out.seek(0)
        out.truncate(_end(out.read()))
        out.write(json.dumps(line, sort_keys=sort_keys).encode() + b"\n")
        out.flush()
        os.fsync(out.fileno())


def _end(data: bytes) -> int:
    """Bytes up to the end of the last whole line."""
    return data.rfind(b"\n") + 1
