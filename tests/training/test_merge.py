"""An adapter folded into its checkpoint: the same model as with the adapter beside it, and errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_lora_training import CREATED, SIZES, TOKENIZERS, learned, llama, logits, sites  # noqa: E402
from transformers import AutoModelForCausalLM, Phi3Config, Phi3ForCausalLM  # noqa: E402

from omnidraft.checkpoints.checkpoint import load_model, read_checkpoint  # noqa: E402
from omnidraft.checkpoints.fingerprint import fingerprint  # noqa: E402
from omnidraft.checkpoints.write_checkpoint import write_checkpoint  # noqa: E402
from omnidraft.commands.starters import starter  # noqa: E402
from omnidraft.errors import AdapterError  # noqa: E402
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site  # noqa: E402
from omnidraft.runtime.models.adapter import Adapter  # noqa: E402
from omnidraft.runtime.models.adapter_file import write_adapter  # noqa: E402
from omnidraft.training.lora import to_adapter  # noqa: E402
from omnidraft.training.merge import add  # noqa: E402
from support.command_line import Run  # noqa: E402
from support.toy_step import toy_checkpoint  # noqa: E402


def phi() -> Any:
    torch.manual_seed(0)
    return Phi3ForCausalLM(Phi3Config(**SIZES))


def packed() -> LoraSites:
    """The sites of a model whose checkpoint has one product for q, k, v and one for gate, up."""
    packed_sites = dict(sites().sites)
    for i in range(2):
        packed_sites[f"layers.{i}.qkv"] = Site(16, (("qkv", 32),))
        packed_sites[f"layers.{i}.gate_up"] = Site(16, (("gate_up", 48),))
    return LoraSites(None, packed_sites)


@pytest.mark.parametrize(("make", "places"), [(llama, sites()), (phi, packed())], ids=["apart", "packed"])
def test_folded_in_is_the_same_as_beside(make: Any, places: LoraSites) -> None:
    beside = learned(make())
    adapter = to_adapter(beside, places, "f" * 64, TOKENIZERS, CREATED)
    plain = make()
    before = logits(plain)
    add(plain, adapter)
    torch.testing.assert_close(logits(plain), logits(beside), atol=1e-5, rtol=1e-5)
    assert (logits(plain) - before).abs().max() > 1e-3, "the adapter changes something"


def test_nothing_is_added_where_it_does_not_fit() -> None:
    adapter = to_adapter(learned(llama()), sites(), "f" * 64, TOKENIZERS, CREATED)
    a, b = adapter.tensors["layers.1.down"]
    model = llama()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for wrong in (
        {"layers.7.o": (a, b)},
        {"layers.1.down": (a[:-1], b)},
        {"layers.1.down": (a, b[:, :-1])},
    ):
        with pytest.raises(AdapterError, match=r"layers\.[17]\.(o|down)"):
            add(model, replace(adapter, tensors={**adapter.tensors, **wrong}))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def drafter_adapter(scale: float = 0.01) -> Adapter:
    """An adapter of the starter drafter's first output projection."""
    base = fingerprint(read_checkpoint(str(starter("drafter"))))
    model = AutoModelForCausalLM.from_pretrained(starter("drafter"), dtype=torch.float32)
    width = model.config.hidden_size
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=size).astype(np.float32) * scale for size in ((width, 2), (2, width)))
    return Adapter(base, *TOKENIZERS, {"layers.0.o": (a, b)}, CREATED)


def test_the_command_writes_a_checkpoint_of_the_sum(run: Run, tmp_path: Path) -> None:
    adapter = drafter_adapter()
    write_adapter(tmp_path / "mine.safetensors", adapter)
    out = tmp_path / "merged"
    code, output, _ = run(
        "adapter", "merge", str(starter("drafter")), str(tmp_path / "mine.safetensors"), "-o", str(out)
    )
    assert code == 0 and "folded in" in output
    before, after = (
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).state_dict()
        for path in (starter("drafter"), out)
    )
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert changed == ["model.layers.0.self_attn.o_proj.weight"]
    a, b = adapter.tensors["layers.0.o"]
    np.testing.assert_allclose((after[changed[0]] - before[changed[0]]).numpy(), (a @ b).T, atol=1e-7)
    assert (out / "tokenizer.json").read_bytes() == (starter("drafter") / "tokenizer.json").read_bytes()
    assert read_checkpoint(str(out)).shape == read_checkpoint(str(starter("drafter"))).shape


def test_refusals_leave_nothing_behind(run: Run, tmp_path: Path) -> None:
    write_adapter(tmp_path / "mine.safetensors", drafter_adapter())
    file, out = str(tmp_path / "mine.safetensors"), tmp_path / "merged"
    for checkpoint, expected in ((starter("a"), "learned on"), (tmp_path / "absent", "absent")):
        code, _, error = run("adapter", "merge", str(checkpoint), file, "-o", str(out))
        assert code == 1 and expected in error and "Traceback" not in error
        assert not out.exists()
    out.mkdir()
    code, _, error = run("adapter", "merge", str(starter("drafter")), file, "-o", str(out))
    assert code == 1 and "exists already" in error and not list(out.iterdir())


def test_a_checkpoint_takes_its_tokenizer_along_and_nothing_else(tmp_path: Path) -> None:
    """Files that the model writes itself are the model's, not copies."""
    old, new = toy_checkpoint(tmp_path / "old"), tmp_path / "new"
    kept = ("tokenizer.model", "special_tokens_map.json", "chat_template.jinja", "merges.txt", "vocab.json")
    for name in (*kept, "README.md", "trainer_state.json", "optimizer.pt", "my_tokenizer.txt"):
        (old / name).write_text(name)
    checkpoint = read_checkpoint(str(old))
    model = load_model(checkpoint)
    model.generation_config.eos_token_id = 7
    write_checkpoint(model, checkpoint, new)
    written = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
    assert {file.name for file in new.iterdir()} == {*kept, *written}
    assert all((new / name).read_text() == name for name in kept)
    assert json.loads((new / "generation_config.json").read_text())["eos_token_id"] == 7
