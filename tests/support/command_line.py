"""The command line in this process, and the form of a refusal."""

import atexit
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]  # arguments -> exit status, standard output, standard error


def refused(result: tuple[int, str, str], *words: str) -> None:
    """Exit status 1 and one sentence on standard error with these words."""
    code, out, err = result
    assert (code, out) == (1, "")
    # On a slow machine lines of progress, which end with the elapsed time, may come before it.
    sentences = [line for line in err.strip().splitlines() if not re.search(r", \d+:\d\d:\d\d$", line)]
    assert len(sentences) == 1 and sentences[0].startswith("omnidraft: "), err
    assert "Traceback" not in err
    for word in words:
        assert word in err, (word, err)


def limit_files(size: int) -> None:
    """Limit the size of the files that this process writes; a write beyond it fails as on a full disk."""
    resource = pytest.importorskip("resource")
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def config(**settings: object) -> tuple[str, Path]:
    """The option `--config` with a new file of these settings."""
    pytest.importorskip("tomllib", reason="files of settings need Python 3.11")
    place = tempfile.mkdtemp(prefix="omnidraft-settings-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    file = Path(place, "settings.toml")
    values = {name: str(v) if isinstance(v, Path) else v for name, v in settings.items()}
    file.write_text("".join(f"{name} = {json.dumps(v).lower() if isinstance(v, float) else json.dumps(v)}\n"
                            for name, v in values.items()))  # fmt: skip
    return "--config", file
