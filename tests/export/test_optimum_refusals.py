"""The graphs that are not adopted; each refusal is one sentence with the reason and the remedy.

Each graph is one that Optimum made, with one change.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="adopting a graph needs onnx, which this Python does not have")

import onnx
from onnx import ModelProto, TensorProto, helper

from omnidraft.errors import CheckpointError, ExportError, OmnidraftError
from omnidraft.export.adopt.adopt import check_adopted
from omnidraft.export.adopt.find_graph import find_graph
from omnidraft.export.adopt.optimum_directory import OptimumDirectory, read_optimum
from omnidraft.export.bundle import export_bundle
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.models.concat_model import ConcatGraph, ConcatModel
from support.places import ROOT

MADE = ROOT / "tests/data/optimum"
Change = Callable[[ModelProto], object]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy of a directory that Optimum made, to be changed."""
    return Path(shutil.copytree(MADE / "llama", tmp_path / "llama"))


def read(place: Path) -> OptimumDirectory:
    graph = find_graph(str(place))
    assert graph is not None
    return read_optimum(str(place), graph)


def spoil(place: Path, change: Change) -> None:
    proto = onnx.load(str(place / "model.onnx"))
    change(proto)
    onnx.save(proto, str(place / "model.onnx"))


def configure(place: Path, **changes: object) -> None:
    config = json.loads((place / "config.json").read_text())
    config = {key: value for key, value in {**config, **changes}.items() if value is not None}
    (place / "config.json").write_text(json.dumps(config))


def refused(place: Path, *words: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        read(place)
    one_sentence(caught.value, str(place), *words)


def one_sentence(error: OmnidraftError, *words: str) -> None:
    assert "\n" not in str(error) and not str(error).endswith(".")
    for word in words:
        assert word in str(error)


def add_input(name: str, kind: int = TensorProto.INT64) -> Change:
    return lambda proto: proto.graph.input.append(helper.make_tensor_value_info(name, kind, [1]))


def retype(name: str, kind: int) -> Change:
    def change(proto: ModelProto) -> None:
        for info in [*proto.graph.input, *proto.graph.output]:
            if name in info.name:
                info.type.tensor_type.elem_type = kind

    return change


def remove(name: str) -> Change:
    def change(proto: ModelProto) -> None:
        for infos in (proto.graph.input, proto.graph.output):
            for info in [i for i in infos if name in i.name]:
                infos.remove(info)

    return change


def reshape(name: str, axis: int, value: int | str) -> Change:
    def change(proto: ModelProto) -> None:
        for info in [*proto.graph.input, *proto.graph.output]:
            if name in info.name:
                dim = info.type.tensor_type.shape.dim[axis]
                dim.dim_value, dim.dim_param = 0, ""
                if isinstance(value, int):
                    dim.dim_value = value
                else:
                    dim.dim_param = value

    return change


def test_what_optimum_made_is_read(place: Path) -> None:
    source = read(place)
    assert source.contract.num_layers == 2 and source.contract.num_kv_heads == 1
    assert source.contract.quantization == "fp32" and source.data == ()
    assert source.shape.max_positions == 128 and source.shape.eos_ids == (0,)
    # Embedding, head and projections; norms have 32 values each, which are not counted.
    assert source.parameters == 2 * 288 * 32 + 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (add_input("use_cache_branch", TensorProto.BOOL), ["takes use_cache_branch"]),
        (add_input("token_type_ids"), ["takes token_type_ids", "export it again"]),
        (add_input("past_key_values.0.decoder.key", TensorProto.FLOAT), ["past_key_values.0.decoder.key"]),
        (remove("past_key_values"), ["takes no past_key_values", "text-generation-with-past"]),
        (remove("past_key_values.1.value"), ["does not take past_key_values.1.value"]),
        (remove("present.1.key"), ["does not give present.1.key"]),
        (remove("logits"), ["does not give logits"]),
        (retype("past_key", TensorProto.FLOAT16), ["past_key_values.0.key in float16", "--dtype fp32"]),
        (retype("logits", TensorProto.FLOAT16), ["logits in float16 and float32 is needed"]),
        (retype("input_ids", TensorProto.FLOAT), ["input_ids in float32 and int64 or int32 is needed"]),
        (reshape("past_key_values.1", 1, 3), ["[batch_size, 1, ", " and [batch_size, 3, "]),
        (reshape("past_key_values", 3, "size"), ["past_sequence_length, size]", "the same two numbers"]),
        (reshape("logits", 2, "words"), ["logits of shape [batch_size, sequence_length, words]"]),
    ],
)
def test_a_graph_of_another_kind(place: Path, change: Change, words: list[str]) -> None:
    spoil(place, change)
    refused(place, *words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"is_encoder_decoder": True}, ["encoder-decoder", "use a decoder"]),
        ({"num_hidden_layers": 12}, ["says 12 layers and the graph has 2"]),
        ({"max_position_embeddings": None}, ["how many positions", '"max_position_embeddings"']),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, ["(dynamic)", "another checkpoint"]),
    ],
)
def test_a_configuration_that_does_not_fit(place: Path, changes: dict[str, object], words: list[str]) -> None:
    configure(place, **changes)
    refused(place, *words)


def test_factors_of_long_texts_are_left_out(place: Path) -> None:
    configure(place, rope_scaling={"rope_type": "longrope"}, original_max_position_embeddings=64)
    assert read(place).shape.max_positions == 64


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json"])
def test_what_lies_around_the_graph(place: Path, file: str) -> None:
    (place / file).unlink()
    refused(place, f"has no {file} beside its graph")


def test_files_that_are_not_one_decoder(place: Path) -> None:
    graph = (place / "model.onnx").rename(place / "decoder_model.onnx")
    shutil.copy(graph, place / "decoder_with_past_model.onnx")
    refused(place, "decoder_model.onnx and decoder_with_past_model.onnx", "one model.onnx")
    shutil.copy(graph, place / "encoder_model.onnx")
    refused(place, "encoder-decoder", "encoder_model.onnx")
    for name in ("encoder_model", "decoder_with_past_model"):
        (place / f"{name}.onnx").unlink()
    assert find_graph(str(place)) == graph
    shutil.copy(graph, place / "model_q4.onnx")
    refused(place, "2 graphs (decoder_model.onnx, model_q4.onnx)", "give the path of one")
    assert find_graph(str(place / "model_q4.onnx")) == place / "model_q4.onnx"


def test_a_checkpoint_is_a_checkpoint(place: Path) -> None:
    (place / "onnx").mkdir()
    graph = (place / "model.onnx").rename(place / "onnx/model.onnx")
    assert find_graph(str(place)) == graph and read(place).directory == place
    shutil.copy(MADE / "llama-checkpoint/model.safetensors", place)
    assert find_graph(str(place)) is None  # its graph is adopted only if its file is named
    assert read_optimum(str(graph), graph).directory == place
    for nothing in (place / "nowhere", "someone/a-model", MADE / "make.py"):
        assert find_graph(str(nothing)) is None


def test_a_file_that_is_not_whole(place: Path) -> None:
    data = (place / "model.onnx").read_bytes()
    (place / "model.onnx").write_bytes(data[:100_000])
    refused(place, "is not a whole ONNX file (100000 bytes")


def test_weights_in_files_beside_the_graph(place: Path, tmp_path: Path) -> None:
    proto = onnx.load(str(place / "model.onnx"))
    (place / "model.onnx").unlink()
    onnx.save(
        proto, str(place / "model.onnx"), save_as_external_data=True, location="model.onnx_data"
    )  # fmt: skip
    assert read(place).data == ("model.onnx_data",)
    export_bundle(str(place), str(MADE / "gpt-neox"), tmp_path / "bundle")
    assert (tmp_path / "bundle/target/cpu/model.onnx_data").is_file()
    whole = (place / "model.onnx_data").read_bytes()
    (place / "model.onnx_data").unlink()  # the bundle has another link to the file
    refused(place, "lacks model.onnx_data")
    (place / "model.onnx_data").write_bytes(whole[:-500])
    refused(place, f"model.onnx_data was cut short ({len(whole) - 500} bytes of")


@pytest.mark.parametrize("location", ["weights.bin", "../model.onnx_data", "/etc/passwd", "model.onnx"])
def test_weights_in_other_places(place: Path, location: str) -> None:
    def move(proto: ModelProto) -> None:
        tensor = proto.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)

    proto = onnx.load(str(place / "model.onnx"))
    move(proto)
    (place / "model.onnx").write_bytes(proto.SerializeToString())
    refused(place, f"keeps weights in {location!r}", "location='model.onnx_data'")


# Refusals after running the graph


def test_dynamic_int8_is_refused_by_what_it_computes(place: Path, tmp_path: Path) -> None:
    """onnxruntime's own quantiser, in a separate process because it turns logging on."""
    code = f"""
from onnxruntime.quantization import QuantType, quantize_dynamic
file = {str(place / "model.onnx")!r}
quantize_dynamic({str(MADE / "llama/model.onnx")!r}, file, weight_type=QuantType.QInt8)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ})
    assert "MatMulInteger" in read(place).contract.quantization
    for target, drafter in ((place, MADE / "gpt-neox"), (MADE / "gpt-neox", place)):
        with pytest.raises(ExportError) as caught:
            export_bundle(str(target), str(drafter), tmp_path / "out")
        one_sentence(caught.value, str(place), "one activation scale spans the block", "--quant int8")
        assert sorted(tmp_path.iterdir()) == [place]


class Stale(ConcatModel):
    """A model whose rewind keeps one position too many."""

    def rewind(self, length: int) -> None:
        super().rewind(min(length + 1, self.length) if length else 0)


def test_a_context_that_keeps_what_was_forgotten_is_refused() -> None:
    graph = ConcatGraph(MADE / "llama/model.onnx", KvShape(2, 1, 16, 128), 288)
    prompt = [5, 90, 17, 200, 31, 8, 9, 77, 41, 150]
    assert check_adopted("it", ConcatModel(graph), [prompt]).rewind <= 1e-5
    with pytest.raises(ExportError) as caught:
        check_adopted("it", Stale(graph), [prompt])
    one_sentence(caught.value, "it gives other logits after a rewind", "give the checkpoint instead")
    with pytest.raises(ExportError, match="could not be checked: no prompt has"):
        check_adopted("it", ConcatModel(graph), [[1, 2]])
