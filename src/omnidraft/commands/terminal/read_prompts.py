"""Prompts from a text file or from JSON lines."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from omnidraft.errors import SettingError, reason

FIELDS = ("question", "prompt", "instruction", "text", "input")  # tried in this order when no field is named
MOST_BYTES = 1 << 30  # of a file, unpacked
_LINES = (".jsonl", ".jsonl.gz")


def read_prompts(source: Path, *, field: str | None = None, count: int | None = None) -> list[str]:
    """Prompts in their order, without blank ones.

    Args:
        source: a text file with a prompt on each line, or JSON lines; also .gz.
        field: of a row; when None, the first of `FIELDS` that the row has.
        count: the largest number of prompts, at least 1; all when None.

    Raises:
        SettingError: the source cannot be read, has more than `MOST_BYTES`, or has no prompts; or `count`
            is outside its range.
    """
    if count is not None and count < 1:
        raise SettingError(f"count {count} is less than 1", "leave it out for all prompts", setting="count")
    if source.is_dir():
        raise SettingError(f"{source} is a directory", "give a .txt or .jsonl file in it")
    if not source.exists():
        raise SettingError(f"{source} does not exist", "give a .txt or .jsonl file")
    if source.name.endswith(_LINES):
        found: Iterator[str] = (_prompt(row, field, source) for row in _rows(source))
    elif field is not None:
        raise SettingError(f"{source} has lines and no field {field}", "leave out field")
    else:
        found = iter(_text(source).split("\n"))
    most = None if count is None else min(count, sys.maxsize)  # more than `islice` takes
    prompts = list(islice((prompt.strip() for prompt in found if prompt.strip()), most))
    if not prompts:
        raise SettingError(f"{source} holds no prompts", "give one on each line, or name their field")
    return prompts


def digest(prompts: list[str]) -> str:
    """SHA-256 over a list of prompts, in hexadecimal digits."""
    return hashlib.sha256("\0".join(prompts).encode("utf-8", "surrogatepass")).hexdigest()


def _text(path: Path) -> str:
    """The text of a file without a byte order mark."""
    try:
        return _unpacked(path).decode("utf-8").removeprefix("\ufeff")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        why = f"byte {error.start} is not UTF-8" if isinstance(error, UnicodeDecodeError) else reason(error)
        raise SettingError(f"{path} cannot be read as UTF-8 text ({why})", "give another file") from None


def _unpacked(path: Path) -> bytearray:
    """The bytes of a file, read in pieces: a small .gz may hold any number of them."""
    data = bytearray()
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while piece := file.read(1 << 20):
            data += piece
            if len(data) > MOST_BYTES:
                raise SettingError(f"{path} has more than {MOST_BYTES:,} bytes", "give a part of it")
    return data


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise SettingError(f"line {number} of {path} is not a JSON object", "give a file of JSON lines")
        yield row


def _prompt(row: Mapping[str, Any], field: str | None, source: Path) -> str:
    has = ", ".join(row)
    names = [field] if field else [name for name in FIELDS if isinstance(row.get(name), str)]
    if names and isinstance(row.get(names[0]), str):
        return str(row[names[0]])
    present = [name for name in ([field] if field else FIELDS) if name in row]
    if present:
        given = row[present[0]]
        nested = isinstance(given, list | dict)  # of a depth that may be too much to write
        value = "a list or an object" if nested else json.dumps(given)
        raise SettingError(
            f"{present[0]} of a row of {source} is {value:.40}, which is not text",
            "correct the row, or name another field in --config",
        )
    missing = f"no field {field}" if field else "none of " + ", ".join(FIELDS)
    raise SettingError(
        f"a row of {source} has {missing}, but {has}", "name the field of the prompt as field in --config"
    )
