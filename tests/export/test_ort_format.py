"""The .ort files of a bundle: the same logits as the .onnx graphs, hashes, and refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from omnidraft.errors import BundleError, ExportError
from omnidraft.packing.device_files import PackOptions
from omnidraft.packing.write_archive import pack
from omnidraft.runtime.archive.open_archive import open_archive
from omnidraft.runtime.archive.unpack import unpack
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST, sealed
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.models.ort_model import OrtModel
from omnidraft.runtime.session.api import Session, load_bundle
from omnidraft.runtime.session.loaded_bundle import with_ort_files
from support.places import STARTERS

pytestmark = pytest.mark.usefixtures("export_packages")
NOISE = 1e-4  # of float32 logits up to some tens; in practice they are equal to the last bit


@pytest.fixture(scope="module")
def with_ort(export_packages: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An int4 bundle whose target keeps its weights in a file beside the graph, exported with --ort."""
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantize import Quantization

    out = tmp_path_factory.mktemp("ort") / "bundle"
    options = Options(Quantization(4, 32), max_length=128, ort=True, external_above=4 << 20)
    export_bundle(str(STARTERS / "a"), str(STARTERS / "drafter"), out, options)
    return out


@pytest.fixture
def copy(with_ort: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(with_ort, tmp_path / "bundle"))


def walk(model: Model) -> np.ndarray:
    """Logits of a prompt, of single steps, and of a block after a rewind."""
    rows = [model.score(list(range(10, 40))).copy()]
    rows += [model.score([50 + i]).copy() for i in range(4)]
    model.rewind(20)
    rows.append(model.score([1, 2, 3, 4, 5]).copy())
    return np.concatenate(rows)


def test_the_same_logits(with_ort: Path) -> None:
    assert (with_ort / "target/cpu/model.onnx.data").is_file()
    onnx, ort = load_bundle(with_ort), load_bundle(with_ort_files(open_bundle(with_ort)))
    for graphs in ((onnx.target, ort.target), (onnx.drafter, ort.drafter)):
        rows = [walk(graph.new_model()) for graph in graphs if graph is not None]
        assert len(rows) == 2
        assert np.abs(rows[0] - rows[1]).max() <= NOISE
        assert (rows[0].argmax(axis=1) == rows[1].argmax(axis=1)).all()


def test_the_same_logits_in_float32(bundle: Path, tmp_path: Path) -> None:
    from omnidraft.export.ort_format import write_ort

    opened = open_bundle(bundle)
    work = Path(shutil.copytree(bundle, tmp_path / "work"))
    files = write_ort(work, {"target": opened.target.graph, "drafter": opened.drafter.graph})
    for entry, name in ((opened.target, files.target), (opened.drafter, files.drafter)):
        models = [OrtModel(work / file, entry.kv, entry.vocab_size) for file in (entry.graph, name)]
        rows = [walk(model) for model in models]
        assert np.abs(rows[0] - rows[1]).max() <= NOISE


def test_an_archive_with_them_alone_runs(with_ort: Path, tmp_path: Path) -> None:
    archive = pack(with_ort, tmp_path / "x.zip", PackOptions("android-cpu", ort=True)).path
    loaded = load_bundle(unpack(open_archive(archive), tmp_path / "phone"))
    assert not list((tmp_path / "phone").rglob("*.onnx*"))
    assert loaded.bundle.target.graph.endswith(".ort")
    texts = [
        Session(each).generate("How many legs?", max_new_tokens=8, num_draft_tokens=3).finish().token_ids
        for each in (loaded, load_bundle(with_ort_files(open_bundle(with_ort))))
    ]
    assert texts[0] == texts[1]


def test_the_same_text(with_ort: Path) -> None:
    texts = [
        Session(load_bundle(opened)).generate("One day", max_new_tokens=24).finish().token_ids
        for opened in (open_bundle(with_ort), with_ort_files(open_bundle(with_ort)))
    ]
    assert len(texts[0]) > 4
    assert texts[0] == texts[1]


def test_the_manifest_lists_and_hashes_them(with_ort: Path, copy: Path) -> None:
    opened = open_bundle(with_ort)
    assert opened.ort is not None
    assert opened.ort.style == "runtime"
    for name in opened.ort.paths:
        assert name in opened.manifest["files"]
    file = copy / opened.ort.target
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(BundleError, match=r"model\.ort was changed"):
        open_bundle(copy)


def test_no_path_of_this_machine_is_in_them(with_ort: Path) -> None:
    opened = open_bundle(with_ort)
    assert opened.ort is not None
    for name in opened.ort.paths:
        assert str(with_ort.parent).encode() not in (with_ort / name).read_bytes(), name


def test_the_operators_are_those_of_both_graphs(with_ort: Path) -> None:
    import onnx

    opened = open_bundle(with_ort)
    assert opened.ort is not None
    lines = opened.file(opened.ort.required_operators).read_text().splitlines()
    listed = {
        (domain, name)
        for domain, _, names in (line.split(";") for line in lines if not line.startswith("#"))
        for name in names.split(",")
    }
    used = {
        (node.domain or "ai.onnx", node.op_type)
        for entry in (opened.target, opened.drafter)
        for node in onnx.load(opened.file(entry.graph), load_external_data=False).graph.node
    }
    assert ("com.microsoft", "MatMulNBits") in listed
    assert {name for _, name in used} - {name for _, name in listed} <= {"Constant"}


def test_lists_are_joined() -> None:
    from omnidraft.export.ort_format import join_operators

    one = "# Generated from model/s:\n# - /x/a.ort\nai.onnx;13;Add,Gather\ncom.microsoft;1;MatMulNBits\n"
    two = "ai.onnx;9;Neg\nai.onnx;13;Gather,Mul\n"
    assert join_operators([one, two]).splitlines()[1:] == [
        "ai.onnx;9;Neg", "ai.onnx;13;Add,Gather,Mul", "com.microsoft;1;MatMulNBits",
    ]  # fmt: skip


def test_a_graph_over_two_gigabytes_is_refused(with_ort: Path) -> None:
    """The limit is of graph and weights together; the sizes are real, the limit is lowered."""
    from omnidraft.export.ort_format import MOST_BYTES, refuse_too_large

    graph = with_ort / "target/cpu/model.onnx"
    both = graph.stat().st_size + Path(f"{graph}.data").stat().st_size
    refuse_too_large([graph], both)
    with pytest.raises(ExportError, match=f"the target has {both}; export with --quant int4, or leave out"):
        refuse_too_large([graph], both - 1)
    assert MOST_BYTES == 2**31 - 1


def test_a_sparse_file_of_two_gigabytes_is_refused(tmp_path: Path) -> None:
    from omnidraft.export.ort_format import refuse_too_large

    graph = tmp_path / "target/cpu/model.onnx"
    graph.parent.mkdir(parents=True)
    with graph.open("wb") as file:
        file.truncate(1 << 31)
    with pytest.raises(ExportError, match="2147483648; export with"):
        refuse_too_large([graph])


def test_a_bundle_without_them_says_so(bundle: Path) -> None:
    with pytest.raises(BundleError, match=r"holds no \.ort files; export it again with --ort"):
        load_bundle(with_ort_files(open_bundle(bundle)))


@pytest.mark.parametrize(
    ("ort", "sentence"),
    [
        ([], "is not an object"),
        ({}, "has no 'target'"),
        ("style", "neither runtime nor fixed"),
        ("target", "5 is not a string"),
        ("drafter", "no hash of 'elsewhere'"),
    ],
)
def test_a_wrong_entry_is_refused(copy: Path, ort: object, sentence: str) -> None:
    manifest = json.loads((copy / MANIFEST).read_text())
    if isinstance(ort, str):
        manifest["ort"][ort] = {"target": 5}.get(ort, "elsewhere")
    else:
        manifest["ort"] = ort
    (copy / MANIFEST).write_bytes(sealed(manifest))
    with pytest.raises(BundleError, match=sentence):
        open_bundle(copy)
