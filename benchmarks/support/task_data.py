"""The folder of task prompts and tokenizers that benchmarks read: OMNIDRAFT_DATA."""

import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any, Literal

from omnidraft.errors import SettingError

DATA = Path(os.environ.get("OMNIDRAFT_DATA") or Path(__file__).resolve().parents[3] / "shared/data")


def rows(file: str) -> list[dict[str, Any]]:
    """The rows of a task file, for example of `gsm8k/test`.

    Raises:
        SettingError: the file does not exist.
    """
    path = DATA / "tasks" / f"{file}.jsonl.gz"
    if not path.is_file():
        raise SettingError(f"there is no {path}", "set OMNIDRAFT_DATA to the folder that holds tasks/")
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:  # a string may hold U+2028
        return [json.loads(line) for line in lines]


def require(folder: Literal["tasks", "tokenizers"]) -> Path:
    """The path of a folder of the data; without it the program ends with a message."""
    path = DATA / folder
    if not path.is_dir():
        sys.exit(f"there is no {path}; set OMNIDRAFT_DATA to the folder that holds {folder}/")
    return path
