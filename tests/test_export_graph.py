"""The exported graph against torch: parity, independence of rows, rewinding, and what lies on disk.

It does not know the runtime; `Session` below binds the graph by its contract alone.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from onnx import ModelProto, TensorProto, helper, numpy_helper  # noqa: E402

from omnidraft.errors import ExportError, SettingError  # noqa: E402
from omnidraft.export.checkpoint import read_checkpoint  # noqa: E402
from omnidraft.export.contract import GraphContract  # noqa: E402
from omnidraft.export.cpu import Skeleton, export_cpu, skeleton  # noqa: E402
from omnidraft.export.lora import add_lora_sites, lora_sites  # noqa: E402
from omnidraft.export.passes import attention_nodes, matmuls  # noqa: E402
from omnidraft.export.quantize import FP32, INT4, INT4_B128, INT4_E8, INT8, Quantization, quantize  # noqa: E402
from omnidraft.export.stream import write_skeleton  # noqa: E402
from omnidraft.export.thin_model import logits_of, thin_model  # noqa: E402
from omnidraft.export.weights import fill  # noqa: E402
from omnidraft.export.write import write_graph  # noqa: E402
from omnidraft.runtime.adapter import LoraSites, no_adapter  # noqa: E402

Rows = NDArray[np.float32]

MAX_LENGTH = 64
VOCAB = 300
SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": VOCAB,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
GRANITE = {"logits_scaling": 4.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2}
GEMMA2 = {
    "head_dim": 32,
    "query_pre_attn_scalar": 24,
    "sliding_window": 10,
    "attn_logit_softcapping": 3.0,
    "final_logit_softcapping": 5.0,
}
GEMMA3 = {
    "hidden_size": 96,  # its root scales the embedding; bfloat16 cannot hold it
    "head_dim": 32,
    "query_pre_attn_scalar": 24,
    "sliding_window": 10,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
    },
}
NEOX = {
    "head_dim": 32,
    "num_attention_heads": 2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0 + 0.1 * place for place in range(8)],
    "long_factor": [2.0 + 0.1 * place for place in range(8)],
}
WINDOW = {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama3-tied": ("llama", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama-yarn-bias": ("llama", {"rope_parameters": YARN, "attention_bias": True, "mlp_bias": True}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2-window-dynamic": ("qwen2", {**WINDOW, "rope_parameters": DYNAMIC}),
    "qwen3": ("qwen3", {"head_dim": 32, "tie_word_embeddings": False}),
    "mistral": ("mistral", {"sliding_window": None, "head_dim": 16}),
    "mistral-window-linear": ("mistral", {"sliding_window": 11, "head_dim": 16, "rope_parameters": LINEAR}),
    "phi3": ("phi3", {"sliding_window": None}),
    "phi3-window-longrope": (
        "phi3",
        {"sliding_window": 12, "rope_parameters": LONGROPE, "original_max_position_embeddings": MAX_LENGTH},
    ),
    "granite": ("granite", {**GRANITE, "tie_word_embeddings": True}),
    "olmo2": ("olmo2", {}),
    "gemma2": ("gemma2", GEMMA2),
    "gemma3": ("gemma3_text", GEMMA3),
    "gpt-neox": ("gpt_neox", NEOX),
    "gpt-neox-serial": ("gpt_neox", {**NEOX, "use_parallel_residual": False, "attention_bias": False}),
}
STORED = {"gemma3": "bfloat16", "qwen2": "float16"}  # the others are float32 on disk
QUANTIZATIONS = (FP32, INT8, INT4, INT4_B128, INT4_E8)


@dataclass(frozen=True)
class Exported:
    model: Any
    proto: ModelProto
    contract: GraphContract
    skeleton: Skeleton

    def quantized(self, quantization: Quantization) -> ModelProto:
        copy = ModelProto()
        copy.CopyFrom(self.proto)
        return quantize(copy, quantization)

    def logits(self, ids: list[int]) -> Rows:
        with torch.no_grad():
            rows: Rows = self.model(torch.tensor([ids])).logits[0].numpy()
        return rows


Export = Callable[[str], Exported]


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Each case is made, saved, read back and exported once; that takes seconds."""
    made: dict[str, Exported] = {}

    def export(case: str) -> Exported:
        if case not in made:
            directory = tmp_path_factory.mktemp(case)
            save(case, directory)
            checkpoint = read_checkpoint(str(directory))
            found = skeleton(checkpoint, thin_model(checkpoint), MAX_LENGTH)
            proto = ModelProto()
            proto.CopyFrom(found.proto)
            made[case] = Exported(load(directory), fill(proto, found.weights), found.contract, found)
        return made[case]

    return export


def save(case: str, directory: Path) -> None:
    model_type, extra = CASES[case]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(model_type, **{**SIZES, **extra})
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # fresh norms are all ones and would hide a mistake
            parameter.add_(torch.randn_like(parameter) * 0.1)
    transformers.utils.logging.disable_progress_bar()
    model.to(getattr(torch, STORED.get(case, "float32")))
    model.save_pretrained(directory)
    (directory / "tokenizer.json").write_text("{}")


def load(directory: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    ).eval()


class Session:
    """Binds one tensor as past and present, full of 1000 so that a stale entry would show."""

    def __init__(self, model: ModelProto | Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        source = str(model) if isinstance(model, Path) else model.SerializeToString()
        self.session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self.buffers = {
            spec.name: ort.OrtValue.ortvalue_from_numpy(np.full(spec.shape, 1000, np.float32))
            for spec in self.session.get_inputs()
            if spec.name.startswith("past_key_values.")
        }
        self.past = 0
        self.adapter: dict[str, Rows] = {}

    def run(self, ids: list[int], num_logits: int | None = None) -> Rows:
        binding = self.session.io_binding()
        total = self.past + len(ids)
        binding.bind_cpu_input("input_ids", np.array([ids], np.int64))
        binding.bind_cpu_input("seqlens_k", np.array([total - 1], np.int32))
        binding.bind_cpu_input("total_sequence_length", np.array([total], np.int32))
        binding.bind_cpu_input("num_logits", np.array([num_logits or len(ids)], np.int64))
        binding.bind_output("logits")
        for name, tensor in self.adapter.items():  # bind_cpu_input knows no overridable initializer
            binding.bind_input(name, "cpu", 0, np.float32, tensor.shape, tensor.ctypes.data)
        for name, value in self.buffers.items():
            binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output(name.replace("past_key_values", "present"), value)
        self.session.run_with_iobinding(binding)
        self.past = total
        rows: Rows = binding.get_outputs()[0].numpy()[0]
        return rows

    def at(self, past: int, ids: list[int], num_logits: int | None = None) -> Rows:
        self.past = past
        return self.run(ids, num_logits)


def tokens(count: int, seed: int = 0) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(3, VOCAB, count)]


def test_an_export_says_nothing(
    exported: Export, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    exported("mistral")
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


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
    assert json.loads(json.dumps(contract.as_json()))["max_length"] == MAX_LENGTH


@pytest.mark.parametrize("case", CASES)
def test_equals_torch(exported: Export, case: str) -> None:
    """Prefill, prefill continued, decode, verify, and all of it again after rewinding over other tokens."""
    ids = tokens(MAX_LENGTH)
    expected = exported(case).logits(ids)
    session = Session(exported(case).proto)
    first = ((0, 7), (7, 8), (8, 13), (13, 14), (14, 40), (40, 64))
    found = [np.abs(session.run(ids[start:end]) - expected[start:end]).max() for start, end in first]
    session.at(9, tokens(20, seed=1))  # a draft that is refused
    again = ((9, 10), (10, 15), (15, 64))
    found += [np.abs(session.at(start, ids[start:end]) - expected[start:end]).max() for start, end in again]
    print(f"{case}: largest difference {max(found):.1e}, of logits up to {np.abs(expected).max():.1f}")
    assert max(found) < 1e-4


@pytest.mark.parametrize("past", [0, 1, 2, 15, 16, 31, 56])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_any_block_after_any_past(exported: Export, past: int, count: int) -> None:
    ids = tokens(MAX_LENGTH)
    expected = exported("llama").logits(ids)[past : past + count]
    session = Session(exported("llama").proto)
    session.run(ids)  # the buffers hold a longer text than the count says
    assert np.abs(session.at(past, ids[past : past + count]) - expected).max() < 1e-4


@pytest.mark.parametrize("case", CASES)
def test_greedy_agrees_with_torch(exported: Export, case: str) -> None:
    ids = tokens(5)
    session = Session(exported(case).proto)
    rows = session.run(ids, 1)
    for _ in range(12):
        assert int(rows[-1].argmax()) == int(exported(case).logits(ids)[-1].argmax())
        ids.append(int(rows[-1].argmax()))
        rows = session.run(ids[-1:])


@pytest.mark.parametrize("quantization", QUANTIZATIONS, ids=lambda quantization: quantization.name)
def test_a_token_changes_no_earlier_row(exported: Export, quantization: Quantization) -> None:
    session = Session(exported("llama").quantized(quantization))
    ids = tokens(40)
    session.run(ids)
    for past, count in ((0, 9), (3, 2), (17, 6), (32, 8)):
        rows = session.at(past, ids[past : past + count])
        for place in range(1, count):
            changed = ids[past : past + count]
            changed[place:] = tokens(count - place, seed=2)
            assert np.array_equal(session.at(past, changed)[:place], rows[:place])


@pytest.mark.parametrize("quantization", QUANTIZATIONS, ids=lambda quantization: quantization.name)
def test_rewinding_leaves_no_trace(exported: Export, quantization: Quantization) -> None:
    proto = exported("llama").quantized(quantization)
    ids = tokens(20)
    fresh, used = Session(proto), Session(proto)
    fresh.run(ids[:12])
    used.run(ids[:12])
    used.run(tokens(30, seed=3))
    assert np.array_equal(used.at(12, ids[12:]), fresh.run(ids[12:]))


def test_only_the_asked_rows_come_out(exported: Export) -> None:
    ids = tokens(10)
    session = Session(exported("granite").proto)
    rows = session.run(ids)
    for count in (1, 3, 10):
        last = session.at(0, ids, count)
        assert last.shape == (count, VOCAB)
        assert np.abs(last - rows[-count:]).max() < 1e-5


@pytest.mark.parametrize(
    ("quantization", "limit"), [(INT8, 0.05), (INT4, 0.5), (INT4_B128, 0.5), (INT4_E8, 0.5)]
)
@pytest.mark.parametrize("case", ["llama", "llama3-tied", "granite"])
def test_quantised_logits_stay_near(
    exported: Export, case: str, quantization: Quantization, limit: float
) -> None:
    proto = exported(case).quantized(quantization)
    assert not matmuls(proto.graph)  # the LM head too, tied or not
    ids = tokens(30)
    expected = exported(case).logits(ids)
    difference = Session(proto).run(ids) - expected
    assert np.linalg.norm(difference) < limit * np.linalg.norm(expected)


@pytest.mark.parametrize(("bits", "limit"), [(8, 0.02), (4, 0.3)])
@pytest.mark.parametrize("case", ["llama", "llama3-tied"])
def test_the_embedding_alone(exported: Export, case: str, bits: int, limit: float) -> None:
    proto = exported(case).quantized(Quantization(32, embedding_bits=bits))
    ids = tokens(30)
    expected = exported(case).logits(ids)
    difference = Session(proto).run(ids) - expected
    assert np.linalg.norm(difference) < limit * np.linalg.norm(expected)


@pytest.mark.parametrize("quantization", [INT8, INT4, INT4_B128], ids=lambda quantization: quantization.name)
@pytest.mark.parametrize("rows", [128, 160, 40])
def test_weights_of_any_height(quantization: Quantization, rows: int) -> None:
    """A block that does not divide the rows gives way to blocks of 32, padded where need be."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((rows, 24)).astype(np.float32)
    weight[:, 5] = 0
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
            "one",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", rows])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 24])],
            [numpy_helper.from_array(weight, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)],
        ir_version=10,
    )
    (node,) = quantize(proto, quantization).graph.node
    block = next(attribute.i for attribute in node.attribute if attribute.name == "block_size")
    assert block == (quantization.block if rows % quantization.block == 0 else 32)
    x = rng.standard_normal((3, rows)).astype(np.float32)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    error = np.linalg.norm(session.run(None, {"x": x})[0] - x @ weight) / np.linalg.norm(x @ weight)
    assert error < (0.02 if quantization.bits == 8 else 0.15)


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
    for node in attention_nodes(exported(case).proto.graph):
        assert node.input[0]
        assert list(node.input[1:3]) == ["", ""]


@pytest.mark.parametrize("quantization", QUANTIZATIONS, ids=lambda quantization: quantization.name)
@pytest.mark.parametrize("case", ["llama", "llama3-tied", "gpt-neox"])
def test_streamed_is_what_memory_gives(
    exported: Export, tmp_path: Path, case: str, quantization: Quantization
) -> None:
    path = tmp_path / "model.onnx"
    written = write_skeleton(exported(case).skeleton, quantization, path, external_above=1000)
    assert sorted(tmp_path.iterdir()) == written
    assert len(written) == 2
    streamed, whole = Session(path), Session(exported(case).quantized(quantization))
    ids = tokens(20)
    assert np.array_equal(streamed.run(ids), whole.run(ids))
    assert all(
        tensor.data_location == TensorProto.DEFAULT
        for tensor in exported(case).skeleton.proto.graph.initializer
    )


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
    assert np.array_equal(Session(path).run(ids), Session(exported("llama").proto).run(ids))


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


@pytest.mark.parametrize("max_length", [0, MAX_LENGTH + 1])
def test_a_length_outside_the_context_is_refused(tmp_path: Path, max_length: int) -> None:
    save("phi3-window-longrope", tmp_path)  # later positions have longrope's other frequencies
    checkpoint = read_checkpoint(str(tmp_path))
    with pytest.raises(
        ExportError, match=rf"a context of {max_length} positions does not fit .*; give 1 to 64"
    ):
        export_cpu(checkpoint, max_length, FP32)


@pytest.mark.parametrize(("bits", "block", "embedding"), [(3, 32, 32), (16, 32, 32), (4, 64, 32), (4, 32, 2)])
def test_a_quantization_that_is_not_there(bits: int, block: int, embedding: int) -> None:
    with pytest.raises(SettingError, match=r"are not supported; use"):
        Quantization(bits, block, embedding)


def test_what_an_adapter_can_change(exported: Export) -> None:
    """q, k, v and gate, up lie side by side in this order, with the widths that the model has."""
    model = with_adapters(exported("qwen3"), FP32)[1]
    assert model.rank is None and len(model.sites) == 8
    assert {
        n.removeprefix("layers.1."): (s.inputs, s.parts) for n, s in model.sites.items() if "1." in n
    } == {
        "qkv": (64, (("q", 128), ("k", 64), ("v", 64))),
        "o": (128, (("o", 64),)),
        "gate_up": (64, (("gate", 128), ("up", 128))),
        "down": (128, (("down", 64),)),
    }


@pytest.mark.parametrize("quantization", [FP32, INT8, INT4], ids=lambda quantization: quantization.name)
@pytest.mark.parametrize("case", CASES)
def test_without_an_adapter_nothing_changes(exported: Export, case: str, quantization: Quantization) -> None:
    """To the last bit, also after adapters came and went; and one adapter says the same each time."""
    model, sites = with_adapters(exported(case), quantization)
    plain, session = Session(exported(case).quantized(quantization)), Session(model)
    ids = tokens(20)
    first, second = (random_lora(sites, rank, seed) for rank, seed in ((4, 0), (9, 1)))
    said = []
    for adapter in ({}, first, second, first, {}):
        session.adapter = adapter
        said.append(np.concatenate([session.at(0, ids[:9]), session.run(ids[9:10]), session.run(ids[10:])]))
    base = np.concatenate([plain.run(ids[:9]), plain.run(ids[9:10]), plain.run(ids[10:])])
    assert np.array_equal(said[0], base) and np.array_equal(said[4], base)
    assert np.array_equal(said[1], said[3])
    assert min(np.abs(said[1] - base).max(), np.abs(said[2] - said[1]).max()) > 1e-3


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("gpt-neox")])  # takes none
def test_an_adapter_is_what_it_would_be_in_torch(exported: Export, case: str) -> None:
    """Against torch with W + scale * B A in its weights, of which peft's modules say where they are."""
    import copy

    from omnidraft.export.peft_adapter import PeftAdapter, pack

    torch.manual_seed(1)
    merged = copy.deepcopy(exported(case).model)
    modules: dict[tuple[int, str], tuple[Rows, Rows]] = {}
    for name, module in merged.named_modules():
        found = re.fullmatch(r"model\.layers\.(\d+)\.((?:self_attn|mlp)\.\w+_proj)", name)
        if found is None:
            continue
        rank = 3 + len(modules) % 4
        a, b = torch.randn(rank, module.in_features) * 0.2, torch.randn(module.out_features, rank) * 0.2
        modules[int(found[1]), found[2]] = a.numpy(), (b * 2).numpy()
        with torch.no_grad():
            module.weight += 2 * b @ a
    assert len(modules) == (8 if case.startswith("phi3") else 14)
    ids = tokens(24)
    with torch.no_grad():
        wanted = merged(torch.tensor([ids])).logits[0].numpy()
    errors = {}
    for quantization in (FP32, INT8, INT4):
        model, sites = with_adapters(exported(case), quantization)
        packed = pack(PeftAdapter("", modules), sites)
        session = Session(model)
        session.adapter = {
            f"{n}.lora_{h}": t for n, ab in packed.items() for h, t in zip("ab", ab, strict=True)
        }
        rows = np.concatenate([session.run(ids[:9]), session.run(ids[9:10]), session.run(ids[10:])])
        errors[quantization.name] = np.abs(rows - wanted).max()
    base = np.abs(exported(case).logits(ids) - wanted).max()
    assert errors["fp32"] < 1e-4
    assert errors["int8"] < 0.1 * base and errors["int4"] < 0.7 * base, (errors, base)


def test_a_fixed_rank_must_be_fed(exported: Export) -> None:
    model = copy_of(exported("llama").proto)
    add_lora_sites(model, ("qkv", "down"), rank=8)
    sites = lora_sites(model, 32)
    widths = {
        i.name: i.type.tensor_type.shape.dim[1].dim_value for i in model.graph.input if "lora_a" in i.name
    }
    assert widths["layers.0.qkv.lora_a"] == 24 and widths["layers.0.down.lora_a"] == 8  # three parts, and one
    assert sites.rank == 8 and {n.rpartition(".")[2] for n in sites.sites} == {"qkv", "down"}
    quantize(model, INT8)
    session, plain = Session(model), Session(exported("llama").quantized(INT8))
    assert not session.session.get_overridable_initializers()
    ids = tokens(9)
    session.adapter = no_adapter(sites)
    assert np.array_equal(session.run(ids), plain.run(ids))
    session.adapter = random_lora(sites, 8, 0)
    assert np.abs(session.at(0, ids) - plain.at(0, ids)).max() > 1e-3
    session.adapter = {}
    with pytest.raises(Exception, match="lora_a"):
        session.at(0, ids)


def test_lora_at_a_place_or_rank_that_is_none(exported: Export) -> None:
    with pytest.raises(
        ExportError, match="no layer has a product 'query' for LoRA; use some of qkv, o, gate"
    ):
        add_lora_sites(copy_of(exported("llama").proto), ("qkv", "query"))
    with pytest.raises(ExportError, match="a LoRA rank of 0 leaves nothing to adapt; give 1 or more"):
        add_lora_sites(copy_of(exported("llama").proto), rank=0)


def with_adapters(exported: Exported, quantization: Quantization) -> tuple[ModelProto, LoraSites]:
    model = add_lora_sites(copy_of(exported.proto))
    contract = exported.contract
    sites = lora_sites(model, contract.num_kv_heads * contract.head_dim)
    quantize(model, quantization)
    floats = [node.name for node in model.graph.node if node.op_type == "MatMul" and ".lora_" in node.name]
    assert len(floats) == 2 * len(sites.sites)  # what an adapter is multiplied with stays in float
    return model, sites


def copy_of(model: ModelProto) -> ModelProto:
    found = ModelProto()
    found.CopyFrom(model)
    return found


def random_lora(sites: LoraSites, rank: int, seed: int) -> dict[str, Rows]:
    rng = np.random.default_rng(seed)
    found = {}
    for name, site in sites.sites.items():
        width = rank if sites.rank is None else sites.rank_of(name)
        found[f"{name}.lora_a"] = rng.normal(size=(site.inputs, width)).astype(np.float32) * 0.2
        found[f"{name}.lora_b"] = rng.normal(size=(width, site.outputs)).astype(np.float32) * 0.2
    return found
