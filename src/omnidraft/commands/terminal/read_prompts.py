"""Prompts from a text file or from JSON lines."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from omnidraft.errors import SettingError, reason

FIELDS = ("question", "prompt", "instruction", "text", "input")  # tried in this order when no field is named
_LINES = (".jsonl", ".jsonl.gz")


def read_prompts(source: Path, *, field: str | None = None, count: int | None = None) -> list[str]:
    """Prompts in their order, without blank ones.

    Args:
        source: a text file with a prompt on each line, or JSON lines; also .gz.
        field: of a row; when None, the first of `FIELDS` that the row has.
        count: the largest number of prompts; all when None.

    Raises:
        SettingError: the source cannot be read, or has no prompts.
    """
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
    prompts = list(islice((prompt.strip() for prompt in found if prompt.strip()), count))
    if not prompts:
        raise SettingError(f"{source} holds no prompts", "give one on each line, or name their field")
    return prompts


def digest(prompts: list[str]) -> str:
    """SHA-256 over a list of prompts, in hexadecimal digits."""
    return hashlib.sha256("\0".join(prompts).encode("utf-8", "surrogatepass")).hexdigest()


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        why = f"byte {error.start} is not UTF-8" if isinstance(error, UnicodeDecodeError) else reason(error)
        raise SettingError(f"{path} cannot be read as UTF-8 text ({why})", "give another file") from None


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
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
        value = json.dumps(row[present[0]], ensure_ascii=False, default=str)
        raise SettingError(
            f"{present[0]} of a row of {source} is {value:.40}, which is not text",
            "correct the row, or name another field in --config",
        )
    missing = f"no field {field}" if field else "none of " + ", ".join(FIELDS)
    raise SettingError(
        f"a row of {source} has {missing}, but {has}", "name the field of the prompt as field in --config"
    )
