"""The drafter of the package, and a bundle without one: it copies, and what needs a drafter is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from omnidraft.errors import AdapterError, ArchiveError, ExportError
from omnidraft.export.build_vocab_map import byte_vocabulary
from omnidraft.export.default_drafter import IN_CHECKOUT, IN_PACKAGE
from omnidraft.packing.share_drafter import share_drafter
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.model_entry import NO_DRAFTER
from omnidraft.runtime.session.api import load
from support.adapters import adapter
from support.command_line import Run
from support.places import ROOT, STARTERS

REPEATS = "How many legs do 3 cats have?"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A starter model without a drafter, in float32."""
    from omnidraft.export.bundle import export_bundle

    out = tmp_path_factory.mktemp("alone") / "bundle"
    report = export_bundle(str(STARTERS / "a"), None, out)
    assert report.after is None and report.costs.acceptance == 0.0
    return out


def test_what_was_put_there_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    from omnidraft.export.bundle import export_bundle

    out = tmp_path / "bundle"

    def meanwhile(*_: object) -> None:
        out.mkdir(exist_ok=True)
        (out / "notes.txt").write_text("mine")

    with pytest.raises(ExportError, match="bundle exists already"):
        export_bundle(str(STARTERS / "a"), None, out, progress=meanwhile)
    assert [file.name for file in out.iterdir()] == ["notes.txt"]


def test_the_drafter_of_the_package_is_used_where_none_is_named(run: Run, tmp_path: Path) -> None:
    code, _, error = run("export", STARTERS / "a", "-o", tmp_path / "bundle", "--quant", "int8")
    assert code == 0, error
    drafter = open_bundle(tmp_path / "bundle").drafter
    assert drafter.parameters == 6_925_120 and drafter.quantization == "int8"
    settings = pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text())
    copied = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert copied == {IN_CHECKOUT: f"omnidraft/{IN_PACKAGE}"}, "a wheel has it where it is looked for"


def test_the_bytes_are_the_vocabulary_of_the_manifest() -> None:
    tokenizer = byte_vocabulary()
    assert list(tokenizer.tokens) == [bytes([byte]) for byte in range(256)] and not tokenizer.controls
    assert tokenizer.fingerprint == NO_DRAFTER.tokenizer_fingerprint
    assert tokenizer.spell("é\n".encode()) == list("é\n".encode())


def test_text_is_that_of_plain_decoding_and_copies_are_taken(alone: Path) -> None:
    session = load(alone, measure="never")
    session.costs = replace(session.costs, target=(1.0, 1.05), host=0.0)  # copies pay, on any machine
    plain = session.generate(REPEATS, max_new_tokens=96, mode="plain").finish()
    default = session.generate(REPEATS, max_new_tokens=96).finish()
    assert default.token_ids == plain.token_ids
    assert default.statistics.accepted_copies > 0 and default.statistics.drafted == 0


def test_what_needs_a_drafter_is_refused(alone: Path, run: Run, tmp_path: Path) -> None:
    for arguments in (("-k", "4"), ("--mode", "match")):
        code, _, error = run("generate", alone, "Hello", "-n", "4", *arguments)
        assert code == 1 and "has no drafter" in error and "--drafter" in error
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("Hello\n")
    code, _, error = run("learn", alone, "--prompts", prompts, "-o", tmp_path / "out")
    assert code == 1 and "nothing to train" in error
    code, _, error = run("export", STARTERS / "a", "-d", "none", "-o", tmp_path / "b", "--train-step")
    assert code == 1 and "--train-step is for a drafter" in error and not (tmp_path / "b").exists()
    with pytest.raises(ArchiveError, match="has no drafter"):
        share_drafter(alone)


def test_the_commands_show_that_there_is_none(alone: Path, run: Run, tmp_path: Path) -> None:
    code, text, _ = run("inspect", alone)
    assert code == 0 and "none" in text and "acceptance" not in text
    code, text, _ = run("doctor", alone)
    assert code == 0 and "acceptance" not in text and "copied" in text
    archive = tmp_path / "alone.zip"
    code, text, _ = run("pack", alone, "--for", "android-cpu", "-o", archive)
    assert code == 0 and "drafters/" not in text
    code, text, _ = run("inspect", archive)
    assert code == 0 and "no drafter" in text


def test_an_adapter_of_a_drafter_does_not_fit(alone: Path) -> None:
    with pytest.raises(AdapterError):
        load(alone, measure="never", adapter=adapter())
