"""The adaptive head in the exported graph: parity with torch, and no change if the head is not fed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from onnx import ModelProto  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from benchmarks.support.small_models import save_small_model  # noqa: E402
from omnidraft.checkpoints.checkpoint import read_checkpoint  # noqa: E402
from omnidraft.errors import ExportError  # noqa: E402
from omnidraft.export.graph.contract import GraphContract  # noqa: E402
from omnidraft.export.graph.head_output import add_head  # noqa: E402
from omnidraft.export.graph.lora_inputs import add_lora_sites  # noqa: E402
from omnidraft.export.graph.write import write_graph  # noqa: E402
from omnidraft.export.quantize.cpu import export_cpu  # noqa: E402
from omnidraft.export.quantize.quantize import FP32, INT4, INT8, Quantization, quantize  # noqa: E402
from omnidraft.runtime.bundle.bundle import open_bundle  # noqa: E402
from omnidraft.runtime.bundle.head import Head, HeadShape  # noqa: E402
from omnidraft.runtime.bundle.model_entry import KvShape  # noqa: E402
from omnidraft.runtime.models.ort_model import OrtModel  # noqa: E402
from omnidraft.training.head.head import AcceptanceHead, head_of, load_head  # noqa: E402
from support.command_line import Run  # noqa: E402
from support.places import STARTERS  # noqa: E402

FAMILIES = ("llama, biases, yarn", "qwen2", "granite", "gemma3", "gpt-neox")  # tied, scaled, capped, packed
IDS = [5, 9, 17, 3, 250, 42, 8, 8, 91, 60, 12, 7]
Make = Callable[..., OrtModel]


@pytest.fixture(scope="module")
def small(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], tuple[Path, ModelProto, GraphContract]]:
    made: dict[str, tuple[Path, ModelProto, GraphContract]] = {}

    def make(name: str) -> tuple[Path, ModelProto, GraphContract]:
        if name not in made:
            directory = save_small_model(name, tmp_path_factory.mktemp("model"))
            made[name] = directory, *export_cpu(read_checkpoint(str(directory)), 64, FP32)
        return made[name]

    return make


@pytest.fixture
def graph(small: Any, tmp_path: Path) -> Make:
    """The graph of a small model with LoRA sites and a head of `blocks` blocks (0: no head)."""

    def make(name: str, blocks: int, quantization: Quantization = FP32) -> OrtModel:
        _, proto, contract = small(name)
        model = ModelProto()
        model.CopyFrom(proto)
        if name != "gpt-neox":
            add_lora_sites(model)
        if blocks:
            assert add_head(model, 64, blocks) == HeadShape(64, blocks)
        file = tmp_path / f"{blocks}-{quantization.name}.onnx"
        write_graph(quantize(model, quantization), file, external_above=1000)  # with a file of weights
        kv = KvShape(contract.num_layers, contract.num_kv_heads, contract.head_dim, contract.max_length)
        return OrtModel(file, kv, contract.vocab_size)

    return make


def random_head(blocks: int, seed: int = 0, hidden: int = 64) -> AcceptanceHead:
    torch.manual_seed(seed)
    head = AcceptanceHead(hidden, blocks)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn_like(parameter) / hidden**0.5)
    return head


@pytest.mark.parametrize("name", FAMILIES)
def test_acceptance_equals_torchs(small: Any, graph: Make, name: str) -> None:
    """The acceptance of the token that each position read, as a block and token by token."""
    blocks = 1 + len(name) % 3
    head = random_head(blocks)
    torch_model: Any = AutoModelForCausalLM.from_pretrained(small(name)[0], dtype=torch.float32)
    torch_model.eval()
    with torch.no_grad():
        hidden = torch_model(torch.tensor([IDS]), output_hidden_states=True).hidden_states[-1][0]
        expected = torch.sigmoid(head(hidden)).numpy()
    assert expected.std() > 0.01
    model = graph(name, blocks)
    model.use_adapter(head_of(head).tensors)
    differences = []
    model.score(IDS[:4])
    differences.append(model.acceptance - expected[3])
    for at, token in enumerate(IDS[4:], 4):
        model.score([token])
        differences.append(model.acceptance - expected[at])
    model.rewind(2)
    model.score(IDS[2:], 1)
    differences.append(model.acceptance - expected[-1])
    print(f"{name}: largest difference {np.abs(differences).max():.1e}")
    assert np.abs(differences).max() < 1e-4


@pytest.mark.parametrize("quantization", [FP32, INT8, INT4], ids=lambda q: q.name)
def test_a_head_that_is_not_fed_changes_nothing(graph: Make, quantization: Quantization) -> None:
    """The logits are the same to the last bit and acceptance is 1, also after a head came and went."""
    plain, headed = graph("qwen2", 0, quantization), graph("qwen2", 1, quantization)
    expected = plain.score(IDS).copy()
    assert np.array_equal(headed.score(IDS), expected) and plain.acceptance == headed.acceptance == 1.0
    headed.use_adapter(head_of(random_head(1)).tensors)
    headed.rewind(0)
    assert np.array_equal(headed.score(IDS), expected) and headed.acceptance != 1.0
    headed.use_adapter({})
    headed.rewind(0)
    assert np.array_equal(headed.score(IDS), expected) and headed.acceptance == 1.0


def test_a_head_of_no_blocks_is_refused(small: Any) -> None:
    for blocks in (0, 4):
        with pytest.raises(ExportError, match=f"a head of {blocks} blocks is outside 1..3"):
            add_head(small("llama")[1], 64, blocks)


def test_there_and_back() -> None:
    """Torch -> the adapter's tensors -> torch."""
    head = random_head(3)
    adapter_head = head_of(head)
    assert isinstance(adapter_head, Head) and adapter_head.shape == HeadShape(64, 3)
    again = AcceptanceHead(64, 3)
    load_head(again, adapter_head)
    assert all(torch.equal(a, b) for a, b in zip(head.parameters(), again.parameters(), strict=True))
    untrained = head_of(AcceptanceHead(64, 2)).tensors
    default = HeadShape(64, 2).untrained()
    assert untrained.keys() == default.keys()
    assert all(np.array_equal(untrained[n], default[n]) for n in default)


def test_the_manifest_says_what_head_there_is(bundle: Path) -> None:
    opened = open_bundle(bundle)
    assert opened.drafter.head == HeadShape(160, 1) and opened.target.head is None


def test_options_that_contradict(run: Run, tmp_path: Path) -> None:
    code, _, error = run(
        "export",
        STARTERS / "a",
        "-d",
        STARTERS / "drafter",
        "-o",
        tmp_path / "b",
        "--no-head",
        "--head-blocks",
        2,
    )
    assert code == 1 and "--head-blocks 2 and --no-head contradict each other" in error
    code, _, error = run(
        "export", STARTERS / "a", "-d", STARTERS / "drafter", "-o", tmp_path / "b", "--head-blocks", 4
    )
    assert code == 1 and "a head of 4 blocks is outside 1..3" in error
    assert not (tmp_path / "b").exists()
