"""Every form of weights that can be exported: independent rows, no dynamic int8, names and refusals."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import onnxruntime as ort  # noqa: E402
import torch  # noqa: E402
from onnx import ModelProto, TensorProto, helper, numpy_helper  # noqa: E402

from omnidraft.checkpoints.checkpoint import read_checkpoint  # noqa: E402
from omnidraft.errors import SettingError  # noqa: E402
from omnidraft.export.graph.passes import drop_dead, matmuls  # noqa: E402
from omnidraft.export.graph.write import write_graph  # noqa: E402
from omnidraft.export.quantize.cpu import export_cpu  # noqa: E402
from omnidraft.export.quantize.gptq import compensate, inverse_factor  # noqa: E402
from omnidraft.export.quantize.grids import GRIDS, codes_on, packed, values_of  # noqa: E402
from omnidraft.export.quantize.quantization import (  # noqa: E402
    FORMS,
    FP32,
    INT4,
    INT8,
    METHODS,
    Choices,
    Quantization,
    named,
    with_choices,
)
from omnidraft.export.quantize.quantize import Calibration, quantize  # noqa: E402
from omnidraft.runtime.bundle.model_entry import KvShape  # noqa: E402
from omnidraft.runtime.decoding.model import Logits  # noqa: E402
from omnidraft.runtime.models.ort_model import OrtModel  # noqa: E402

VOCAB, LENGTH = 320, 96
DYNAMIC = {"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat"}
Quantized = Callable[[Quantization], "tuple[ModelProto, OrtModel]"]


@pytest.fixture(scope="session")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Quantized:
    """A small Llama with a tied head, wide enough for blocks of 128; exported once, quantised to any form."""
    place = tmp_path_factory.mktemp("quantized")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=VOCAB, max_position_embeddings=LENGTH, tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(place)
    (place / "tokenizer.json").write_text("{}")
    proto, c = export_cpu(read_checkpoint(str(place)), LENGTH, FP32)
    write_graph(proto, place / "fp32.onnx", external_above=1000)
    calibration = Calibration(place / "fp32.onnx", [tokens(60, seed) for seed in range(4)])
    kv = KvShape(c.num_layers, c.num_kv_heads, c.head_dim, c.max_length)

    @cache
    def make(quantization: Quantization) -> tuple[ModelProto, OrtModel]:
        copy = ModelProto()
        copy.CopyFrom(proto)
        quantize(copy, quantization, calibration if quantization.method == "gptq" else None)
        file = place / f"{quantization.name}.onnx"
        write_graph(copy, file)
        return copy, OrtModel(file, kv, VOCAB)

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


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_rows_are_independent_and_nothing_is_dynamic(quantized: Quantized, form: Quantization) -> None:
    """A later token of a block does not change a bit of an earlier row, in any form of an export."""
    proto, model = quantized(form)
    assert not DYNAMIC & {node.op_type for node in proto.graph.node}
    ids = tokens(LENGTH)
    for past, count in ((0, 9), (3, 2), (17, 5), (31, 64)):
        rows = score(model, ids[: past + count], past)
        for place in {1, count // 2, count - 1}:
            changed = [*ids[: past + place], *tokens(count - place, seed=2)]
            assert np.array_equal(score(model, changed, past)[:place], rows[:place])


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_holds_what_its_name_says(quantized: Quantized, form: Quantization) -> None:
    proto, _ = quantized(form)
    nodes = [node for node in proto.graph.node if node.op_type == "MatMulNBits"]
    gathers = [node for node in proto.graph.node if node.op_type == "GatherBlockQuantized"]
    assert len(nodes) == (0 if form.bits == 32 else 9)
    assert len(gathers) == (form.embedding_bits < 32)
    if nodes:
        assert not matmuls(proto.graph)
        settings = [{a.name: a.i for a in node.attribute} for node in nodes]
        assert {each["accuracy_level"] for each in settings} == {4}
        assert {each["block_size"] for each in settings} == {form.block}
        head = form.embedding_bits if form.one_table else form.head_bits or form.bits  # the head is tied
        assert [each["bits"] for each in settings] == [form.bits] * 8 + [head]
    full = [t.name for t in proto.graph.initializer if t.data_type == TensorProto.FLOAT and len(t.dims) == 2]
    full = [name for name in full if not name.endswith(".scales") and not name.startswith("rotary")]
    table, products = form.embedding_bits == 32, 9 if form.bits == 32 else 0
    assert len(full) == products + (table and not products)  # in fp32 the tied head is the table


@pytest.mark.parametrize("method", METHODS)
def test_4_bits_stay_near(quantized: Quantized, method: str) -> None:
    """This also checks that codes, scales and zero points are in the layout of the kernel."""
    ids = tokens(60)
    expected = score(quantized(FP32)[1], ids)
    for block in (32, 128):
        actual = score(quantized(Quantization(4, block, method=method))[1], ids)
        assert np.linalg.norm(actual - expected) < 0.25 * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("one", "bits"), [("int4-e8", 8), ("int8-e8", 8), ("int4-e4", 4), ("int4-b128-e8", 8)]
)
def test_a_tied_head_and_the_embedding_are_stored_once(quantized: Quantized, one: str, bits: int) -> None:
    """And with blocks of 32 the embedding is, bit for bit, the embedding that is stored alone."""
    proto, alone = quantized(named(one))[0], quantized(named(f"fp32-e{bits}"))[0]
    codes = [t for t in proto.graph.initializer if t.name.endswith(".q") and t.dims[0] == VOCAB]
    assert [t.name for t in codes] == ["embedding.weight.q"]
    assert [len(t.raw_data) for t in codes] == [VOCAB * 128 * bits // 8]
    rows, expected = (embedded(each) for each in (proto, alone))
    if named(one).block == 32:
        assert np.array_equal(rows, expected)
    else:
        assert np.linalg.norm(rows - expected) < 0.01 * np.linalg.norm(expected)


@pytest.mark.parametrize("two", ["int4-e4-h8", "int8-e4", "int4-e4-gptq", "fp32-e8"])
def test_a_tied_head_with_other_codes_is_stored_apart(quantized: Quantized, two: str) -> None:
    assert not named(two).one_table
    names = {t.name for t in quantized(named(two))[0].graph.initializer if t.dims and VOCAB in t.dims}
    assert "embedding.q" in names and len(names) > 2


def embedded(proto: ModelProto) -> np.ndarray:
    """The embedding of every token, float32 [1, vocab, hidden], by onnxruntime."""
    model = ModelProto()
    model.CopyFrom(proto)
    norm = next(node for node in model.graph.node if "SimplifiedLayerNorm" in node.op_type)
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(norm.input[0], TensorProto.FLOAT, None))
    drop_dead(model)
    used = {name for node in model.graph.node for name in node.input}
    for value in [value for value in model.graph.input if value.name not in used]:
        model.graph.input.remove(value)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rows: np.ndarray = session.run(None, {"input_ids": np.arange(VOCAB)[None]})[0]
    return rows


def test_an_int8_head_is_closer(quantized: Quantized) -> None:
    ids = tokens(60)
    expected = score(quantized(FP32)[1], ids)
    same, kept = (np.abs(score(quantized(q)[1], ids) - expected).mean() for q in (INT4, named("int4-h8")))
    assert kept < same


@pytest.mark.parametrize("block", [32, 128])
def test_gptq_is_nearer_where_inputs_are(block: int) -> None:
    """With correlated inputs the products are closer than with weights rounded to the nearest."""
    rng = np.random.default_rng(0)
    inputs = (rng.standard_normal((600, 20)) @ rng.standard_normal((20, 150))).astype(np.float32)
    inputs += 0.1 * rng.standard_normal(inputs.shape).astype(np.float32)
    inputs[:, 7] = 0  # an input that is always zero
    weight = rng.standard_normal((150, 24)).astype(np.float32)
    codes, grid = compensate(weight, inverse_factor(inputs.T @ inputs), 4, block)
    values = np.pad(weight.T, ((0, 0), (0, -150 % block))).reshape(24, -1, block)
    plain = GRIDS["rtn"](values, 4)

    def error(values: np.ndarray) -> float:
        back = values.reshape(24, -1)[:, :150].T
        return float(np.linalg.norm(inputs @ back - inputs @ weight))

    nearest = error(values_of(codes_on(values, plain, 4), plain, 4))
    assert error(values_of(codes, grid, 4)) < 0.6 * nearest


@pytest.mark.parametrize("method", METHODS)
def test_blocks_of_one_value(method: str) -> None:
    values = np.zeros((2, 2, 32), np.float32)
    values[0, 1] = 0.25
    grid = GRIDS[method](values, 4)
    back = values_of(codes_on(values, grid, 4), grid, 4)
    assert np.isfinite(back).all()
    assert not back[1].any()
    assert np.abs(back[0, 1] - 0.25).max() < 0.02


def test_packing_puts_the_first_code_low() -> None:
    codes = np.array([[1, 2, 15]], np.uint8)
    assert packed(codes, 4).tolist() == [[0x21, 0x0F]]
    assert packed(codes, 8).tolist() == [[1, 2, 15]]


def test_equal_weights_are_quantised_once(quantized: Quantized) -> None:
    names = [tensor.name for tensor in quantized(INT8)[0].graph.initializer]
    assert len(names) == len(set(names))


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
    assert len({form.name for form in FORMS}) == len(FORMS)
    assert all(named(form.name) == form for form in FORMS)
    assert named("int4-b128-e4-h8-gptq") == Quantization(4, 128, 4, 8, "gptq")


def test_choices_reach_the_models_that_they_mean_something_to() -> None:
    pair = with_choices(["fp32", "int4-b128"], Choices(32, "int8", "int8", "gptq"))
    assert [each.name for each in pair] == ["fp32-e8", "int4-b128-e8-h8-gptq"]
    assert [q.name for q in with_choices(["int8", "int4-rtn"], Choices(128, "fp32", method="hqq"))] == [
        "int8-b128",
        "int4-b128-rtn",
    ]


def test_embeddings_are_int8_where_weights_are_quantised() -> None:
    """Unless the name or the choice says otherwise."""
    usual = [q.name for q in with_choices(["fp32", "int8", "int4", "int4-e4", "int4-b128-gptq"], Choices())]
    assert usual == ["fp32", "int8-e8", "int4-e8", "int4-e4", "int4-b128-e8-gptq"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Quantization(3), "weights of 3 bits are not supported; use 32, 8 or 4"),
        (lambda: Quantization(4, 64), "blocks of 64 are not supported; use 32 or 128"),
        (lambda: Quantization(4, method="awq"), 'quantisation method "awq" is not supported; use round'),
        (lambda: Quantization(8, method="gptq"), "gptq is for 4-bit weights, not 8-bit ones; use int4"),
        (lambda: Quantization(8, head_bits=8), "LM head of 8 bits in 8-bit weights is not supported; keep"),
        (lambda: named("int3"), 'quantisation "int3" is unknown; use fp32, int8, int4$'),
        (lambda: named("int8-gptq"), 'quantisation "int8-gptq" is unknown; use .*int4-b128-e8-h8-gptq$'),
        (lambda: Choices(embedding="int2"), 'embedding in "int2" is not supported; use fp32, int8, int4'),
        (lambda: Choices(head="fp32"), 'LM head in "fp32" is not supported; use int8, or same as the rest'),
        (
            lambda: with_choices(["int8", "fp32"], Choices(method="gptq")),
            "quant_method gptq is for int4 weights, not int8 and fp32; choose --quant int4",
        ),
    ],
)
def test_refusals(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        make()


def test_gptq_leaves_no_file(quantized: Quantized, tmp_path: Path) -> None:
    proto = ModelProto()
    proto.CopyFrom(quantized(FP32)[0])
    write_graph(proto, tmp_path / "model.onnx", external_above=1000)
    quantize(proto, named("int4-gptq"), Calibration(tmp_path / "model.onnx", [tokens(20)]))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    zeros = next(t for t in proto.graph.initializer if t.name.endswith("o.weight.zeros"))
    assert numpy_helper.to_array(zeros).shape == (128, 2)  # four blocks, two to a byte
