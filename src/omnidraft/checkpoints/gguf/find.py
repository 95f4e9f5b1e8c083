"""Find out whether the model that a user names is a GGUF file, and which file it is."""

from __future__ import annotations

from pathlib import Path

from omnidraft.checkpoints.refusals import WEIGHTS
from omnidraft.errors import CheckpointError, refusing

SUFFIX = ".gguf"


def find_gguf(name: str) -> Path | None:
    """The GGUF file that `name` is or holds; None where it is something else.

    A directory that holds weights of a checkpoint counts as a checkpoint.

    Raises:
        CheckpointError: there is no such file, there are several, or the path may not be read.
    """
    with refusing(CheckpointError, f"{name} cannot be read", "check the path and its permissions"):
        return _found(name, Path(name).expanduser())


def _found(name: str, path: Path) -> Path | None:
    if path.suffix.lower() == SUFFIX and not path.is_dir():
        if not path.is_file():
            raise CheckpointError(f"there is no file {name}", "check the path")
        return path
    if not path.is_dir() or any((path / file).is_file() for file in WEIGHTS):
        return None
    files = sorted(file for file in path.iterdir() if file.suffix.lower() == SUFFIX and file.is_file())
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise CheckpointError(
            f"{name} holds {len(files)} GGUF files ({names})", "give the path of one of them"
        )
    return files[0] if files else None
