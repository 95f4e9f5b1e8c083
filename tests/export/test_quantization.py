"""Every form of weights that can be exported: independent rows, no dynamic int8, names and refusals."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import onnx  # noqa: E402
import torch  # noqa: E402
from onnx import ModelProto, TensorProto  # noqa: E402

from omnidraft.checkpoints.checkpoint import read_checkpoint  # noqa: E402
from omnidraft.checkpoints.thin_model import thin_model  # noqa: E402
from omnidraft.errors import SettingError  # noqa: E402
from omnidraft.export.choose.input_factors import input_factors  # noqa: E402
from omnidraft.export.graph.passes import half_kv, matmuls  # noqa: E402
from omnidraft.export.graph.skeleton import skeleton  # noqa: E402
from omnidraft.export.quantize.coded import rounded  # noqa: E402
from omnidraft.export.quantize.gptq import inverse_factor  # noqa: E402
from omnidraft.export.quantize.grids import GRIDS  # noqa: E402
from omnidraft.export.quantize.quantization import (  # noqa: E402
    FORMS,
    FP32,
    INT4,
    METHODS,
    Quantization,
    named,
)
from omnidraft.export.quantize.stream import write_skeleton  # noqa: E402
from omnidraft.runtime.bundle.model_entry import KvShape  # noqa: E402
from omnidraft.runtime.decoding.model import Logits  # noqa: E402
from omnidraft.runtime.models.ort_model import Graph, OrtModel  # noqa: E402
from support.exported_graphs import QUANTIZATIONS, Export, GraphSession, copy_of  # noqa: E402
from support.exported_graphs import tokens as tokens_of  # noqa: E402

VOCAB, LENGTH = 320, 96
DYNAMIC = {"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat"}
MIXED = replace(INT4, int8_sites=frozenset({"layers.0.down"}))
Quantized = Callable[..., "tuple[ModelProto, OrtModel]"]  # by form, and whether keys and values are float16


@pytest.fixture(scope="session")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Quantized:
    """A small Llama with a tied head, and products of 72 columns, which blocks do not fill."""
    place = tmp_path_factory.mktemp("quantized")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=128, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=VOCAB, max_position_embeddings=LENGTH, tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(place)
    (place / "tokenizer.json").write_text("{}")
    checkpoint = read_checkpoint(str(place))
    thin = thin_model(checkpoint)
    bare = skeleton(checkpoint, thin, LENGTH)
    c, rows = bare.contract, [tokens(60, seed) for seed in range(4)]
    kv = KvShape(c.num_layers, c.num_kv_heads, c.head_dim, c.max_length)

    @cache
    def make(form: Quantization, half: bool = False) -> tuple[ModelProto, OrtModel]:
        factors = (
            input_factors(thin, bare.weights.sites, form, rows, lambda *_: None)
            if form.method == "gptq"
            else None
        )
        file = place / f"{form.name}{half}.onnx"
        given = replace(bare, proto=half_kv(copy_of(bare.proto))) if half else bare
        write_skeleton(given, form, file, factors=factors)
        shape = replace(kv, type="float16" if half else "float32")
        return onnx.load(file), OrtModel(Graph(file, shape, VOCAB))

    return make


def tokens(count: int, seed: int = 0) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(3, VOCAB, count)]


def score(model: OrtModel, ids: list[int], past: int = 0) -> Logits:
    """Logits of ids[past:] in one pass, after one pass over ids[:past]."""
    model.rewind(0)
    if past:
        model.score(ids[:past])
    rows: Logits = model.score(ids[past:]).copy()
    return rows


@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
@pytest.mark.parametrize("form", [*FORMS, MIXED], ids=lambda form: form.name)
def test_rows_are_independent_and_nothing_is_dynamic(
    quantized: Quantized, form: Quantization, half: bool
) -> None:
    """A later token of a block does not change a bit of an earlier row, in any form of an export."""
    proto, model = quantized(form, half)
    assert not DYNAMIC & {node.op_type for node in proto.graph.node}
    ids = tokens(LENGTH)
    for past, count in ((0, 9), (3, 2), (17, 5), (31, 64)):
        rows = score(model, ids[: past + count], past)
        for place in {1, count // 2, count - 1}:
            changed = [*ids[: past + place], *tokens(count - place, seed=2)]
            assert np.array_equal(score(model, changed, past)[:place], rows[:place])


@pytest.mark.parametrize("form", [*FORMS, MIXED], ids=lambda form: form.name)
def test_a_form_holds_what_its_name_says(quantized: Quantized, form: Quantization) -> None:
    proto, model = quantized(form)
    nodes = [node for node in proto.graph.node if node.op_type == "MatMulNBits"]
    assert len(nodes) == (0 if form.bits == 32 else 9)
    names = [tensor.name for tensor in proto.graph.initializer]
    assert len(names) == len(set(names)), "a tied head and the embedding are stored once"
    if form.bits == 32:
        return
    assert not matmuls(proto.graph)
    settings = {node.name: {a.name: a.i for a in node.attribute} for node in nodes}
    assert {each["accuracy_level"] for each in settings.values()} == {4}
    expected = {name: 8 if name == "lm_head" else form.bits_of(name) for name in settings}
    assert {name: each["bits"] for name, each in settings.items()} == expected
    assert settings["layers.0.down"]["K"] == 72
    tables = [t for t in proto.graph.initializer if t.dims and t.dims[0] == VOCAB and t.name.endswith(".q")]
    assert [(t.name, len(t.raw_data)) for t in tables] == [("embedding.weight.q", VOCAB * 128)]
    full = [t.name for t in proto.graph.initializer if t.data_type == TensorProto.FLOAT and len(t.dims) == 2]
    assert all(name.endswith(".scales") or name.startswith("rotary") for name in full), full
    ids = tokens(60)
    plain, actual = score(quantized(FP32)[1], ids), score(model, ids)
    limit = 0.05 if form.bits == 8 else 0.35  # codes, scales and zero points are in the kernel's layout
    assert np.linalg.norm(actual - plain) < limit * np.linalg.norm(plain)


@pytest.mark.parametrize("form", QUANTIZATIONS, ids=lambda form: form.name)
@pytest.mark.parametrize("case", ["llama", "llama3-tied", "gpt-neox"])
def test_weights_in_a_file_are_the_weights_in_memory(
    exported: Export, tmp_path: Path, case: str, form: Quantization
) -> None:
    """And a rewind leaves no trace of what was dropped."""
    path = tmp_path / "model.onnx"
    written = write_skeleton(exported(case).skeleton, form, path, external_above=1000)
    assert sorted(tmp_path.iterdir()) == written and len(written) == 2
    streamed, whole = GraphSession(path), GraphSession(exported(case).quantized(form))
    ids = tokens_of(20)
    whole.run(ids[:12])
    streamed.run(ids[:12])
    streamed.run(tokens_of(30, seed=3))
    assert np.array_equal(streamed.at(12, ids[12:]), whole.run(ids[12:]))
    bare = exported(case).skeleton.proto.graph.initializer
    assert all(tensor.data_location == TensorProto.DEFAULT for tensor in bare), "the skeleton is unchanged"


def test_gptq_is_nearer_where_inputs_are() -> None:
    """With correlated inputs the products are closer than with weights rounded to the nearest."""
    rng = np.random.default_rng(0)
    inputs = (rng.standard_normal((600, 20)) @ rng.standard_normal((20, 150))).astype(np.float32)
    inputs += 0.1 * rng.standard_normal(inputs.shape).astype(np.float32)
    inputs[:, 7] = 0  # an input that is always zero
    weight = rng.standard_normal((24, 150)).astype(np.float32)

    def error(factor: np.ndarray | None) -> float:
        back = rounded(weight, 4, "rtn", factor).values()[:, :150]
        return float(np.linalg.norm(inputs @ (back - weight).T))

    assert error(inverse_factor(inputs.T @ inputs)) < 0.6 * error(None)


@pytest.mark.parametrize("method", METHODS)
def test_blocks_of_one_value(method: str) -> None:
    values = np.zeros((2, 64), np.float32)
    values[0, 32:] = 0.25
    back = rounded(values, 4, method).values()
    assert np.isfinite(back).all() and not back[1].any()
    assert np.abs(back[0, 32:] - 0.25).max() < 0.02
    assert set(GRIDS) == set(METHODS)


def test_importing_the_quantiser_is_quiet() -> None:
    """onnxruntime's quantiser sets the root logger to INFO and adds a handler."""
    code = (
        "import logging, numpy as np\n"
        "from omnidraft.export.quantize.grids import GRIDS\n"
        "for m in GRIDS: GRIDS[m](np.random.default_rng(0).random((2, 2, 32), np.float32), 4)\n"
        "root = logging.getLogger()\n"
        "assert root.level == logging.WARNING and not root.handlers, (root.level, root.handlers)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert logging.getLogger().level == logging.WARNING


def test_names_are_read_as_they_are_said() -> None:
    assert [form.name for form in FORMS] == ["fp32", "int8", "int4", "int4-rtn", "int4-k-quant", "int4-gptq"]
    assert all(named(form.name) == form for form in FORMS)
    mixed = replace(INT4, int8_sites=frozenset({"layers.0.down", "lm_head"}))
    assert mixed.name == "int4-m2"
    assert [mixed.bits_of(name) for name in ("layers.0.down", "layers.1.down", "lm_head")] == [8, 4, 8]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: named("int4-awq"), 'quantisation "int4-awq" is unknown'),
        (lambda: named("int3"), 'quantisation "int3" is unknown; use fp32, int8, int4, int4-rtn'),
        (lambda: named("int4-m2"), 'quantisation "int4-m2" is unknown'),
    ],
)
def test_refusals(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        make()
