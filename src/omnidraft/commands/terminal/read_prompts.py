"""Prompts from a text file, from JSON lines, or from a dataset of the hub."""

from __future__ import annotations

import gzip
import hashlib
import json
import string
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omnidraft.errors import SettingError, reason

FIELDS = ("question", "prompt", "instruction", "text", "input")  # tried in this order when no field is named
_LINES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")


def read_prompts(
    source: str, *, field: str | None = None, template: str | None = None, count: int | None = None
) -> list[str]:
    """Prompts in their order, without blank ones.

    Args:
        source: a text file with a prompt on each line, a file of JSON lines or a JSON list (also .gz), or a
            dataset of the hub as `NAME`, `NAME:CONFIG` or `NAME:CONFIG:SPLIT`, which needs the package
            `datasets`.
        field: of a row; when None, the first of `FIELDS` that the row has.
        template: in place of a field: text with names of fields in braces.
        count: the largest number of prompts; all when None.

    Raises:
        SettingError: the source cannot be read, or has no prompts.
    """
    prompts: list[str] = []
    for prompt in _all_prompts(source, field, template):
        if count is not None and len(prompts) >= count:
            break
        if prompt.strip():
            prompts.append(prompt.strip())
    if not prompts:
        raise SettingError(f"{source} holds no prompts", "give one on each line, or name their field")
    return prompts


def read_lines(file: Path) -> list[str]:
    """The lines of a text file that are not blank.

    Raises:
        SettingError: the file cannot be read, or all of its lines are blank.
    """
    prompts = [line.strip() for line in _text(file).split("\n") if line.strip()]
    if not prompts:
        raise SettingError(f"{file} holds no prompts", "give one on each line")
    return prompts


def _all_prompts(source: str, field: str | None, template: str | None) -> Iterator[str]:
    """Prompts as they are, also blank ones."""
    path = Path(source).expanduser()
    if path.is_file():
        if not path.name.endswith(_LINES):
            if field or template:
                raise SettingError(f"{source} has lines and no fields", "leave out --field and --template")
            return iter(_text(path).split("\n"))
        return (_prompt(row, field, template, source) for row in _rows(path))
    if path.is_dir():
        raise SettingError(f"{source} is a directory", "give a .txt or .jsonl file in it")
    if path.exists() or path.suffix or source.startswith((".", "/", "~")):
        raise SettingError(f"{source} does not exist", "give a .txt or .jsonl file, or a dataset of the hub")
    return (_prompt(row, field, template, source) for row in _dataset(source))


def digest(prompts: list[str]) -> str:
    """SHA-256 over a list of prompts, in hexadecimal digits."""
    return hashlib.sha256("\0".join(prompts).encode("utf-8", "surrogatepass")).hexdigest()


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise SettingError(
            f"{path} cannot be read as UTF-8 text ({_why(error)})", "give another file"
        ) from None


def _why(error: Exception) -> str:
    return f"byte {error.start} is not UTF-8" if isinstance(error, UnicodeDecodeError) else reason(error)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The objects of JSON lines, or of one JSON list."""
    text = _text(path)
    if text.lstrip().startswith("["):
        try:
            rows = json.loads(text)
        except ValueError as error:
            raise SettingError(
                f"{path} is not a whole JSON list ({error})", "give JSON lines or a list"
            ) from None
        for number, row in enumerate(rows, 1):
            if not isinstance(row, dict):
                raise SettingError(f"entry {number} of {path} is not a JSON object", "give a list of objects")
            yield row
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise SettingError(f"line {number} of {path} is not a JSON object", "give a file of JSON lines")
        yield row


def _prompt(row: Mapping[str, Any], field: str | None, template: str | None, source: str) -> str:
    """The prompt in a row."""
    has = ", ".join(row)
    if template is not None:
        try:
            return string.Formatter().vformat(template, (), row)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
            raise SettingError(
                f"the template {template!r:.60} does not fit a row of {source} ("
                f"{error!r:.60}), which has {has}",
                "name its fields in braces",
            ) from None
    names = [field] if field else [name for name in FIELDS if isinstance(row.get(name), str)]
    if not names or not isinstance(row.get(names[0]), str):
        present = [name for name in ([field] if field else FIELDS) if name in row]
        if present:
            value = json.dumps(row[present[0]], ensure_ascii=False, default=str)
            raise SettingError(
                f"{present[0]} of a row of {source} is {value:.40}, which is not text",
                "correct the row, or name another field with --field",
            )
        missing = f"no field {field}" if field else "none of " + ", ".join(FIELDS)
        raise SettingError(
            f"a row of {source} has {missing}, but {has}", "name the field of the prompt with --field"
        )
    return str(row[names[0]])


def _dataset(source: str) -> Iterator[Mapping[str, Any]]:
    """The rows of a dataset of the hub, fetched as they are read."""
    if not find_spec("datasets"):
        raise SettingError(
            f"{source} is not a file, and a dataset of the hub needs the package datasets",
            "give a file, or run `pip install datasets`",
        )
    from datasets import load_dataset

    name, _, rest = source.partition(":")
    config, _, split = rest.partition(":")
    try:
        yield from load_dataset(name, config or None, split=split or "train", streaming=True)
    except Exception as error:  # of many kinds, all about the name that was given
        raise SettingError(
            f"the dataset {source} cannot be read ({error!s:.160})", "check its name, config and split"
        ) from None
