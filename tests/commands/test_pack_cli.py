"""`omnidraft pack` and `unpack` on a real bundle: the same tokens, printed sizes, and what was left out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from omnidraft.errors import BundleError
from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.session.api import load
from omnidraft.runtime.vocab.vocab_map import load_vocab_map
from support.command_line import Run, refused

PROMPT = "How many legs do 3 cats have?"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packed")


def ids(bundle: Path) -> list[int]:
    """Greedy tokens with drafts."""
    return load(bundle).generate(PROMPT, max_new_tokens=24, num_draft_tokens=3).finish().token_ids


def packed(run: Run, bundle: Path, file: Path, *options: str) -> dict[str, object]:
    file.unlink(missing_ok=True)
    status, out, err = run("pack", bundle, "-o", file, "--json", *options)
    assert status == 0, err
    report: dict[str, object] = json.loads(out)
    return report


def test_an_unpacked_bundle_says_the_same(learnable: Path, place: Path, run: Run) -> None:
    expected, file = ids(learnable), place / "phone.zip"
    report = packed(run, learnable, file, "--for", "android-cpu")
    assert report["download"] == file.stat().st_size
    assert report["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert run("unpack", file, "-o", place / "phone")[0] == 0
    assert ids(place / "phone") == expected
    assert report["on_disk"] == sum(f.stat().st_size for f in (place / "phone").rglob("*") if f.is_file())
    assert not list((place / "phone").rglob("tokenizer.json"))
    for drafter, where in (("only", place / "apps"), ("without", place / "apps/one")):
        packed(run, learnable, file, "--for", "android-cpu", "--drafter", drafter)
        assert run("unpack", file, "-o", where)[0] == 0
    assert ids(place / "apps/one") == expected
    status, out, _ = run("inspect", place / "apps/one")
    assert status == 0 and "used by one" in out and "unpacked from an archive for android-cpu" in out
    status, out, _ = run("inspect", next((place / "apps/drafters").iterdir()))
    assert status == 0 and "a drafter, used by one" in out


def test_a_part_of_a_bundle_is_told_as_a_part(learnable: Path, place: Path, run: Run) -> None:
    """Memory and files of the model that is not there are not told as if it were."""
    for part, has, lacks in (("without", "target", "drafter"), ("only", "drafter", "target")):
        file = place / f"{part}.zip"
        status, out, err = run("pack", learnable, "--for", "desktop", "--drafter", part, "-o", file)
        assert status == 0, err
        missing = next(line for line in out.splitlines() if line.startswith("  not in this archive"))
        assert f"{lacks}/cpu/model.onnx" in missing and f"{has}/cpu/model.onnx" not in missing
        assert ("with the drafter" in out) == (part == "without")
        assert ("more than the" in out) == (part == "only")
        lines = [line.split("│") for line in run("inspect", file)[1].splitlines() if line.startswith("│")]
        rows = {line[1].strip(): line[2:4] for line in lines}
        cells = dict(zip(("target", "drafter"), rows["architecture"], strict=True))
        assert cells[has].strip() and not cells[lacks].strip()
        assert ("memory that it adds" in rows) == (part == "only")
        assert ("memory by itself" in rows) == (part == "without") and "memory at the peak" not in rows
        refused(run("generate", file, PROMPT), f"run `omnidraft unpack {file} -o DIRECTORY`")


def test_an_archive_is_inspected_where_it_lies(learnable: Path, place: Path, run: Run) -> None:
    file = place / "desktop.zip"
    report = packed(run, learnable, file, "--for", "desktop")
    status, out, _ = run("inspect", file)
    assert status == 0 and "archive for desktop" in out and str(report["drafter_address"]) in out
    entries = json.loads(run("inspect", file, "--json")[1])["archive"]["entries"]
    assert next(iter(entries)) == "manifest.json"
    assert all(entry["begin"] % 16_384 == 0 for entry in entries.values())
    data = bytearray(file.read_bytes())
    data[entries["target/cpu/model.onnx"]["begin"] + 1000] ^= 1
    file.write_bytes(data)
    refused(run("inspect", file), f"{file} is refused: the checksum of target/cpu/model.onnx is wrong")


def test_what_an_archive_cannot_do_is_told_in_a_sentence(learnable: Path, place: Path, run: Run) -> None:
    file, bundle = place / "small.zip", place / "small"
    packed(run, learnable, file, "--for", "ios-cpu", "--no-learning")
    refused(
        run("learn", file, place, "-o", place / "x.safetensors"),
        f"{file} is a file",
        f"run `omnidraft unpack {file} -o DIR",
    )
    assert run("unpack", file, "-o", bundle)[0] == 0
    refused(run("unpack", file, "-o", bundle), f"{bundle} exists already", "delete it")
    refused(run("pack", learnable, "--for", "android-qnn", "-o", place / "x.zip"),
            "has no static graphs for android-qnn; export it again with --npu qnn")  # fmt: skip
    refused(run("pack", learnable, "--for", "ios-coreml", "-o", place / "x.zip"),
            "--for 'ios-coreml' is unknown")  # fmt: skip
    refused(run("pack", learnable, "--for", "phone", "-o", place / "x.zip"), "--for 'phone' is unknown")
    opened = open_bundle(bundle)
    with pytest.raises(BundleError, match=r"was left out when .* was packed for ios-cpu; pack"):
        OrtLearner(opened, load_vocab_map(opened.file(opened.vocab_map)), StepOptions())
