"""Fixtures of several tests: the task data, the real tokenizers and the bundle of the starter models."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from support.command_line import Run
from support.made_once import MadeOnce, made_once_in
from support.places import ROOT, STARTERS
from support.real_tokenizers import TokenizerOf
from support.recordings import LEARNED, record
from support.starter_bundles import export_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai import OpenAI

    from omnidraft import LanguageModel, TextSession
    from omnidraft.sync.store import Store
    from support.exported_graphs import Export
    from support.serving import Serving

# What this device remembers of bundles, and archives that it unpacked; children and workers share both.
for kind in ("STATE", "CACHE"):
    if f"OMNIDRAFT_{kind}" not in os.environ:
        os.environ[f"OMNIDRAFT_{kind}"] = tempfile.mkdtemp(prefix=f"omnidraft-{kind.lower()}-")
        atexit.register(shutil.rmtree, os.environ[f"OMNIDRAFT_{kind}"], ignore_errors=True)

# An example may take any time: other work may need the processor.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# Workers of pytest-xdist share the cores. With a thread for every core in each of them, torch's threads wait
# for one another most of the time; it reads these names when it is imported, and so do child processes.
if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

# A shell lets its background processes ignore Ctrl-C, and children inherit that; some tests send Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests first, so that no worker has one left when the others are done."""
    needs: dict[Path, set[str]] = {}
    for item in items:
        needs.setdefault(item.path, set(vars(getattr(item, "module", None) or object))).update(
            getattr(item, "fixturenames", ())
        )
    ranks = {path: _rank(names) for path, names in needs.items()}
    items.sort(key=lambda item: ranks[item.path])


def _rank(names: set[str]) -> int:
    """0 for a file that exports models of its own, 1 where it reads shared ones, 2 where it needs torch.

    Args:
        names: of the file's fixtures and globals.
    """
    if names & {"bundle", "bundle_b", "learnable"}:
        return 1
    if "export_packages" in names:
        return 0
    return 2 if names & {"torch", "transformers"} else 3


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process, without the lines of progress of a slow machine."""
    from omnidraft import cli
    from omnidraft.commands.terminal import progress

    monkeypatch.setattr(progress, "EVERY", 1e6)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["omnidraft", *map(str, arguments)])
        capfd.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="session")
def data() -> Path:
    """The task data: OMNIDRAFT_DATA, or ../shared/data beside the repository."""
    named = os.environ.get("OMNIDRAFT_DATA")
    path = Path(named or ROOT.parent / "shared/data").resolve()
    if not path.is_dir():
        assert not named, f"OMNIDRAFT_DATA names {named}, where there is no directory"
        pytest.skip(f"no task data at {path}; set OMNIDRAFT_DATA")
    return path


@pytest.fixture(scope="session")
def tokenizer_of(data: Path) -> TokenizerOf:
    """Real tokenizers by the name of their folder, each read once."""
    return cache(lambda name: LibraryTokenizer.from_file(data / "tokenizers" / name))


@pytest.fixture(scope="session")
def export_packages() -> None:
    """Skips where exporting is not possible: its packages need Python 3.11."""
    for name in ("torch", "transformers", "optimum", "onnx", "onnxscript"):
        pytest.importorskip(name, reason=f"exporting needs {name}, which this Python does not have")


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """Makes a directory once for all workers; tests only read it."""
    return made_once_in(tmp_path_factory)


@pytest.fixture(scope="session")
def bundle(export_packages: None, made_once: MadeOnce) -> Path:
    """A float32 bundle of two starter models, exported once: a target and a drafter of another vocabulary."""
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantization import FP32

    # They are part of the repository: without them no test below may pass.
    assert all((STARTERS / name / "model.safetensors").is_file() for name in ("a", "drafter"))
    return made_once("starter", export_of("a", Options(FP32, max_length=256, lora_target=True)))


@pytest.fixture
def copy(bundle: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(bundle, tmp_path / "bundle"))


@pytest.fixture(scope="session")
def bundle_b(export_packages: None, made_once: MadeOnce) -> Path:
    """A float32 bundle of the other starter target, whose weights are in a file of their own."""
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantization import FP32

    return made_once("starter-b", export_of("b", Options(FP32, max_length=256, external_above=1 << 20)))


@pytest.fixture(scope="module")
def loaded(bundle: Path) -> LanguageModel:
    """The starter bundle, loaded."""
    from omnidraft import load_bundle

    return load_bundle(bundle)


@pytest.fixture
def session(loaded: LanguageModel) -> TextSession:
    """A new session of the starter bundle."""
    from omnidraft import TextSession

    return TextSession(loaded)


@pytest.fixture(scope="session")
def served(bundle: Path) -> Iterator[Serving]:
    """A server of the starter bundle, which tests share."""
    from support.serving import serving

    with serving(bundle) as started:
        yield started


@pytest.fixture(scope="session")
def client(served: Serving) -> Iterator[OpenAI]:
    """The openai package as its client."""
    with served.client() as made:
        yield made


@pytest.fixture(scope="session")
def exported_learnable(export_packages: None, made_once: MadeOnce) -> tuple[Path, list[str]]:
    """A bundle whose drafter learns on the device, exported once, and the stages of its export."""
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantization import FP32, INT8

    def make(place: Path) -> None:
        stages = list[str]()
        options = Options(FP32, INT8, max_length=256, train_rank=8)
        export_of("b", options, lambda what, *_: stages.append(what))(place / "learnable")
        (place / "stages.json").write_text(json.dumps(stages))

    place = made_once("learnable", make)
    return place / "learnable", json.loads((place / "stages.json").read_text())


@pytest.fixture(scope="session")
def learnable(exported_learnable: tuple[Path, list[str]]) -> Path:
    """A bundle whose drafter learns on the device, exported once."""
    return exported_learnable[0]


@pytest.fixture(scope="session")
def learned_traces(learnable: Path, made_once: MadeOnce) -> Path:
    """Traces that were recorded with `learnable`: an answer to each of `LEARNED`."""
    return made_once("traces", lambda place: record(learnable, place, LEARNED, 40))


@pytest.fixture(scope="session")
def exported(export_packages: None, made_once: MadeOnce) -> Export:
    """Tiny models of every architecture by their names in `exported_graphs.CASES`, each exported once."""
    from support.exported_graphs import exporter

    return exporter(made_once)


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store of `omnidraft sync`: files that are renamed, or objects of fsspec."""
    from omnidraft.sync.store import open_store

    if request.param == "folder":
        return open_store(str(tmp_path / "store"))
    pytest.importorskip("fsspec", reason="stores by URL need fsspec")
    return open_store(f"memory://{tmp_path.name}-{os.getpid()}")


@pytest.fixture
def folder(tmp_path: Path) -> Store:
    """A store in a folder."""
    from omnidraft.sync.store import open_store

    return open_store(str(tmp_path / "store"))
