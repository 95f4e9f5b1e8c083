"""A directory that Optimum exported: adopted without torch, it drafts, rewinds and gives the same text.

The graphs were made by Optimum itself (data/optimum/README.md).
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from omnidraft import load
from omnidraft.errors import BundleError
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.hashes import check_unchanged
from omnidraft.runtime.bundle.manifest_file import MANIFEST, sealed
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.decoding.model import Cancelled
from omnidraft.runtime.models.concat_model import ConcatGraph, ConcatModel
from omnidraft.runtime.session.language_model import load_bundle
from support.places import ROOT

pytest.importorskip("onnx", reason="adopting a graph needs onnx, which this Python does not have")

from omnidraft.export.bundle import export_bundle
from omnidraft.export.options import Options
from omnidraft.export.quantize.quantization import FP32

MADE = ROOT / "tests/data/optimum"
TEXTS = ("the cat sat on the mat and the dog", "who is in there? ", "{}; [] ~")


@pytest.fixture(scope="module")
def adopted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two adopted graphs: a Llama as the target and a GPT-NeoX as the drafter."""
    out = tmp_path_factory.mktemp("optimum") / "adopted"
    export_bundle(str(MADE / "llama"), str(MADE / "gpt-neox"), out)
    return out


@pytest.fixture(scope="module")
def mixed(export_packages: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adopted target with an exported drafter of the same weights, so that drafts are accepted."""
    out = tmp_path_factory.mktemp("optimum") / "mixed"
    export_bundle(str(MADE / "llama"), str(MADE / "llama-checkpoint"), out, Options(FP32))
    return out


@cache
def graph_of(name: str) -> ConcatGraph:
    heads = {"llama": 1, "gpt-neox": 2}[name]
    return ConcatGraph(MADE / name / "model.onnx", KvShape(2, heads, 16, 128), 288)


def model_of(name: str) -> ConcatModel:
    return graph_of(name).new_model()


def tokens(count: int, seed: int = 0) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(0, 288, count)]


# The model


@pytest.mark.parametrize("name", ["llama", "gpt-neox"])
def test_whatever_was_forgotten_leaves_no_trace(name: str) -> None:
    """Random blocks and rewinds, compared with a context that reads the same text once."""
    rng = np.random.default_rng(1)
    model = model_of(name)
    context: list[int] = []
    for step in range(60):
        kept = int(rng.integers(0, len(context) + 1)) if step % 3 else len(context)
        model.rewind(kept)
        new = tokens(int(rng.integers(1, min(9, 129 - kept))), step) if kept < 128 else []
        if not new:
            continue
        rows = model.score(new).copy()
        context = [*context[:kept], *new]
        assert model.length == len(context)
        fresh = model_of(name)
        expected = fresh.score(context)[-len(new) :]
        assert np.abs(rows - expected).max() < 2e-5, step


def test_only_the_rows_that_are_asked_for() -> None:
    model = model_of("llama")
    whole = model.score(tokens(128)).copy()  # more than one pass reads, and as many as fit
    assert whole.shape == (128, 288)
    model.rewind(0)
    last = model.score(tokens(128), num_logits=3)
    assert last.shape == (3, 288) and np.abs(last - whole[-3:]).max() < 2e-5
    with pytest.raises(AssertionError):
        model.score([1])


def test_a_cancelled_pass_changes_nothing() -> None:
    model = model_of("llama")
    model.score(tokens(9))
    model.cancelled = lambda: True
    with pytest.raises(Cancelled):
        model.score([1, 2])
    assert model.length == 9


def test_bits_do_not_depend_on_how_a_text_was_cut() -> None:
    """Saved sessions rely on this (see `prefill`)."""

    def logits(widths: list[int]) -> np.ndarray:
        model, at = model_of("gpt-neox"), 0
        for width in widths:
            model.score(tokens(120)[at : at + width], 1)
            at += width
        return np.array(model.score(tokens(120)[100:103]))

    whole = logits([64, 36])
    for widths in ([2] * 50, [3] * 32 + [4], [5] * 20, [62, 38]):
        assert np.array_equal(logits(widths), whole), widths


def test_a_graph_with_other_tensors_is_refused() -> None:
    with pytest.raises(BundleError, match=r"it has no input 'past_key_values\.2\.key'; run"):
        ConcatGraph(MADE / "llama/model.onnx", KvShape(3, 1, 16, 128), 288)


# Comparison with our own export


def test_the_same_tokens_as_our_own_export(mixed: Path) -> None:
    """The drafter is the same checkpoint, exported by us."""
    weights = load_bundle(mixed)
    assert weights.drafter is not None
    optimum, ours = weights.target.new_model(), weights.drafter.new_model()
    for seed in range(3):
        ids = tokens(5, seed)
        optimum.rewind(0)
        ours.rewind(0)
        row, our_row = optimum.score(ids)[-1].copy(), ours.score(ids)[-1].copy()
        for _ in range(100):
            assert np.abs(row - our_row).max() < 1e-4
            token = int(row.argmax())
            assert token == int(our_row.argmax())
            row, our_row = optimum.score([token])[-1].copy(), ours.score([token])[-1].copy()


@pytest.mark.parametrize("count", [1, 2, 8, 48])
@pytest.mark.parametrize("pair", ["adopted", "mixed"])
def test_speculative_text_is_plain_text(request: pytest.FixtureRequest, pair: str, count: int) -> None:
    session = load(request.getfixturevalue(pair))
    accepted = 0
    for text in TEXTS:
        plain = session.generate(text, max_new_tokens=64, mode="plain", ignore_eos=True).finish()
        for mode in ("trie", "lookup"):
            answer = session.generate(
                text, max_new_tokens=64, mode=mode, num_draft_tokens=count, ignore_eos=True
            ).finish()
            assert answer.token_ids == plain.token_ids
            accepted += answer.statistics.accepted
    assert accepted > 0 or pair == "adopted"  # two random models agree on nothing


# The bundle


def test_the_manifest_says_how_the_graph_keeps_its_past(adopted: Path) -> None:
    bundle = open_bundle(adopted)
    assert bundle.target.layout == bundle.drafter.layout == "concat"
    assert bundle.target.kv == KvShape(2, 1, 16, 128) and bundle.drafter.kv == KvShape(2, 2, 16, 128)
    assert bundle.target.architecture == "LlamaForCausalLM" and bundle.target.eos_ids == (0,)
    for role in ("target", "drafter"):
        measured = bundle.manifest["checks"]["adopted"][role]
        assert measured["rows"] <= 1e-5 and measured["rewind"] <= 1e-5 and measured["positions"] > 20
        assert role not in bundle.manifest["checks"]["parity"]  # not measured, so not in the manifest
    # There are two sets of buffers of keys and values.
    assert memory_need(bundle).kv == 2 * (bundle.target.kv.bytes + bundle.drafter.kv.bytes)


def test_a_bundle_without_a_layout_has_shared_buffers(adopted: Path, tmp_path: Path) -> None:
    for value, layout in (("shared", "shared"), (None, "shared"), ("other", None), (3, None), ([], None)):
        place = tmp_path / str(value)
        shutil.copytree(adopted, place)
        manifest = json.loads((place / MANIFEST).read_text())
        manifest["target"]["layout"] = value
        if value is None:
            del manifest["target"]["layout"]
        (place / MANIFEST).write_bytes(sealed(manifest))
        if layout:
            assert open_bundle(place).target.layout == layout
        else:
            with pytest.raises(BundleError, match="is not a layout, which is one of shared, concat"):
                open_bundle(place)


def test_what_is_done_to_the_source_changes_nothing_in_the_bundle(tmp_path: Path) -> None:
    source, out = tmp_path / "llama", tmp_path / "bundle"
    shutil.copytree(MADE / "llama", source)
    export_bundle(str(source / "model.onnx"), str(MADE / "gpt-neox"), out)
    loaded = load_bundle(out, measure="never").bundle
    with (source / "model.onnx").open("r+b") as file:
        file.seek(50_000)
        file.write(b"changed")
    export_bundle(str(MADE / "gpt-neox"), str(MADE / "llama"), tmp_path / "other")
    check_unchanged(loaded.places, loaded.stamps)  # not even the times of an entry
    open_bundle(out, verify="full")
