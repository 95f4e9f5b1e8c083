"""Adapters in static graphs, whose rank is fixed: what they are in the dynamic graph, also swapped midway."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

for name in ("torch", "transformers", "optimum", "onnx", "onnxscript"):
    pytest.importorskip(name, reason=f"exporting needs {name}, which this Python does not have")

import onnx  # noqa: E402

from omnidraft import TextSession, load_bundle  # noqa: E402
from omnidraft.checkpoints.checkpoint import read_checkpoint  # noqa: E402
from omnidraft.errors import AdapterError, SettingError  # noqa: E402
from omnidraft.export.graph.lora_inputs import add_lora_sites, lora_sites  # noqa: E402
from omnidraft.export.graph.write import write_graph  # noqa: E402
from omnidraft.export.npu.npu import NpuOptions, StaticShapes, let_adapters_in, write_static  # noqa: E402
from omnidraft.export.quantize.quantization import FP32  # noqa: E402
from omnidraft.runtime.bundle.bundle import open_bundle  # noqa: E402
from omnidraft.runtime.bundle.placement import placed  # noqa: E402
from omnidraft.runtime.models.ort_model import Graph, OrtModel  # noqa: E402
from omnidraft.runtime.models.static_model import StaticGraphs, StaticModel  # noqa: E402
from support.adapters import adapter, adapter_of  # noqa: E402
from support.exported_graphs import graph_of, save, tokens  # noqa: E402
from support.places import STARTERS  # noqa: E402

RANK, DRAFTED = 4, 3
SHAPES = StaticShapes(kv_length=48, chunk=16, drafted=DRAFTED)
PROMPT = "Mia has 4 boxes with 12 pencils each. She gives 9 to her brother. How many pencils are left?"


@pytest.mark.parametrize("case", ["llama", "qwen2", "qwen3"])
def test_an_adapter_is_what_it_is_in_the_dynamic_graph(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In every block, of a smaller rank than the graphs', of the full rank in packed sites, and with none."""
    from onnxruntime.tools.mobile_helpers.usability_checker import analyze_model

    save(case, tmp_path)
    checkpoint = read_checkpoint(str(tmp_path))
    form = write_static(checkpoint, tmp_path / "npu", SHAPES)
    ids = tokens(40, 1)

    def rows(model: OrtModel | StaticModel) -> np.ndarray:
        model.rewind(0)
        parts = ids[:20], ids[20:24], ids[24:25], ids[25:]  # two chunks, a verification, one token, chunks
        return np.concatenate([model.score(part).copy() for part in parts])

    plain = rows(StaticModel(StaticGraphs(form)))
    let_adapters_in(form, RANK)
    for path in form.graphs.values():
        onnx.checker.check_model(str(path))
        graph = onnx.load(path, load_external_data=False).graph
        for value in (*graph.input, *graph.output):
            assert all(dim.dim_value > 0 for dim in value.type.tensor_type.shape.dim), value.name
        caplog.clear()
        with caplog.at_level(logging.INFO):
            assert analyze_model(path, logger=logging.getLogger("usability"))
        for name in ("NNAPI", "CoreML MLProgram"):
            assert (
                f"{name} should work well for this model as there is one partition covering 100.0%"
                in caplog.text
            )

    proto, contract = graph_of(tmp_path, SHAPES.kv_length)
    add_lora_sites(proto)
    sites = lora_sites(proto, contract.num_kv_heads * contract.head_dim)
    write_graph(proto, tmp_path / "model.onnx")
    dynamic = OrtModel(Graph(tmp_path / "model.onnx", form.kv, form.vocab_size))
    static = StaticModel(StaticGraphs(form))
    fixed = replace(sites, rank=RANK)
    base = rows(static)
    assert np.abs(base - plain).max() < 1e-5
    for seed, rank in enumerate((1, RANK)):
        learned = adapter(rank, seed, sites=sites, size=0.2)
        static.use_adapter(learned.inputs(fixed))
        dynamic.use_adapter(learned.inputs(sites))
        logits, expected = rows(static), rows(dynamic)
        assert np.abs(logits - expected).max() < 1e-4
        assert np.abs(logits - base).max() > 1e-2
    for learned in (adapter(3 * RANK, sites=sites, size=0.2), adapter(2, sites=sites, size=0.2)):
        packed = {n: pair for n, pair in learned.tensors.items() if n.endswith("qkv")}
        learned = replace(learned, tensors=packed)
        static.use_adapter(learned.inputs(sites))  # the model itself fills up
        dynamic.use_adapter(learned.inputs(sites))
        assert np.abs(rows(static) - rows(dynamic)).max() < 1e-4  # and nothing of the one before is left
    static.use_adapter({})
    assert np.array_equal(rows(static), base)


@pytest.fixture(scope="module")
def place(export_packages: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A starter pair whose drafter takes adapters in its static graphs, where they are float."""
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options

    made = tmp_path_factory.mktemp("static-lora") / "a"
    npu = NpuOptions(("qnn", "qnn-fp16"), 96, 16, DRAFTED, calibration=(PROMPT,), lora_rank=RANK)
    export_bundle(str(STARTERS / "a"), str(STARTERS / "drafter"), made, Options(FP32, max_length=96, npu=npu))
    return made


def test_the_manifest_names_the_rank_of_the_float_graphs_alone(place: Path) -> None:
    bundle = open_bundle(place)
    forms = bundle.manifest["drafter"]["npu"]["forms"]
    assert forms["float"]["lora_rank"] == RANK and "lora_rank" not in forms["qdq"]
    assert "lora_rank" not in bundle.manifest["target"]["npu"]["forms"]["float"]
    dynamic = bundle.drafter.lora
    assert dynamic is not None
    assert placed(bundle, drafter_on="npu").drafter.lora == replace(dynamic, rank=RANK)
    assert placed(bundle, drafter_on="qnn").drafter.lora is None
    quantized = onnx.load(place / forms["qdq"]["graphs"][0]["graph"], load_external_data=False)
    assert not [each.name for each in quantized.graph.input if "lora" in each.name]


def test_a_hot_swap_keeps_the_text_and_changes_the_drafts(place: Path) -> None:
    bundle = open_bundle(place)
    weights = load_bundle(bundle, drafter_on="npu")
    plain = TextSession(weights).generate(PROMPT, max_new_tokens=40, mode="plain").finish()
    base = TextSession(weights).generate(PROMPT, max_new_tokens=40, num_draft_tokens=DRAFTED).finish()
    loud = adapter_of(bundle, "drafter", rank=RANK, size=0.5)
    adapted = TextSession(weights, adapter=loud)
    generated = adapted.generate(PROMPT, max_new_tokens=40, num_draft_tokens=DRAFTED).finish()
    assert base.token_ids == generated.token_ids == plain.token_ids
    assert generated.statistics.accepted < base.statistics.accepted  # noise drafts worse: it is in use
    swapped = TextSession(weights)
    answer = swapped.generate(PROMPT, max_new_tokens=40, num_draft_tokens=DRAFTED)
    adapters = [loud, None, adapter_of(bundle, "drafter", 1, rank=2), None]
    for index, _ in enumerate(answer):
        if index % 3 == 0 and adapters:
            swapped.use_adapter(adapters.pop())
    assert not adapters and answer.token_ids == plain.token_ids
    swapped.use_adapter(None)
    swapped.reset()
    again = swapped.generate(PROMPT, max_new_tokens=40, num_draft_tokens=DRAFTED).finish()
    assert again.token_ids == plain.token_ids


def test_too_high_a_rank_is_refused_and_nothing_changes(place: Path) -> None:
    bundle = open_bundle(place)
    session = TextSession(load_bundle(bundle, drafter_on="npu"))
    with pytest.raises(
        AdapterError, match=r"has rank 5 and the model's graph takes 4 at most; run that model on the cpu, or"
    ) as refused:
        session.use_adapter(adapter_of(bundle, "drafter", rank=RANK + 1))
    assert refused.value.fault == "rank" and not session.adapters
    TextSession(load_bundle(bundle), adapter=adapter_of(bundle, "drafter", rank=RANK + 1))


@pytest.mark.parametrize("rank", [0, 342])
def test_a_rank_that_no_adapter_has_is_refused(rank: int) -> None:
    with pytest.raises(SettingError, match=f"npu_lora_rank {rank} is not within 1 to 341"):
        NpuOptions(("coreml",), lora_rank=rank)


def test_a_rank_without_models_that_take_adapters_is_refused() -> None:
    from omnidraft.export.options import Options

    with pytest.raises(SettingError, match="npu_lora_rank 4 makes graphs for adapters, which lora_drafter"):
        Options(lora_drafter=False, npu=NpuOptions(("coreml",), lora_rank=4))
