"""Files of a bundle that are written while sessions use them: refused before a text begins, never a crash."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from omnidraft.errors import BundleError
from omnidraft.runtime.bundle.hashes import refuse_rewritten
from omnidraft.runtime.session.api import load

PROMPT = "How many legs do 3 cats have?"


@pytest.fixture
def copy(bundle_b: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundle_b, tmp_path / "copy"))


def cut(file: Path) -> None:
    os.truncate(file, 0)


def fill(file: Path) -> None:
    with file.open("r+b") as handle:
        handle.write(b"\xff" * file.stat().st_size)


@pytest.mark.parametrize("spoil", [cut, fill])
@pytest.mark.parametrize(
    "name", ["target/tokenizer.bin", "drafter/tokenizer.bin", "target/cpu/model.onnx.data"]
)
def test_a_file_that_was_written_is_refused(copy: Path, name: str, spoil: Callable[[Path], None]) -> None:
    session = load(copy, measure="never")
    session.chat(PROMPT, max_new_tokens=4).finish()
    spoil(copy / name)
    for begin in (
        lambda: session.generate(PROMPT, max_new_tokens=4),
        lambda: session.generate([1, 2], max_new_tokens=4),
        lambda: session.chat(PROMPT, max_new_tokens=4),
        lambda: session.regenerate(max_new_tokens=4),
        lambda: session.measure(PROMPT),
    ):
        with pytest.raises(BundleError, match=f"{name} was written while the bundle is loaded") as refused:
            begin()
        assert refused.value.fault == "checksum" and "load the bundle again" in refused.value.remedy
    session.save(copy.parent / "kept.session")  # what the session has is not lost
    session.save_cache(copy.parent / "kept.odc")


def test_a_bundle_that_was_replaced_or_removed_runs_on(copy: Path) -> None:
    session = load(copy, measure="never")
    text = session.generate(PROMPT, max_new_tokens=8).finish().text
    other = Path(shutil.copytree(copy, copy.parent / "other"))
    copy.rename(copy.parent / "old")
    other.rename(copy)
    assert session.generate(PROMPT, max_new_tokens=8).finish().text == text
    shutil.rmtree(copy.parent / "old")
    shutil.rmtree(copy)
    assert session.generate(PROMPT, max_new_tokens=8).finish().text == text


def test_what_does_not_change_a_file_is_no_reason(copy: Path) -> None:
    session = load(copy, measure="never")
    bundle = session.bundle
    for name in bundle.stamps:
        os.link(copy / name, copy.parent / name.replace("/", "-"))  # changes its entry, not its content
        (copy / name).chmod(0o444)
    refuse_rewritten(bundle.places, bundle.stamps)
    assert session.generate(PROMPT, max_new_tokens=4).finish().token_ids
