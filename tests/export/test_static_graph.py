"""The static form of every supported architecture: parity, operators, and the verdict of mobile checkers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

for name in ("torch", "transformers", "optimum", "onnx", "onnxscript"):
    pytest.importorskip(name, reason=f"exporting needs {name}, which this Python does not have")

import onnx  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

from omnidraft.checkpoints.checkpoint import Checkpoint, read_checkpoint  # noqa: E402
from omnidraft.doctor.placement import ESTIMATED, estimate  # noqa: E402
from omnidraft.errors import ExportError  # noqa: E402
from omnidraft.export.graph.write import write_graph  # noqa: E402
from omnidraft.export.npu.npu import HOST, WEIGHTS, StaticShapes, write_static  # noqa: E402
from omnidraft.export.npu.static_halves import halved, store_halves  # noqa: E402
from omnidraft.export.npu.static_weights import refuse_static  # noqa: E402
from omnidraft.export.quantize.parity import compare_with_torch  # noqa: E402
from omnidraft.runtime.models.ort_model import Graph, OrtModel  # noqa: E402
from omnidraft.runtime.models.static_model import StaticForm, StaticGraphs, StaticModel  # noqa: E402
from support.exported_graphs import CASES, STORED, VOCAB, graph_of, save, tokens  # noqa: E402

REFUSED = [case for case in CASES if "window" in case or case.startswith(("gemma", "gpt-neox"))]
STATIC = [case for case in CASES if case not in REFUSED]

SHAPES = StaticShapes(kv_length=48, chunk=16, drafted=4)
PLAIN = {
    "Add", "Concat", "Div", "MatMul", "Mul", "ReduceMean", "Reshape", "Sigmoid", "Slice", "Softmax", "Split",
    "Sqrt", "Transpose",
}  # fmt: skip

Written = tuple[Checkpoint, StaticForm]
Write = Callable[[str], Written]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Write:
    made: dict[str, Written] = {}

    def write(case: str) -> Written:
        if case not in made:
            place = tmp_path_factory.mktemp(case)
            save(case, place)
            checkpoint = read_checkpoint(str(place))
            made[case] = checkpoint, write_static(checkpoint, place / "npu", SHAPES)
        return made[case]

    return write


@pytest.mark.parametrize("case", STATIC)
def test_static_graphs_agree_with_torch(written: Write, case: str) -> None:
    """In blocks, token by token, after a rewind, and up to the last position of the context."""
    checkpoint, form = written(case)
    rows = [tokens(n, n) for n in (3, 17, SHAPES.kv_length)]
    (parity,) = compare_with_torch(checkpoint, [StaticModel(StaticGraphs(form))], rows)
    assert parity.max_difference < 1e-4
    assert parity.greedy_agreement > 0.95
    assert parity.positions == sum(map(len, rows))


@pytest.mark.parametrize("case", STATIC)
def test_greedy_text_is_the_dynamic_graphs(written: Write, case: str, tmp_path: Path) -> None:
    """Greedy decoding, with rejected drafts of every length in between."""
    checkpoint, form = written(case)
    proto, _ = graph_of(checkpoint.directory, SHAPES.kv_length)
    write_graph(proto, tmp_path / "model.onnx")
    dynamic = OrtModel(Graph(tmp_path / "model.onnx", form.kv, form.vocab_size))
    static = StaticModel(StaticGraphs(form))
    prompt = tokens(19, 3)
    expected = [int(dynamic.score(prompt, 1)[-1].argmax())]
    actual = [int(static.score(prompt, 1)[-1].argmax())]
    for step in range(20):
        at = static.length
        expected.append(int(dynamic.score(expected[-1:])[0].argmax()))
        actual.append(int(static.score([actual[-1], *tokens(step % 8, step)])[0].argmax()))
        static.rewind(at + 1)
    assert actual == expected


@pytest.mark.parametrize("case", STATIC)
def test_the_three_shapes_are_one_graph_with_one_file_of_weights(written: Write, case: str) -> None:
    _, form = written(case)
    models = [onnx.load(path, load_external_data=False) for path in form.graphs.values()]
    assert sorted(form.graphs) == [1, SHAPES.drafted + 1, SHAPES.chunk]
    for model, path in zip(models, form.graphs.values(), strict=True):
        onnx.checker.check_model(str(path))
        assert {node.op_type for node in model.graph.node} <= PLAIN
        assert {node.domain for node in model.graph.node} == {""}
        assert model.opset_import[0].version >= 18
        for value in (*model.graph.input, *model.graph.output):
            assert all(dim.dim_value > 0 for dim in value.type.tensor_type.shape.dim), value.name
    assert len({tuple(node.name for node in model.graph.node) for model in models}) == 1
    tensors = [tensor for model in models for tensor in model.graph.initializer if tensor.external_data]
    places = {(tensor.name, *(entry.value for entry in tensor.external_data)) for tensor in tensors}
    assert len(places) == len({name for name, *_ in places}) > 8  # one place in the file for each weight
    assert {location for _, location, *_ in places} == {"weights.bin"}


@pytest.mark.parametrize("case", ["llama3-tied", "qwen2"])
def test_weights_are_float16_on_disk_and_float32_in_the_products(
    written: Write, case: str, tmp_path: Path
) -> None:
    """Products and embeddings take half the bytes; the providers of phones still take every shape whole."""
    checkpoint, before = written(case)
    folder = tmp_path / "npu"
    shutil.copytree(before.host.parent, folder)
    graphs = {block: folder / path.name for block, path in before.graphs.items()}
    form = replace(before, graphs=graphs, host=folder / before.host.name)
    store_halves(form)
    sizes = [(at / name).stat().st_size for name in (WEIGHTS, HOST) for at in (before.host.parent, folder)]
    assert sizes[1] < 0.6 * sizes[0]
    assert sizes[3] < 0.6 * sizes[2]
    rows = [tokens(n, n) for n in (3, 17, SHAPES.kv_length)]
    kinds = [StaticModel(StaticGraphs(each)) for each in (before, form)]
    whole, half = compare_with_torch(checkpoint, kinds, rows)
    assert half.max_difference < 0.02
    assert (half.max_difference == whole.max_difference) == (STORED.get(case) == "float16")
    for path in graphs.values():
        onnx.checker.check_model(str(path))
        graph = onnx.load(path, load_external_data=False).graph
        halves = [t for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT16]
        assert len(halves) == len([node for node in graph.node if node.op_type == "Cast"]) == 9
        taken = [estimate(path, provider) for provider in ESTIMATED]
        assert [(each.partitions, each.taken == each.nodes) for each in taken] == [(1, True)] * 2


def test_a_weight_that_float16_cannot_hold_stays_float32() -> None:
    assert halved(np.array([[1.0, -65504.0]], np.float32)).dtype == np.float16
    large = np.array([[1.0, -65520.0]], np.float32)
    assert halved(large) is large


def test_what_has_no_static_form_is_refused_by_name(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64, vocab_size=VOCAB,
        hidden_act="gelu",
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ExportError, match="gelu"):
        write_static(read_checkpoint(str(tmp_path)), tmp_path / "npu", SHAPES)
    assert not (tmp_path / "npu").exists()


@pytest.mark.parametrize(
    ("lengths", "sentence"),
    [((48, 64, 4), "prefill_chunk 64"), ((48, 1, 4), "prefill_chunk 1"), ((48, 16, 0), "0 draft tokens")],
)
def test_lengths_that_do_not_fit_are_refused(lengths: tuple[int, int, int], sentence: str) -> None:
    with pytest.raises(ExportError, match=sentence):
        StaticShapes(*lengths)


def test_a_kv_length_beyond_the_model_is_refused(written: Write, tmp_path: Path) -> None:
    checkpoint, _ = written("llama")
    with pytest.raises(ExportError, match="kv_length 4096 does not fit"):
        write_static(checkpoint, tmp_path / "npu", StaticShapes(4096, 16, 4))


def test_a_hidden_position_has_no_influence(written: Write) -> None:
    """Stale keys and values after the counter, and the rows that pad a block, do not change a bit."""
    _, form = written("llama")
    graphs = StaticGraphs(form)
    fresh, used = StaticModel(graphs), StaticModel(graphs)
    used.score(tokens(40, 1))
    used.rewind(0)
    prompt = tokens(11, 2)
    assert np.array_equal(fresh.score(prompt), used.score(prompt))
    assert np.array_equal(fresh.score([7]), used.score([7]))


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_static_form_is_refused(tmp_path: Path, case: str) -> None:
    save(case, tmp_path)
    with pytest.raises(ExportError, match=r"leave --npu out"):
        refuse_static(read_checkpoint(str(tmp_path)))
