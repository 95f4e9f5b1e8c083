"""The LoRA sites of an exported graph: no change without an adapter, parity with torch with an adapter."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from onnx import ModelProto  # noqa: E402

from omnidraft.export.graph.lora_inputs import add_lora_sites, lora_sites  # noqa: E402
from omnidraft.export.graph.skeleton import Skeleton  # noqa: E402
from omnidraft.export.quantize.quantization import FP32, INT4, INT8, Quantization  # noqa: E402
from omnidraft.runtime.bundle.lora_sites import LoraSites  # noqa: E402
from omnidraft.runtime.models.adapter import no_adapter  # noqa: E402
from support.exported_graphs import (  # noqa: E402
    CASES,
    Export,
    Exported,
    GraphSession,
    Rows,
    copy_of,
    graph_in,
    tokens,
)


def test_what_an_adapter_can_change(exported: Export) -> None:
    """q, k, v and gate, up are packed in this order, with the widths of the model."""
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
    """To the last bit, also after adapters came and went; an adapter gives the same logits each time."""
    model, sites = with_adapters(exported(case), quantization)
    plain, session = GraphSession(exported(case).quantized(quantization)), GraphSession(model)
    ids = tokens(20)
    first, second = (random_lora(sites, rank, seed) for rank, seed in ((4, 0), (9, 1)))
    outputs = []
    for adapter in ({}, first, second, first, {}):
        session.adapter = adapter
        outputs.append(
            np.concatenate([session.at(0, ids[:9]), session.run(ids[9:10]), session.run(ids[10:])])
        )
    base = np.concatenate([plain.run(ids[:9]), plain.run(ids[9:10]), plain.run(ids[10:])])
    assert np.array_equal(outputs[0], base) and np.array_equal(outputs[4], base)
    assert np.array_equal(outputs[1], outputs[3])
    assert min(np.abs(outputs[1] - base).max(), np.abs(outputs[2] - outputs[1]).max()) > 1e-3


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.startswith("gpt-neox")]
)  # takes no adapters
def test_an_adapter_is_what_it_would_be_in_torch(exported: Export, case: str) -> None:
    """Compared with torch with W + scale * B A in the weights of the modules that peft names."""
    import copy

    from omnidraft.checkpoints.peft_adapter import PeftAdapter, pack

    torch.manual_seed(1)
    merged = copy.deepcopy(exported(case).model)
    modules: dict[tuple[int, str], tuple[Rows, Rows]] = {}
    for name, module in merged.named_modules():
        match = re.fullmatch(r"model\.layers\.(\d+)\.((?:self_attn|mlp)\.\w+_proj)", name)
        if match is None:
            continue
        rank = 3 + len(modules) % 4
        a, b = torch.randn(rank, module.in_features) * 0.2, torch.randn(module.out_features, rank) * 0.2
        modules[int(match[1]), match[2]] = a.numpy(), (b * 2).numpy()
        with torch.no_grad():
            module.weight += 2 * b @ a
    assert len(modules) == (8 if case.startswith("phi3") else 14)
    ids = tokens(24)
    with torch.no_grad():
        expected = merged(torch.tensor([ids])).logits[0].numpy()
    errors = {}
    for quantization in (FP32, INT8, INT4):
        model, sites = with_adapters(exported(case), quantization)
        packed = pack(PeftAdapter("", modules), sites)
        session = GraphSession(model)
        session.adapter = {
            f"{n}.lora_{h}": t for n, ab in packed.items() for h, t in zip("ab", ab, strict=True)
        }
        rows = np.concatenate([session.run(ids[:9]), session.run(ids[9:10]), session.run(ids[10:])])
        errors[quantization.name] = np.abs(rows - expected).max()
    base = np.abs(exported(case).logits(ids) - expected).max()
    assert errors["fp32"] < 1e-4
    assert errors["int8"] < 0.1 * base and errors["int4"] < 0.7 * base, (errors, base)


def test_a_fixed_rank_must_be_fed(exported: Export) -> None:
    bare = bare_copy(exported("llama"))
    model = add_lora_sites(bare.proto, rank=8)
    sites = lora_sites(model, 32)
    widths = {
        i.name: i.type.tensor_type.shape.dim[1].dim_value for i in model.graph.input if "lora_a" in i.name
    }
    assert widths["layers.0.qkv.lora_a"] == 24 and widths["layers.0.down.lora_a"] == 8  # three parts, and one
    assert sites.rank == 8 and {n.rpartition(".")[2] for n in sites.sites} == {"qkv", "o", "gate_up", "down"}
    session, plain = GraphSession(graph_in(bare, INT8)), GraphSession(exported("llama").quantized(INT8))
    assert not session.session.get_overridable_initializers()
    ids = tokens(9)
    session.adapter = no_adapter(sites)
    assert np.array_equal(session.run(ids), plain.run(ids))
    session.adapter = random_lora(sites, 8, 0)
    assert np.abs(session.at(0, ids) - plain.at(0, ids)).max() > 1e-3
    session.adapter = {}
    with pytest.raises(Exception, match="lora_a"):
        session.at(0, ids)


def with_adapters(exported: Exported, quantization: Quantization) -> tuple[ModelProto, LoraSites]:
    bare, contract = bare_copy(exported), exported.contract
    sites = lora_sites(add_lora_sites(bare.proto), contract.num_kv_heads * contract.head_dim)
    model = graph_in(bare, quantization)
    floats = [node.name for node in model.graph.node if node.op_type == "MatMul" and ".lora_" in node.name]
    assert len(floats) == 2 * len(sites.sites)  # the products of adapters stay in float
    return model, sites


def bare_copy(exported: Exported) -> Skeleton:
    return replace(exported.skeleton, proto=copy_of(exported.skeleton.proto))


def random_lora(sites: LoraSites, rank: int, seed: int) -> dict[str, Rows]:
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, site in sites.sites.items():
        width = rank if sites.rank is None else sites.rank_of(name)
        tensors[f"{name}.lora_a"] = rng.normal(size=(site.inputs, width)).astype(np.float32) * 0.2
        tensors[f"{name}.lora_b"] = rng.normal(size=(width, site.outputs)).astype(np.float32) * 0.2
    return tensors
