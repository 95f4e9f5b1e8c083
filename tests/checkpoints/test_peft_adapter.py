"""`omnidraft adapter convert`: parity with torch and with peft, and the message of each refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from safetensors.torch import save_file

from omnidraft.checkpoints.peft_adapter import MOST_CONFIG, convert, read_peft
from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import MAX_FILE_BYTES, read_adapter
from omnidraft.runtime.session.api import TextSession, load_bundle
from support.command_line import Run, refused
from support.places import STARTERS

Tensors = dict[str, torch.Tensor]
IDS = [5, 9, 77, 300, 41, 8, 1200, 33, 6, 250]
MODULES = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")  # fmt: skip


@pytest.fixture(scope="module")
def opened(bundle: Path) -> Bundle:
    return open_bundle(bundle)


def drafter() -> Any:
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return AutoModelForCausalLM.from_pretrained(STARTERS / "drafter", dtype=torch.float32)


def logits_of(model: Any) -> np.ndarray:
    with torch.no_grad():
        rows: np.ndarray = model(torch.tensor([IDS])).logits[0].numpy()
    return rows


def write(place: Path, tensors: Tensors, **fields: object) -> Path:
    """A directory as peft's save_pretrained leaves it."""
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "init_lora_weights": True,
              "base_model_name_or_path": "somewhere/drafter", **fields}  # fmt: skip
    place.mkdir(exist_ok=True)
    (place / "adapter_config.json").write_text(json.dumps(config))
    save_file(tensors, place / "adapter_model.safetensors")
    return place


def random_tensors(
    model: Any, modules: tuple[str, ...] = MODULES, rank: Callable[[str], int] = lambda path: 4
) -> Tensors:
    torch.manual_seed(3)
    tensors = {}
    for name, module in model.named_modules():
        if name.endswith(modules):
            a, b = torch.randn(rank(name), module.in_features), torch.randn(module.out_features, rank(name))
            tensors[f"base_model.model.{name}.lora_A.weight"] = a * 0.1
            tensors[f"base_model.model.{name}.lora_B.weight"] = b * 0.1
    return tensors


def converted(place: Path, opened: Bundle) -> Adapter:
    entry = opened.drafter
    assert entry.lora is not None and entry.fingerprint is not None
    tokenizers = tuple(str(opened.manifest[r]["tokenizer_fingerprint"]) for r in ("drafter", "target"))
    created = "2026-01-02T03:04:05Z"
    return convert(place, entry.lora, entry.fingerprint, (tokenizers[0], tokenizers[1]), created)[0]


def logits_with(opened: Bundle, adapter: Adapter) -> np.ndarray:
    session = TextSession(load_bundle(opened, threads=1), adapter=adapter)
    with session.exclusive():
        rows: np.ndarray = session.models.drafter.model.score(IDS).copy()
    return rows


def merge(model: Any, tensors: Tensors, scale: Callable[[str, int], float]) -> Any:
    """W + scale * B A, by hand."""
    with torch.no_grad():
        for name, module in model.named_modules():
            a = tensors.get(f"base_model.model.{name}.lora_A.weight")
            if a is not None:
                b = tensors[f"base_model.model.{name}.lora_B.weight"]
                module.weight += scale(name, len(a)) * b.float() @ a.float()
    return model


@pytest.mark.parametrize("rslora", [False, True])
def test_parity_with_weights_merged_by_hand(tmp_path: Path, opened: Bundle, rslora: bool) -> None:
    """All modules, with ranks and alphas by pattern."""
    model = drafter()
    base = logits_of(model)

    def rank(path: str) -> int:
        return 6 if path.endswith("q_proj") else 2 if path == "model.layers.1.mlp.down_proj" else 4

    def scale(path: str, r: int) -> float:
        alpha = 20 if "layers.0." in path and path.endswith("v_proj") else 8
        return float(alpha / (r**0.5 if rslora else r))

    tensors = random_tensors(model, rank=rank)
    place = write(
        tmp_path / "peft", tensors, use_rslora=rslora,
        rank_pattern={"q_proj": 6, "^model.layers.1.mlp.down_proj": 2},
        alpha_pattern={"layers.0.self_attn.v_proj": 20, "^layers.1.self_attn.v_proj": 9},  # ^: of no module
    )  # fmt: skip
    expected = logits_of(merge(model, tensors, scale))
    actual = logits_with(opened, converted(place, opened))
    assert np.abs(actual - expected).max() < 1e-4
    assert np.abs(expected - base).max() > 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_parity_of_some_modules_in_half_precision(tmp_path: Path, opened: Bundle, dtype: torch.dtype) -> None:
    model = drafter()
    tensors = {n: t.to(dtype) for n, t in random_tensors(model, ("q_proj", "v_proj", "up_proj")).items()}
    adapter = converted(write(tmp_path / "peft", tensors), opened)
    assert {s.rpartition(".")[2] for s in adapter.tensors} == {"qkv", "gate_up"}
    assert adapter.tensors["layers.0.qkv"][0].shape[1] == 8 and adapter.rank == 8  # of q and of v
    expected = logits_of(merge(model, tensors, lambda path, r: 8 / r))
    assert np.abs(logits_with(opened, adapter) - expected).max() < 1e-4


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft asks it
def test_parity_with_peft_itself(tmp_path: Path, opened: Bundle) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed; the merge by hand is compared above")
    config = peft.LoraConfig(
        r=4, lora_alpha=16, target_modules=["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"],
        rank_pattern={"o_proj": 3}, alpha_pattern={"gate_proj": 5}, init_lora_weights="gaussian",
        task_type="CAUSAL_LM",
    )  # fmt: skip
    model = peft.get_peft_model(drafter(), config).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(tmp_path / "peft")
    actual = logits_with(opened, converted(tmp_path / "peft", opened))
    assert np.abs(actual - logits_of(model)).max() < 1e-4


def test_the_command_writes_an_adapter_that_inspect_reads(run: Run, bundle: Path, tmp_path: Path) -> None:
    place = write(tmp_path / "peft", random_tensors(drafter(), ("o_proj",)))
    out = tmp_path / "mine.safetensors"
    code, output, error = run("adapter", "convert", place, bundle, "-o", out)
    assert (code, error) == (0, "")
    layers = open_bundle(bundle).drafter.kv.num_layers
    assert output.startswith(f"{out}: rank 4 at {layers} products (o), ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.safetensors", "peft"]
    refused(run("adapter", "convert", place, bundle, "-o", out), "exists already; choose another place")
    code, output, _ = run("inspect", out, "--bundle", bundle)
    assert code == 0 and f"fits the drafter of {bundle}" in output
    facts = json.loads(run("inspect", out, "--json")[1])
    assert (facts["rank"], facts["targets"], facts["sites"]) == (4, ["o"], layers)
    assert facts["digest"] == read_adapter(out).digest


def test_the_command_says_when_peft_names_another_base(run: Run, bundle: Path, tmp_path: Path) -> None:
    place = write(
        tmp_path / "peft", random_tensors(drafter(), ("o_proj",)), base_model_name_or_path="x/other"
    )
    code, _, error = run("adapter", "convert", place, bundle, "-o", tmp_path / "a.safetensors")
    assert code == 0 and "trained on x/other and the bundle's drafter is drafter" in error


def test_what_the_command_refuses(run: Run, bundle: Path, tmp_path: Path) -> None:
    """The command prints one sentence and writes nothing."""
    out = tmp_path / "a.safetensors"
    dora = write(tmp_path / "dora", random_tensors(drafter(), ("o_proj",)), use_dora=True)
    for arguments, words in (
        (
            (dora, bundle, "-o", out),
            "uses use_dora = True, which cannot be converted; train one without use_dora",
        ),
        ((tmp_path / "none", bundle, "-o", out), "adapter_config.json cannot be read"),
        ((dora, bundle, "-o", out, "--role", "both"), '--role "both" is unknown; use drafter or target'),
        ((dora, tmp_path / "nowhere", "-o", out), "no bundle at"),
    ):
        code, output, error = run("adapter", "convert", *arguments)
        assert (code, output, error.count("\n")) == (1, "", 1) and words in error, error
    (tmp_path / "no.safetensors").write_text("{}")
    code, _, error = run("inspect", tmp_path / "no.safetensors")
    assert code == 1 and "no.safetensors is refused" in error
    assert not out.exists()


def o_proj(rows: int = 4, wide: int = 160) -> Tensors:
    """The tensors of one module."""
    name = "base_model.model.model.layers.0.self_attn.o_proj"
    return {f"{name}.lora_A.weight": torch.ones(rows, wide), f"{name}.lora_B.weight": torch.ones(wide, rows)}


PREFIX = "base_model.model.model.layers.0.self_attn.o_proj"
REFUSED: list[tuple[str, Tensors, dict[str, object], str]] = [
    ("unsupported", o_proj(), {"peft_type": "IA3"}, "uses an adapter of type 'IA3', which cannot"),
    ("unsupported", o_proj(), {"use_dora": True}, "uses use_dora = True"),
    ("unsupported", o_proj(), {"modules_to_save": ["lm_head"]}, "uses modules_to_save = ['lm_head']"),
    ("unsupported", o_proj(), {"bias": "all"}, "uses bias = 'all', which cannot be converted;"),
    ("unsupported", o_proj(), {"lora_bias": True}, "uses lora_bias = True"),
    ("unsupported", o_proj(), {"init_lora_weights": "pissa"}, "'pissa', which changed the weights of the"),
    ("unsupported", o_proj(), {"layer_replication": [[0, 2]]}, "uses layer_replication"),
    ("unsupported", {**o_proj(), f"{PREFIX}.lora_magnitude_vector": torch.ones(2)}, {}, "uses DoRA ("),
    ("unsupported", {"base_model.model.model.embed_tokens.lora_embedding_A": torch.ones(2, 3)}, {},
     "uses LoRA of the embedding ("),
    ("unsupported", {"base_model.model.lm_head.lora_A.weight": torch.ones(4, 160)}, {},
     "LoRA of the LM head"),
    ("unsupported", {**o_proj(), f"{PREFIX}.bias": torch.ones(2)}, {}, "uses trained biases ("),
    ("unsupported", {f"{PREFIX[:-6]}query.lora_A.weight": torch.ones(4, 160)}, {},
     "uses a tensor 'base_model"),
    ("unsupported", o_proj(), {"rank_pattern": {"(a+)+b": 3}},
     "rank_pattern holds '(a+)+b', which is not the name of a module; name the modules in rank_pattern"),
    ("unsupported", {**o_proj(), **{n.replace("l.lay", "l.tower.lay"): t for n, t in o_proj().items()}},
     {}, "uses LoRA of two stacks of layers (model.layers.0.self_attn.o_proj and "
     "model.tower.layers.0.self_attn.o_proj), which cannot be converted; train one on one stack"),
    ("unsupported", {f"{PREFIX}.lora_A.weight": torch.ones(4, 160),
                     f"{PREFIX.replace('model.layers', 'tower.layers')}.lora_B.weight": torch.ones(160, 4)},
     {}, "uses LoRA of two stacks of layers ("),
    ("missing_tensor", {f"{PREFIX}.lora_A.weight": torch.ones(4, 160)}, {}, "has no lora_B of model."),
    ("rank", o_proj(3), {}, "gives model.layers.0.self_attn.o_proj r = 4 and stores [3, 160] and [160, 3]"),
    ("rank", o_proj(), {"lora_alpha": None}, "lora_alpha = None"),
    ("dtype", {n: t.double() for n, t in o_proj().items()}, {}, "as F64; save it as F32, F16 or BF16"),
    ("shape", o_proj(wide=32), {}, "does not fit the bundle: layers.0.o goes from 32 to 32 values"),
    ("extra_tensor", {n.replace("s.0", "s.99"): t for n, t in o_proj().items()}, {},
     "it adapts layers.99.o, which the bundle's model does not have"),
    ("non_finite", {n: t * float("nan") for n, t in o_proj().items()}, {}, "not finite; train it again"),
    ("non_finite", o_proj(), {"lora_alpha": 1e300}, "not finite; train it again"),
    ("shape", {n.replace("o_proj", "k_proj"): t for n, t in o_proj(wide=90).items()}, {},
     "its k of layers.0.qkv goes from 90 to 90 values and the model's from 160 to 160"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "tensors", "fields", "words"), REFUSED)
def test_what_cannot_be_converted_is_refused_in_a_sentence(
    fault: str, tensors: Tensors, fields: dict[str, object], words: str, tmp_path: Path, opened: Bundle
) -> None:
    place = write(tmp_path / "peft", {n: t.contiguous() for n, t in tensors.items()}, **fields)
    with pytest.raises(AdapterError) as caught:
        converted(place, opened)
    assert words in str(caught.value) and "\n" not in str(caught.value), str(caught.value)
    assert caught.value.fault == fault


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    place = write(tmp_path / "peft", o_proj())
    whole = (place / "adapter_model.safetensors").read_bytes()
    for content, words in ((whole[:-1], "is not a whole safetensors file"), (whole[:4], "is not a whole")):
        (place / "adapter_model.safetensors").write_bytes(content)
        with pytest.raises(AdapterError, match=words):
            read_peft(place)
    (place / "adapter_model.safetensors").unlink()
    (place / "adapter_model.bin").write_bytes(b"")
    with pytest.raises(AdapterError, match=r"only adapter_model\.bin; save it with safe_serialization=True"):
        read_peft(place)
    (place / "adapter_config.json").write_text("[]")
    with pytest.raises(AdapterError, match=r"adapter_config\.json cannot be read"):
        read_peft(place)


def test_a_pattern_of_a_download_is_no_regular_expression(tmp_path: Path) -> None:
    """As one it would be tried for ever: each `a` of a path doubles the ways."""
    tensors = {n.replace("model.layers", "a" * 24 + ".layers"): t for n, t in o_proj().items()}
    place = write(tmp_path / "peft", tensors, alpha_pattern={"(a+)+.*b": 3})
    with pytest.raises(AdapterError, match=r"alpha_pattern holds '\(a\+\)\+\.\*b', which is not the name"):
        read_peft(place)


@pytest.mark.parametrize(
    ("name", "most"), [("adapter_config.json", MOST_CONFIG), ("adapter_model.safetensors", MAX_FILE_BYTES)]
)
def test_a_file_of_any_size_is_not_read(name: str, most: int, tmp_path: Path) -> None:
    place = write(tmp_path / "peft", o_proj())
    with (place / name).open("r+b") as file:
        file.truncate(most + 1)  # without contents
    with pytest.raises(AdapterError, match=rf"{name} cannot be read \(it has more than {most} bytes\); "):
        read_peft(place)


def test_a_module_in_parts_and_whole(tmp_path: Path, opened: Bundle) -> None:
    tensors = {**o_proj(), **{n.replace("o_proj", "qkv_proj"): t for n, t in o_proj().items()}}
    tensors |= {n.replace("o_proj", "q_proj"): t for n, t in o_proj().items()}
    place = write(tmp_path / "peft", {n: t.clone() for n, t in tensors.items()})
    with pytest.raises(AdapterError, match=r"adapts layers\.0\.qkv as a whole and in parts"):
        converted(place, opened)
