"""The experiments: cached answers, a recorded target that counts as the real one, drafters swapped in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.experiments.running import answers, results  # noqa: E402
from benchmarks.experiments.running.answers import Answer  # noqa: E402
from benchmarks.experiments.running.drafters import in_onnxruntime, restore, save  # noqa: E402
from benchmarks.experiments.running.measure import Way, counts, recorded  # noqa: E402
from benchmarks.experiments.running.pairs import encode, torch_model, weights  # noqa: E402
from benchmarks.experiments.running.recipes import LOSSES  # noqa: E402
from benchmarks.experiments.running.results import Arm  # noqa: E402
from benchmarks.experiments.running.training import align  # noqa: E402
from benchmarks.support.responses import respond  # noqa: E402
from benchmarks.support.torch_model import TorchModel  # noqa: E402
from omnidraft.errors import SettingError  # noqa: E402
from omnidraft.runtime.session.loaded_bundle import LoadedBundle  # noqa: E402
from omnidraft.runtime.vocab.ngram_cache import NgramCache  # noqa: E402
from omnidraft.training.lora import add_lora, lora_modules  # noqa: E402

QUESTIONS = ["How many legs do 3 cats have?", "Mia has 4 boxes with 12 pencils each. How many pencils?"]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experiments")


@pytest.fixture(scope="module")
def pair(work: Path) -> LoadedBundle:
    return weights(work, "b")


@pytest.fixture(scope="module")
def said(pair: LoadedBundle) -> list[Answer]:
    """Two answers of starter-b."""
    prompts = [encode(pair, question) for question in QUESTIONS]
    found = respond(
        torch_model("b"), [p for p, _ in prompts], max_new_tokens=32, eos_ids=pair.bundle.target.eos_ids
    )
    return [Answer(r.prompt, tuple(d), r.tokens, r.rows) for r, (_, d) in zip(found, prompts, strict=True)]


@pytest.mark.parametrize("mode", ["direct", "trie"])
def test_a_recorded_target_counts_as_the_real_one(pair: LoadedBundle, said: list[Answer], mode: Any) -> None:
    """Rounds, drafted, tested, passed and emitted of every prompt, and what the cache learned."""
    found = []
    for target in (recorded(pair), pair.target.new_model()):
        cache = NgramCache(pair.vocab_map)
        drafter = in_onnxruntime(pair, torch_model("drafter"))
        way = Way(mode, max_new_tokens=32)
        found.append((counts(pair, target, drafter, said, way, cache), cache.entries()))
    assert found[0] == found[1]
    assert sum(found[0][0]["passed"]) > 0 and sum(found[0][0]["rounds"]) < sum(found[0][0]["emitted"])


def test_a_trained_drafter_is_the_same_in_onnxruntime(pair: LoadedBundle) -> None:
    """All weights changed, and an adapter: the rows of torch."""
    ids = [1, 5, 7, 9, 300, 2000]
    before = in_onnxruntime(pair, torch_model("drafter")).model.score(ids).copy()
    whole, lora = torch_model("drafter"), torch_model("drafter")
    add_lora(lora, 8)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
        for module in lora_modules(lora).values():
            module.lora_b.normal_(std=0.05)
    for model in (whole, lora):
        found = in_onnxruntime(pair, model).model.score(ids)
        assert abs(found - TorchModel(model).score(ids)).max() < 1e-4
        assert abs(found - before).max() > 0.1


def test_what_was_trained_is_kept(tmp_path: Path) -> None:
    for rank in (None, 8):
        model = torch_model("drafter")
        if rank:
            add_lora(model, rank)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.01)
        save(model, tmp_path / "drafter.safetensors")
        again = restore(tmp_path / "drafter.safetensors", rank, 32.0)
        for (name, one), two in zip(model.named_parameters(), again.parameters(), strict=True):
            assert torch.equal(one, two), name


def test_answers_on_disk_are_distributions_and_give_the_same_tokens(
    pair: LoadedBundle, said: list[Answer], tmp_path: Path
) -> None:
    shard = answers.Shard("b", "gsm8k", "train", 0, 2)
    kept = [(r, list(r.draft_prompt)) for r in said]
    answers.write(shard.file(tmp_path), kept)
    found = answers.load(tmp_path, "b", "gsm8k")
    assert [(f.prompt, f.draft_prompt, f.tokens) for f in found] == [
        (s.prompt, s.draft_prompt, s.tokens) for s in said
    ]
    for one, two in zip(found, said, strict=True):
        assert one.rows.finite
        assert abs(one.rows.probabilities - two.rows.probabilities).max() < 1e-3
    assert [len(a.tokens.ids) for a in align(pair, found)] == [len(s.tokens) for s in said]


def test_shards_are_taken_up_to_the_first_gap(said: list[Answer], tmp_path: Path) -> None:
    for start in (0, 4):
        answers.write(
            answers.Shard("a", "code", "train", start, start + 2).file(tmp_path), [(said[0], [1])] * 2
        )
    assert len(answers.load(tmp_path, "a", "code")) == 2
    with pytest.raises(SettingError, match="has 2 answers of a to code"):
        answers.load(tmp_path, "a", "code", count=3)


def test_a_result_is_whole_and_changes_its_name_with_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    settings = {"target": "a", "task": "code", "seed": 1, "recipe": LOSSES["dm"].as_json()}
    arm = Arm("e9", "one", settings, lambda _: {"rounds": [1, 2, 3], "nothing": [], "deep": [[1, 2], [3, 4]]})
    results.run_arm(arm, tmp_path)
    (found,) = results.read("e9")
    assert json.loads(arm.file.read_text("utf-8")) == found
    assert found["result"]["deep"] == [[1, 2], [3, 4]] and found["settings"] == settings
    assert found["seconds"] >= 0 and found["commit"]
    other = Arm("e9", "one", settings | {"seed": 2}, arm.run)
    assert other.key != arm.key and arm.key.startswith("one-a-code-seed1-")
