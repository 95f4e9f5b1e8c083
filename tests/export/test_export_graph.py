"""The exported graph against torch: parity after any context, names, and the files on disk."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("torch")
pytest.importorskip("transformers")

from omnidraft.checkpoints.checkpoint import read_checkpoint
from omnidraft.checkpoints.thin_model import logits_of, thin_model
from omnidraft.errors import ExportError
from omnidraft.export.graph import trace
from omnidraft.export.graph.passes import attention_nodes, matmuls
from omnidraft.export.graph.skeleton import forget, traced
from omnidraft.export.graph.write import write_graph
from support.exported_graphs import (
    CASES,
    MAX_LENGTH,
    SIZES,
    VOCAB,
    Export,
    GraphSession,
    save,
    tokens,
    write_case,
)


def test_an_export_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    forget()
    write_case("mistral", tmp_path)
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_model_is_traced_once_and_another_one_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph is the same bytes; one number of a norm or another setting makes another model."""
    import torch
    from onnx import GraphProto, ModelProto

    calls = []

    def counted(model: object, _: object) -> ModelProto:
        calls.append(model)
        return ModelProto(graph=GraphProto(name=str(len(calls))))

    monkeypatch.setattr(trace, "trace", counted)
    forget()
    save("qwen2", tmp_path)
    models = [thin_model(read_checkpoint(str(tmp_path))).model for _ in range(4)]
    with torch.no_grad():
        next(p for n, p in models[2].named_parameters() if "norm" in n)[3] += 1e-3
    models[3].config.rms_norm_eps *= 2
    names = [traced(model).graph.name for model in (*models, models[0])]
    assert names == ["1", "1", "2", "3", "1"] and len(calls) == 3
    first = traced(models[0])
    first.graph.name = "changed by a caller"
    assert traced(models[0]).graph.name == "1"
    forget()


def test_contract(exported: Export) -> None:
    contract = exported("llama").contract
    kv = (1, 2, MAX_LENGTH, 16)
    names = [f"{layer}.{kind}" for layer in range(2) for kind in ("key", "value")]
    assert [(spec.name, spec.dtype, spec.shape) for spec in contract.inputs] == [
        ("input_ids", "int64", (1, "n")),
        ("seqlens_k", "int32", (1,)),
        ("total_sequence_length", "int32", (1,)),
        ("num_logits", "int64", (1,)),
        *((f"past_key_values.{name}", "float32", kv) for name in names),
    ]
    assert [(spec.name, spec.dtype, spec.shape) for spec in contract.outputs] == [
        ("logits", "float32", (1, "num_logits", VOCAB)),
        *((f"present.{name}", "float32", kv) for name in names),
    ]


@pytest.mark.parametrize("case", CASES)
def test_equals_torch(exported: Export, case: str) -> None:
    """Prefill, continued prefill, decode, verify, and the same again after a rewind over other tokens."""
    ids = tokens(MAX_LENGTH)
    expected = exported(case).logits(ids)
    session = GraphSession(exported(case).proto)
    first = ((0, 7), (7, 8), (8, 13), (13, 14), (14, 40), (40, 64))
    differences = [np.abs(session.run(ids[start:end]) - expected[start:end]).max() for start, end in first]
    session.at(9, tokens(20, seed=1))  # a draft that is rejected
    again = ((9, 10), (10, 15), (15, 64))
    differences += [
        np.abs(session.at(start, ids[start:end]) - expected[start:end]).max() for start, end in again
    ]
    print(f"{case}: largest difference {max(differences):.1e}, of logits up to {np.abs(expected).max():.1f}")
    assert max(differences) < 1e-4


@pytest.mark.parametrize("past", [0, 1, 2, 15, 16, 31, 56])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_any_block_after_any_past(exported: Export, past: int, count: int) -> None:
    ids = tokens(MAX_LENGTH)
    expected = exported("llama").logits(ids)[past : past + count]
    session = GraphSession(exported("llama").proto)
    session.run(ids)  # the buffers hold a longer text than the counter
    assert np.abs(session.at(past, ids[past : past + count]) - expected).max() < 1e-4


def test_only_the_asked_rows_come_out(exported: Export) -> None:
    ids = tokens(10)
    session = GraphSession(exported("granite").proto)
    rows = session.run(ids)
    for count in (1, 3, 10):
        last = session.at(0, ids, count)
        assert last.shape == (count, VOCAB)
        assert np.abs(last - rows[-count:]).max() < 1e-5


@pytest.mark.parametrize("case", ["phi3", "qwen2", "gemma2", "gpt-neox"])
def test_sites_are_named_by_what_they_do(exported: Export, case: str) -> None:
    nodes = matmuls(exported(case).proto.graph)
    sites = ["qkv", "o", "gate_up", "down"]
    assert [node.name for node in nodes] == [f"layers.{i}.{s}" for i in range(2) for s in sites] + ["lm_head"]
    tied = case in ("qwen2", "gemma2")
    weights = [
        *(f"{node.name}.weight" for node in nodes[:-1]),
        "embedding.weight" if tied else "lm_head.weight",
    ]
    assert [node.input[1] for node in nodes] == weights


@pytest.mark.parametrize("case", ["llama", "llama3-tied", "qwen2", "mistral", "phi3-window-longrope"])
def test_attention_reads_the_packed_projection(exported: Export, case: str) -> None:
    nodes = attention_nodes(exported(case).proto.graph)
    assert len(nodes) == SIZES["num_hidden_layers"]
    for node in nodes:
        assert node.input[0]
        assert list(node.input[1:3]) == ["", ""]


@pytest.mark.parametrize("case", ["llama", "gemma3"])
def test_a_thin_model_is_torchs_own(exported: Export, tmp_path: Path, case: str) -> None:
    save(case, tmp_path)
    thin = thin_model(read_checkpoint(str(tmp_path)))
    assert sum(parameter.numel() for parameter in thin.model.parameters()) < VOCAB * SIZES["hidden_size"] / 8
    ids = tokens(MAX_LENGTH)
    assert np.abs(logits_of(thin, ids) - exported(case).logits(ids)).max() < 1e-5


@pytest.mark.parametrize(("external_above", "files"), [(1 << 26, 1), (1000, 2)])
def test_a_written_graph_is_the_same_graph(
    exported: Export, tmp_path: Path, external_above: int, files: int
) -> None:
    path = tmp_path / "model.onnx"
    path.with_name("model.onnx.data").write_bytes(b"of an earlier export")
    written = write_graph(exported("llama").proto, path, external_above=external_above)
    assert sorted(tmp_path.iterdir()) == written
    assert len(written) == files
    ids = tokens(9)
    assert np.array_equal(GraphSession(path).run(ids), GraphSession(exported("llama").proto).run(ids))


@pytest.mark.parametrize("external_above", [1 << 26, 1000])
def test_a_full_disk_leaves_nothing(
    exported: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, external_above: int
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "model.onnx"
    with pytest.raises(
        ExportError, match=r"^the disk is full: .*model\.onnx needs \d+ bytes; free that much"
    ):
        write_graph(exported("llama").proto, path, external_above=external_above)
    assert not list(tmp_path.iterdir())


def test_positions_with_other_factors_are_no_context(tmp_path: Path) -> None:
    save("phi3-window-longrope", tmp_path)  # later positions have the long factors of longrope
    assert read_checkpoint(str(tmp_path)).shape.max_positions == 64
