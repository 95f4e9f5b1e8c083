"""A bundle is verified before use, and each fault is one sentence."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnidraft.commands.inspect.inspect_bundle import bundle_table
from omnidraft.commands.terminal.output import out
from omnidraft.errors import BundleError, OmnidraftError
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST, sealed
from omnidraft.runtime.session.api import load
from support.places import ROOT

Manifest = dict[str, Any]
Change = Callable[[Manifest], object]


@pytest.fixture
def copy(bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundle, tmp_path / "bundle"))


def rewrite(bundle: Path, change: Change) -> None:
    """Change a manifest and seal it again, as someone would who means it."""
    manifest = json.loads((bundle / MANIFEST).read_text())
    change(manifest)
    (bundle / MANIFEST).write_bytes(sealed(manifest))


def files_of(bundle: Path) -> list[str]:
    return sorted(f.relative_to(bundle).as_posix() for f in bundle.rglob("*") if f.is_file())


def test_a_whole_bundle_opens(bundle: Path) -> None:
    opened = open_bundle(bundle)
    assert opened.target.architecture == "Qwen2ForCausalLM"
    assert opened.drafter.architecture == "LlamaForCausalLM"
    assert len(opened.manifest["files"]) == len(files_of(bundle)) - 1


def test_no_path_of_this_machine_is_in_the_manifest(bundle: Path) -> None:
    text = (bundle / MANIFEST).read_text()
    assert str(Path.home()) not in text
    assert str(bundle.parent) not in text
    assert str(ROOT) not in text


def test_a_flipped_byte_in_any_file_is_refused_by_name(copy: Path) -> None:
    names = files_of(copy)
    assert len(names) >= 7
    for name in names:
        file = copy / name
        whole = file.read_bytes()
        middle = len(whole) // 2
        file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        with pytest.raises(BundleError, match=Path(name).name):
            open_bundle(copy)
        file.write_bytes(whole)
    open_bundle(copy)


def test_a_truncated_file_is_refused_with_both_sizes(copy: Path) -> None:
    file = copy / "target/cpu/model.onnx"
    size = file.stat().st_size
    with file.open("r+b") as handle:
        handle.truncate(size // 2)
    with pytest.raises(BundleError, match=f"{size // 2} bytes instead of {size}"):
        open_bundle(copy)


def test_a_missing_file_is_refused(copy: Path) -> None:
    (copy / "drafter/tokenizer.json").unlink()
    with pytest.raises(BundleError, match="missing"):
        open_bundle(copy)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: m.update(version=2), "version 2 and this omnidraft reads version 3"),
        (lambda m: m.update(format="something"), "is not an omnidraft.bundle manifest"),
        (lambda m: m.pop("prompt"), "has no 'prompt'"),
        (lambda m: m["files"].clear(), "lists no files"),
        (lambda m: m["files"]["vocab_map.safetensors"].pop("sha256"), "no hash of .vocab_map"),
        (lambda m: m["files"]["vocab_map.safetensors"].update(sha256=""), "no hash of .vocab_map"),
        (lambda m: m["files"].pop("target/cpu/model.onnx"), "no hash of .target/cpu/model.onnx"),
        (lambda m: m["files"].update({"../x": {}}), "outside the bundle"),
        (lambda m: m["files"].update({"/etc/passwd": {}}), "outside the bundle"),
        (lambda m: m["target"]["kv"].update(num_layers="two"), "wrong kind"),
        (lambda m: m["target"].update(kv=None), "wrong kind"),
        (lambda m: m["costs"].update(target=[]), "wrong kind"),
        (lambda m: m["costs"].update(acceptance=1.5), "wrong kind"),
        (lambda m: m["costs"].pop("host"), "has no 'host'"),
    ],
)
def test_a_wrong_manifest_is_refused(copy: Path, change: Change, sentence: str) -> None:
    rewrite(copy, change)
    with pytest.raises(BundleError, match=sentence):
        open_bundle(copy)


def test_a_changed_manifest_breaks_its_seal(copy: Path) -> None:
    file = copy / MANIFEST
    file.write_text(file.read_text().replace('"prefix": "Question: "', '"prefix": "Questiom: "'))
    with pytest.raises(BundleError, match="seal"):
        open_bundle(copy)


def test_places_that_are_no_bundle_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no bundle at"):
        open_bundle(tmp_path / "nowhere")
    with pytest.raises(BundleError, match="has no manifest"):
        open_bundle(tmp_path)
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(BundleError, match="not readable"):
        open_bundle(tmp_path)


def test_a_map_of_other_vocabularies_is_refused(copy: Path) -> None:
    """Both tokenizers are valid, and their hashes are right: only the map knows that they were swapped."""

    def swap(manifest: Manifest) -> None:
        for field in ("tokenizer", "compiled_tokenizer"):
            a, b = manifest["target"].get(field), manifest["drafter"].get(field)
            manifest["target"][field], manifest["drafter"][field] = b, a

    rewrite(copy, swap)
    with pytest.raises(OmnidraftError, match="does not match the map's"):
        load(copy)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.update(names=[["bos_token", "<s>"]]),
        lambda p: p.update(names={"bos_token": 1}),
        lambda p: p.update(names=None),
        lambda p: p.update(template=7),
        lambda p: p.update(template="absent.jinja"),
        lambda p: p.pop("names"),
    ],
)
def test_a_template_and_its_names_are_of_their_kind(copy: Path, change: Change) -> None:
    rewrite(copy, lambda manifest: change(manifest["prompt"]))
    with pytest.raises(BundleError, match="run `omnidraft export` again"):
        open_bundle(copy)


@pytest.mark.parametrize(
    "checks", [None, 3, {}, {"acceptance": []}, {"acceptance": {"before": {"of_drafted": "x"}}}]
)
def test_a_bundle_is_shown_whatever_its_checks_are(copy: Path, checks: object) -> None:
    rewrite(copy, lambda manifest: manifest.update(checks=checks))
    with out.capture() as shown:
        out.print(bundle_table(open_bundle(copy)))
    assert "not recorded" in shown.get()
