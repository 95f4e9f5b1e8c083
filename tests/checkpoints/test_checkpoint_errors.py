"""Every refusal of a checkpoint is one sentence with the value and the remedy."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from omnidraft.checkpoints.checkpoint import load_model, read_checkpoint  # noqa: E402
from omnidraft.checkpoints.compile_template import template_in  # noqa: E402
from omnidraft.checkpoints.refusals import MOST_JSON, SUPPORTED  # noqa: E402
from omnidraft.errors import CheckpointError  # noqa: E402
from omnidraft.runtime.bundle.jinja_template import MOST_BYTES  # noqa: E402
from support.closed_directory import closed  # noqa: E402

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 40,
    "max_position_embeddings": 64,
}
WEIGHTS = "model.safetensors"
SENTENCE = re.compile(r"[^\n]+; [^\n]+")  # what is wrong; the remedy


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=1, bos_token_id=1, eos_token_id=2)
    transformers.utils.logging.disable_progress_bar()
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


def refusal(name: str) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_model(read_checkpoint(name))
    assert SENTENCE.fullmatch(str(caught.value)), caught.value
    return str(caught.value)


def configure(directory: Path, **values: Any) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_directory_without_permission(tmp_path: Path) -> None:
    directory = tmp_path / "closed"
    directory.mkdir()
    for name in (f"{directory}", f"{directory}/model", f"{directory}/model.gguf"):
        with closed(directory):
            assert "cannot be read (Permission denied); check the path and its perm" in refusal(name)


def test_shape(directory: Path) -> None:
    (directory / "generation_config.json").write_text('{"eos_token_id": [2, 7], "pad_token_id": 3}')
    shape = read_checkpoint(str(directory)).shape
    assert (shape.vocab_size, shape.num_layers, shape.num_kv_heads, shape.head_dim) == (40, 1, 1, 16)
    assert (shape.hidden_size, shape.max_positions) == (32, 64)
    assert (shape.eos_ids, shape.bos_id, shape.pad_id) == ((2, 7), 1, 3)
    (directory / "generation_config.json").write_text('{"eos_token_id": -1, "bos_token_id": -1}')
    shape = read_checkpoint(str(directory)).shape
    assert (shape.eos_ids, shape.bos_id) == ((), None), "-1 is the id of no token"


def test_a_model_is_float32_and_silent(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tensors = {name: tensor.bfloat16() for name, tensor in load_file(directory / WEIGHTS).items()}
    save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})
    model = load_model(read_checkpoint(str(directory)))
    assert not model.training
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert capfd.readouterr() == ("", "")


def truncate(directory: Path, count: int) -> None:
    content = (directory / WEIGHTS).read_bytes()
    (directory / WEIGHTS).write_bytes(content[:count])


def lose_weight(directory: Path) -> None:
    tensors = load_file(directory / WEIGHTS)
    del tensors["model.norm.weight"]
    save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})


def lose_shard(directory: Path) -> None:
    index = {"metadata": {}, "weight_map": {"a": WEIGHTS, "b": "model-2.safetensors"}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


ENCODER = {"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True, "model_type": "t5"}
PROPORTIONAL = {"rope_theta": 1e4, "rope_type": "proportional", "partial_rotary_factor": 0.5}
GEMMA3 = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "head_dim": 16}
CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda d: (d / "config.json").unlink(), r"has no config\.json; give a directory"),
    "config not JSON": (lambda d: (d / "config.json").write_text("{"), r"config\.json is not JSON"),
    "config too deep": (
        lambda d: (d / "config.json").write_text("[" * 200_000),
        r"config\.json is not JSON \(maximum recursion depth.*; download it again",
    ),
    "config too large": (
        lambda d: os.truncate(d / "config.json", MOST_JSON + 1),
        rf"config\.json cannot be read \(it has more than {MOST_JSON} bytes\); download it again",
    ),
    "config a list": (lambda d: (d / "config.json").write_text("[]"), r"config\.json is not a JSON object"),
    "no weights": (lambda d: (d / WEIGHTS).unlink(), r"has no weights; it needs one of model\.safetensors"),
    "no tokenizer": (
        lambda d: (d / "tokenizer.json").unlink(),
        r"has no tokenizer\.json; load its tokenizer",
    ),
    "half the weights": (
        lambda d: truncate(d, 3000),
        r"not a whole safetensors file \(3000 bytes: .*download",
    ),
    "empty weights": (lambda d: truncate(d, 0), r"not a whole safetensors file \(0 bytes: .*download"),
    "a weight missing": (
        lose_weight,
        r"lacks 1 of the weights of LlamaForCausalLM, model\.norm\.weight first",
    ),
    "an eos beyond the vocabulary": (
        lambda d: (d / "generation_config.json").write_text('{"eos_token_id": [2, 40]}'),
        r"eos_token_id is 40, which is no id of its 40 tokens; correct it",
    ),
    "a bos that is a word": (
        lambda d: (d / "generation_config.json").write_text('{"bos_token_id": "<s>"}'),
        r"bos_token_id is '<s>', which is no id",
    ),
    "quantised in a word": (lambda d: configure(d, quantization_config="awq"), r"already quantised \(awq\)"),
    "an index of a list": (
        lambda d: (d / "model.safetensors.index.json").write_text('{"weight_map": []}'),
        r"weight_map of model\.safetensors\.index\.json is no object; download",
    ),
    "a shard missing": (lose_shard, r"lacks model-2\.safetensors, one of its 2 weight files; download"),
    "other sizes": (
        lambda d: configure(d, vocab_size=50),
        r"stores .* as \(40, 32\) and its config\.json means \(50, 32\)",
    ),
    "unsupported": (
        lambda d: configure(d, architectures=["GPT2LMHeadModel"]),
        rf"is GPT2LMHeadModel, which is not supported; use one of {', '.join(SUPPORTED)}$",
    ),
    "no architecture": (
        lambda d: configure(d, architectures=None),
        r"is a model without an architecture, which is not",
    ),
    "encoder-decoder": (
        lambda d: configure(d, **ENCODER),
        r"is T5ForCond\w+, an encoder-decoder; use a decoder",
    ),
    "quantised": (
        lambda d: configure(d, quantization_config={"quant_method": "gptq"}),
        r"already quantised \(gptq\); give the original checkpoint",
    ),
    "rope type": (
        lambda d: configure(d, rope_parameters=PROPORTIONAL),
        r"scales its positions by proportional, which is not supported; use a checkpoint with one of",
    ),
    "partial rotary": (
        lambda d: configure(
            d, rope_parameters={"rope_theta": 1e4, "rope_type": "default", "partial_rotary_factor": 0.5}
        ),
        r"rotates 8 of the 16 values of each head and onnxruntime takes multiples of 16; use another",
    ),
    "both ways": (
        lambda d: configure(d, **GEMMA3, use_bidirectional_attention=True),
        r"lets tokens see later ones \(use_bidirectional_attention\), so it does not write text; use a",
    ),
    "head size": (
        lambda d: configure(d, head_dim=20),
        r"heads of 20 values and onnxruntime takes multiples of 16",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_directory_is_refused_in_one_sentence(
    directory: Path, case: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    spoil, expected = CASES[case]
    spoil(directory)
    message = refusal(str(directory))
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert str(directory) in message
    assert re.search(expected, message), message


@pytest.mark.parametrize("name", ["AutoConfig", "AutoModelForCausalLM"])
def test_code_of_a_directory_is_never_run(
    directory: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is asked, whatever waits on the standard input."""
    marker = directory / "it-ran"
    (directory / "own.py").write_text(f"open({str(marker)!r}, 'w')\nclass Own: pass\n")
    # transformers knows the second configuration, but no causal language model of it
    kind = {"AutoConfig": "unheard", "AutoModelForCausalLM": "clip_text_model"}[name]
    configure(directory, model_type=kind, auto_map={name: "own.Own"})
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    refusal(str(directory))
    assert not marker.exists()


def test_a_chat_template_of_any_size_is_not_read(directory: Path) -> None:
    (directory / "chat_template.jinja").write_text("x" * (MOST_BYTES + 1))
    with pytest.raises(CheckpointError, match=rf"jinja cannot be read \(it has more than {MOST_BYTES} bytes"):
        template_in(directory)


@pytest.mark.parametrize("name", ["./nothing", "nothing/at/all", "~/nothing-there", "a b"])
def test_a_local_path_that_is_not_there(name: str) -> None:
    assert refusal(name) == f"there is no directory {name}; check the path"


@pytest.mark.parametrize("name", ["nobody/nothing", "nothing"])
def test_a_hub_id_that_does_not_come(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that cannot be reached says nothing of the name; one that answers does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert refusal(name) == (
        f"{name} is no directory here, and the Hugging Face hub cannot be reached; check the path, or the "
        "connection (HF_HUB_OFFLINE forbids it)"
    )

    def unknown(*_: object, **__: object) -> None:
        raise OSError("404 Client Error: Repository Not Found")

    monkeypatch.setattr("huggingface_hub.snapshot_download", unknown)
    assert refusal(name) == (
        f"{name} is neither a directory here nor a model that the Hugging Face hub provides; check the name "
        "and, for a gated model, the login"
    )


def test_a_lora_adapter_names_its_base_model(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "some/base\\u001b[2J"}')
    message = refusal(str(tmp_path))
    assert message.startswith(
        f"{tmp_path} is a LoRA adapter of some/base\\x1b[2J, and holds no model; export"
    )
    assert "omnidraft adapter convert" in message
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    assert "is a LoRA adapter of the model that it was trained on" in refusal(str(tmp_path))
