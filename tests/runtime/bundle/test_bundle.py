"""A bundle is verified before use, and each fault is one sentence."""

from pathlib import Path
from typing import Any

import pytest

from omnidraft.commands.inspect.inspect_bundle import bundle_table
from omnidraft.commands.terminal.output import out
from omnidraft.errors import BundleError, OmnidraftError
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST
from omnidraft.runtime.session.api import load
from support.manifests import rewrite
from support.places import ROOT

Manifest = dict[str, Any]


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
    "checks", [None, 3, {}, {"acceptance": []}, {"acceptance": {"before": {"of_drafted": "x"}}}]
)
def test_a_bundle_is_shown_whatever_its_checks_are(copy: Path, checks: object) -> None:
    rewrite(copy, lambda manifest: manifest.update(checks=checks))
    with out.capture() as shown:
        out.print(bundle_table(open_bundle(copy)))
    assert "not recorded" in shown.get()
