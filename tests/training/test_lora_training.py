"""LoRA in torch: which parameters are trained, and that a session adds exactly the trained term."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Phi3Config, Phi3ForCausalLM  # noqa: E402

from omnidraft.errors import AdapterError, SettingError  # noqa: E402
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site  # noqa: E402
from omnidraft.runtime.models.adapter_file import read_adapter, write_adapter  # noqa: E402
from omnidraft.runtime.session.api import TextSession, load_bundle  # noqa: E402
from omnidraft.training.lora import LoraLinear, add_lora, lora_modules, to_adapter  # noqa: E402
from omnidraft.training.merge import add  # noqa: E402
from support.places import STARTERS  # noqa: E402

SIZES: dict[str, Any] = {
    "vocab_size": 20, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
IDS = [[3, 5, 7, 11, 2]]
TOKENIZERS = "d" * 64, "e" * 64
CREATED = "2026-01-02T03:04:05Z"


def llama(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(**SIZES))


def sites(packed_mlp: int = 24) -> LoraSites:
    by_name: dict[str, Site] = {}
    for i in range(2):
        by_name |= {
            f"layers.{i}.qkv": Site(16, (("q", 16), ("k", 8), ("v", 8))),
            f"layers.{i}.o": Site(16, (("o", 16),)),
            f"layers.{i}.gate_up": Site(16, (("gate", packed_mlp), ("up", packed_mlp))),
            f"layers.{i}.down": Site(packed_mlp, (("down", 16),)),
        }
    return LoraSites(None, by_name)


def learned(model: Any, rank: int = 3, alpha: float = 8.0, seed: int = 1) -> Any:
    """A model with LoRA whose B is not zero."""
    add_lora(model, rank, alpha, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in lora_modules(model).values():
            each.lora_b.copy_(torch.randn(each.lora_b.shape, generator=generator) * 0.1)
    return model


def logits(model: Any, ids: list[list[int]] | None = None) -> Any:
    with torch.no_grad():
        return model(torch.tensor(ids or IDS)).logits[0]


def test_all_linears_of_the_layers_are_adapted_and_nothing_else_learns() -> None:
    model = llama()
    before = logits(model)
    parameters = add_lora(model, 4)
    assert len(lora_modules(model)) == 7 * 2 and len(parameters) == 2 * 7 * 2
    names = [n for n, p in model.named_parameters() if p.requires_grad]
    assert all(n.endswith((".lora_a", ".lora_b")) for n in names)
    assert not isinstance(model.lm_head, LoraLinear)
    assert torch.equal(logits(model), before)  # B begins at zero
    model(torch.tensor(IDS)).logits.sum().backward()
    assert all(p.grad is not None for p in parameters)
    assert model.model.layers[0].self_attn.q_proj.base.weight.grad is None


@pytest.mark.parametrize("rank", [1, 8, 64])
def test_there_and_back(rank: int, tmp_path: Path) -> None:
    """Trained model -> adapter file -> new model: the same logits, also with packed q, k, v and gate, up."""
    model = learned(llama(), rank)
    adapter = to_adapter(model, sites(), "a" * 64, TOKENIZERS, CREATED)
    assert adapter.rank == 3 * rank
    file = tmp_path / "mine.safetensors"
    write_adapter(file, adapter)
    fresh = llama()
    add(fresh, read_adapter(file))
    assert torch.allclose(logits(fresh), logits(model), atol=1e-5)
    assert not torch.allclose(logits(fresh), logits(llama()), atol=1e-3)


def test_a_packed_projection_is_one_part() -> None:
    torch.manual_seed(0)
    model: Any = learned(Phi3ForCausalLM(Phi3Config(**SIZES, bos_token_id=1, eos_token_id=2)))
    adapter = to_adapter(model, sites(), "a" * 64, TOKENIZERS, CREATED)
    assert adapter.tensors["layers.0.qkv"][0].shape == (16, 3)
    torch.manual_seed(0)
    fresh: Any = Phi3ForCausalLM(Phi3Config(**SIZES, bos_token_id=1, eos_token_id=2))
    add(fresh, adapter)
    assert torch.allclose(logits(fresh), logits(model), atol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    model = learned(llama())
    with pytest.raises(AdapterError, match="to 24 values and the model's"):
        to_adapter(model, sites(packed_mlp=25), "a" * 64, TOKENIZERS, CREATED)
    with pytest.raises(SettingError, match="LoRA rank 0"):
        add_lora(llama(), 0)
    with pytest.raises(SettingError, match="LoRA already"):
        add_lora(model, 4)
    with pytest.raises(SettingError, match="Linear has no linear"):
        add_lora(torch.nn.Linear(2, 2), 4)


def test_a_session_adds_what_was_trained(bundle: Path) -> None:
    """The logits of torch with LoRA equal those of the exported graph with the adapter."""
    loaded = load_bundle(bundle, threads=1)
    entry = loaded.bundle.drafter
    assert entry.lora is not None and entry.fingerprint is not None
    model: Any = AutoModelForCausalLM.from_pretrained(STARTERS / "drafter", dtype=torch.float32)
    learned(model, rank=8, alpha=32.0)
    tokenizers = loaded.vocab_map.draft_fingerprint, loaded.vocab_map.target_fingerprint
    adapter = to_adapter(model, entry.lora, entry.fingerprint, tokenizers, CREATED)
    session = TextSession(loaded)
    plain = session.generate("How many legs do 3 cats have?", max_new_tokens=12).finish()
    session.use_adapter(adapter)
    adapted = session.generate("How many legs do 3 cats have?", max_new_tokens=12).finish()
    assert adapted.token_ids == plain.token_ids  # a drafter's adapter does not change the text
    ids = list(range(40, 64))
    session.models.drafter.model.rewind(0)
    rows = session.models.drafter.model.score(ids)
    expected = logits(model, [ids]).numpy()
    assert np.abs(rows - expected).max() < 2e-4
    base: Any = AutoModelForCausalLM.from_pretrained(STARTERS / "drafter", dtype=torch.float32)
    assert np.abs(rows - logits(base, [ids]).numpy()).max() > 0.1
