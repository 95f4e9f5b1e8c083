"""The command line in this process, and the form of a refusal."""

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support.places import ROOT

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


def runs_without(modules: set[str], *arguments: object) -> None:
    """The command ends well in a process of its own, which has imported none of these modules then."""
    code = (
        f"import sys; from omnidraft import cli; sys.argv = {['omnidraft', *map(str, arguments)]}\n"
        "try:\n    cli.main()\nexcept SystemExit as stop:\n    assert not stop.code or not sys.argv[1:]\n"
        f"loaded = {modules} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr


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
