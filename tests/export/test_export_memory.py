"""Export with little memory: the report names checks that were left out; weights keep their stored type."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from omnidraft.checkpoints.checkpoint import load_stored, read_checkpoint  # noqa: E402
from omnidraft.export.bundle import export_bundle  # noqa: E402
from omnidraft.export.export_memory import peak_bytes  # noqa: E402
from omnidraft.export.options import Options  # noqa: E402
from omnidraft.export.quantize.quantization import INT4, INT8  # noqa: E402
from omnidraft.runtime.session.api import load  # noqa: E402
from support.places import STARTERS  # noqa: E402

WIDTH = 8192 + 128  # of the logits; the tokenizer has 8,192 tokens


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Gemma 2 of six layers with a starter's tokenizer and more logits than tokens."""
    directory = tmp_path_factory.mktemp("wide")
    config = transformers.Gemma2Config(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        query_pre_attn_scalar=16,
        sliding_window=24,
        vocab_size=WIDTH,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=None,
    )
    transformers.utils.logging.disable_progress_bar()
    transformers.AutoModelForCausalLM.from_config(config).bfloat16().save_pretrained(directory)
    shutil.copyfile(STARTERS / "a/tokenizer.json", directory / "tokenizer.json")
    return directory


def test_checks_that_memory_does_not_allow_are_told(wide: Path, tmp_path: Path) -> None:
    """With room for three of the six layers, two are compared: a part is a multiple of the period."""
    outside, layer = WIDTH * 64, 4 * 64 * 64 + 2 * 2 * 64 * 16 + 3 * 64 * 128
    room = 4 * (outside + 3 * layer) + 10_000
    report = export_bundle(
        str(wide),
        str(STARTERS / "drafter"),
        tmp_path / "out",
        Options(INT8, max_length=128, check_memory=room),
    )
    first, second = report.limits
    assert first.startswith("the target's float32 graph was compared with torch in its first 2 of 6 layers")
    assert second.startswith("the drafter's float32 graph was compared with torch in its first 1 of ")
    for parity in report.parity.values():
        assert parity["fp32"].max_difference < 1e-4
        assert parity["fp32"].positions == parity["int8"].positions
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["checks"]["limits"] == list(report.limits)
    assert manifest["target"]["vocab_size"] == WIDTH
    assert manifest["target"]["kv"]["num_layers"] == 6
    assert not (tmp_path / "out/fp32").exists()
    answer = load(tmp_path / "out").generate("How many?", max_new_tokens=4)
    assert "".join(piece.text for piece in answer) == answer.text
    assert max(answer.token_ids) < 8192


def test_a_whole_check_has_no_limits(wide: Path, tmp_path: Path) -> None:
    options = Options(INT4, max_length=128, check_memory=1 << 40, external_above=1000)
    report = export_bundle(str(wide), str(STARTERS / "drafter"), tmp_path / "out", options)
    assert report.limits == ()
    assert report.parity["target"]["fp32"].max_difference < 1e-4
    assert report.seconds > 0
    peak = peak_bytes()
    assert peak is None or (report.peak_bytes is not None and 1 << 27 < report.peak_bytes <= peak)
    assert json.loads(json.dumps({**asdict(report), "path": ""}))["limits"] == []
    files = {file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("*.data")}
    assert files == {"target/cpu/model.onnx.data", "drafter/cpu/model.onnx.data"}


@pytest.mark.parametrize(
    ("kind", "loaded"), [("bfloat16", "bfloat16"), ("float16", "float16"), ("mixed", "float32")]
)
def test_weights_are_loaded_as_they_are_stored(wide: Path, tmp_path: Path, kind: str, loaded: str) -> None:
    """Mixed types are loaded as float32 and not as config.json says: rounding would change the model."""
    import torch

    shutil.copytree(wide, tmp_path, dirs_exist_ok=True)
    tensors: dict[str, Any] = load_file(tmp_path / "model.safetensors")
    for place, name in enumerate(tensors):
        tensors[name] = tensors[name].to(
            getattr(torch, kind) if kind != "mixed" else (torch.float32, torch.bfloat16)[place % 2]
        )
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    model = load_stored(read_checkpoint(str(tmp_path)))
    assert {str(parameter.dtype) for parameter in model.parameters()} == {f"torch.{loaded}"}
