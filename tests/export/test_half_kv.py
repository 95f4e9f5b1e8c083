"""Keys and values in float16: rows near torch's, half the memory, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("torch")
pytest.importorskip("transformers")

from omnidraft import TextSession, load_bundle
from omnidraft.errors import ExportError
from omnidraft.export.bundle import export_bundle
from omnidraft.export.graph.passes import half_kv
from omnidraft.export.npu.npu import NpuOptions
from omnidraft.export.options import Options
from omnidraft.export.quantize.quantization import FP32, INT4, Quantization
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.bundle.placement import placed
from omnidraft.runtime.session.modes import Mode
from omnidraft.sample_prompts import PROMPTS
from support import exported_graphs
from support.command_line import Run, config
from support.exported_graphs import CASES, MAX_LENGTH, Export, GraphSession, copy_of, graph_of, load, tokens
from support.made_once import MadeOnce
from support.places import ROOT
from support.starter_bundles import export_of

# Largest difference of a logit to torch, over the spread of the logits: float16 keeps 11 bits, and attention
# adds up in it. A graph with float32 keys and values stays below 1e-4 (test_export_graph.py).
TOLERANCE = 0.01
LONG = 1200  # positions


@pytest.mark.parametrize("case", CASES)
def test_rows_are_near_those_of_torch(exported: Export, case: str) -> None:
    """Prefill, decode, verify, and again after a rewind over other tokens and stale numbers."""
    ids = tokens(MAX_LENGTH)
    expected = exported(case).logits(ids)
    session = GraphSession(half_kv(copy_of(exported(case).proto)))
    rows = [session.run(ids[start:end]) for start, end in ((0, 7), (7, 8), (8, 13), (13, 40), (40, 64))]
    assert off(np.concatenate(rows), expected) < TOLERANCE
    session.at(9, tokens(20, seed=1))  # a draft that is rejected
    again = np.concatenate(
        [session.at(start, ids[start:end]) for start, end in ((9, 10), (10, 15), (15, 64))]
    )
    assert off(again, expected[9:]) < TOLERANCE


def off(rows: exported_graphs.Rows, expected: exported_graphs.Rows) -> float:
    """Largest difference, over the standard deviation of what is expected."""
    return float(np.abs(rows - expected).max() / expected.std())


@pytest.mark.parametrize("case", ["gemma3", "llama"])
def test_rows_of_a_long_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Behind position 1,024, with and without a sliding window, and after a rewind to there."""
    monkeypatch.setitem(exported_graphs.SIZES, "max_position_embeddings", LONG)
    exported_graphs.save(case, tmp_path)
    ids = tokens(LONG)
    with exported_graphs.torch.no_grad():
        expected = load(tmp_path)(exported_graphs.torch.tensor([ids])).logits[0].numpy()
    proto, _ = graph_of(tmp_path, LONG)
    session = GraphSession(half_kv(proto))
    rows = [session.run(ids[at : at + 100]) for at in range(0, LONG, 100)]
    assert off(np.concatenate(rows), expected) < TOLERANCE
    session.at(1030, tokens(40, seed=1))
    ends = (1030, 1031, 1036, 1100, LONG)
    again = [session.at(a, ids[a:b]) for a, b in pairwise(ends)]
    assert off(np.concatenate(again), expected[1030:]) < TOLERANCE


def bundle_in(form: Quantization, made_once: MadeOnce) -> Path:
    """A starter bundle with float16 keys and values, and static graphs beside the float32 weights."""
    npu = NpuOptions(("coreml",), 96, 16, 3) if form == FP32 else None
    options = Options(form, max_length=256, half_kv=True, npu=npu)
    return made_once(f"half-{form.name}", export_of("a", options))


@pytest.mark.parametrize("form", [FP32, INT4], ids=lambda form: form.name)
def test_drafted_text_is_plain_text_with_bitwise(
    export_packages: None, made_once: MadeOnce, form: Quantization
) -> None:
    """And without it every text is as long as it was asked for, and drafts are accepted."""
    loaded = load_bundle(bundle_in(form, made_once), measure="never")
    arms: list[tuple[Mode, int]] = [("trie", 1), ("trie", 4), ("direct", 7), ("lookup", 12)]
    accepted = 0
    for bitwise in (True, False):
        session = TextSession(loaded, bitwise=bitwise)
        for prompt in PROMPTS[:4]:
            asked: dict[str, Any] = {"max_new_tokens": 40, "ignore_eos": True}
            plain = session.generate(prompt, mode="plain", **asked).finish()
            assert len(plain.token_ids) == 40
            for mode, count in arms:
                said = session.generate(prompt, mode=mode, num_draft_tokens=count, **asked).finish()
                assert len(said.token_ids) == 40
                assert not bitwise or said.token_ids == plain.token_ids, (prompt, mode, count)
                accepted += said.statistics.accepted
    assert accepted > 100


def test_keys_and_values_take_half_the_memory(
    export_packages: None, made_once: MadeOnce, bundle: Path, run: Run
) -> None:
    half, full = open_bundle(bundle_in(FP32, made_once)), open_bundle(bundle)
    assert half.target.kv == replace(full.target.kv, type="float16")
    assert half.target.kv_bytes == full.target.kv_bytes // 2
    saved = memory_need(full, drafter=False).total - memory_need(half, drafter=False).total
    assert full.target.kv_bytes // 2 == memory_need(full).kv - memory_need(half).kv
    assert saved > 0.4 * full.target.kv_bytes  # the graphs differ by some nodes
    buffers = TextSession(load_bundle(half.path, measure="never")).models.all[0]._kv  # type: ignore[attr-defined]
    assert {value.data_type() for value in buffers.values()} == {"tensor(float16)"}
    assert half.drafter.kv.type == "float32", "the pass is for the target"
    assert half.manifest["target"]["inputs"][-1]["dtype"] == "float16"
    assert "of float16" in run("inspect", half.path)[1]
    # Static graphs keep float32, and are checked by their own tables when they are loaded.
    static = placed(half, target_on="npu").target
    assert (static.kv.type, static.kv.max_length) == ("float32", 96)
    placed_session = TextSession(load_bundle(half.path, target_on="npu", measure="never"))
    assert placed_session.generate("one two", max_new_tokens=8, ignore_eos=True).finish().token_ids


def test_the_export_says_so_and_the_context_is_longer(
    export_packages: None, tmp_path: Path, run: Run
) -> None:
    starter = ROOT / "examples/starters/a"
    code, out, _ = run(
        "export",
        starter,
        "-d",
        "none",
        "-o",
        tmp_path / "out",
        "--quant",
        "fp32",
        "--max-length",
        512,
        *config(half_kv=True),
    )
    assert code == 0
    assert "512 of the target's 1,024 tokens (float16 keys and values of up to 3 MB), as asked" in out


def test_an_adopted_graph_keeps_its_keys_and_values(tmp_path: Path) -> None:
    graph = ROOT / "tests/data/optimum/llama"
    with pytest.raises(ExportError, match=r"is a graph, which is adopted with its float32 keys and values"):
        export_bundle(str(graph), None, tmp_path / "out", Options(FP32, half_kv=True))
    assert not list(tmp_path.iterdir())
