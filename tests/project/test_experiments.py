"""The experiments: cached answers, a recorded target with the counts of the real one, drafters, results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.experiments import EXPERIMENTS  # noqa: E402
from benchmarks.experiments.running import answers, results  # noqa: E402
from benchmarks.experiments.running.answers import Answer  # noqa: E402
from benchmarks.experiments.running.drafters import in_onnxruntime, restore, save  # noqa: E402
from benchmarks.experiments.running.measure import Way, counts, recorded  # noqa: E402
from benchmarks.experiments.running.pairs import encode, load_pair, torch_model  # noqa: E402
from benchmarks.experiments.running.recipes import LOSSES  # noqa: E402
from benchmarks.experiments.running.results import Arm  # noqa: E402
from benchmarks.experiments.running.training import align  # noqa: E402
from benchmarks.support.responses import respond  # noqa: E402
from benchmarks.support.torch_model import TorchModel  # noqa: E402
from omnidraft.errors import SettingError  # noqa: E402
from omnidraft.runtime.session.loaded_bundle import LoadedBundle  # noqa: E402
from omnidraft.runtime.vocab.ngram_cache import NgramCache  # noqa: E402
from omnidraft.training.lora import add_lora, lora_modules  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = ["How many legs do 3 cats have?", "Mia has 4 boxes with 12 pencils each. How many pencils?"]


@pytest.fixture(scope="module")
def work(bundle_b: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work directory in which one pair was exported."""
    work = tmp_path_factory.mktemp("experiments")
    (work / "bundles").mkdir()
    (work / "bundles/b").symlink_to(bundle_b)
    return work


@pytest.fixture(scope="module")
def pair(work: Path) -> LoadedBundle:
    return load_pair(work, "b")


@pytest.fixture(scope="module")
def recording(pair: LoadedBundle) -> list[Answer]:
    """Two answers of starter-b."""
    prompts = [encode(pair, question) for question in QUESTIONS]
    responses = respond(
        torch_model("b"), [p for p, _ in prompts], max_new_tokens=32, eos_ids=pair.bundle.target.eos_ids
    )
    return [
        Answer(r.prompt, tuple(d), r.tokens, r.rows) for r, (_, d) in zip(responses, prompts, strict=True)
    ]


@pytest.mark.parametrize("mode", ["direct", "trie"])
def test_a_recorded_target_counts_as_the_real_one(
    pair: LoadedBundle, recording: list[Answer], mode: Any
) -> None:
    """Equal counts of every prompt, and equal caches."""
    results = []
    for target in (recorded(pair), pair.target.new_model()):
        cache = NgramCache(pair.vocab_map)
        drafter = in_onnxruntime(pair, torch_model("drafter"))
        way = Way(mode, max_new_tokens=32)
        results.append((counts(pair, target, drafter, recording, way, cache), cache.entries()))
    assert results[0] == results[1]
    measured, _ = results[0]
    assert sum(measured["passed"]) > 0 and sum(measured["rounds"]) < sum(measured["emitted"])


def test_a_trained_drafter_is_the_same_in_onnxruntime(pair: LoadedBundle) -> None:
    """With every weight changed, and with an adapter, the logits are those of torch."""
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
        logits = in_onnxruntime(pair, model).model.score(ids)
        assert abs(logits - TorchModel(model).score(ids)).max() < 1e-4
        assert abs(logits - before).max() > 0.1


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
        restored = restore(tmp_path / "drafter.safetensors", rank, 32.0)
        for (name, expected), actual in zip(model.named_parameters(), restored.parameters(), strict=True):
            assert torch.equal(actual, expected), name


def test_answers_on_disk_are_distributions_and_give_the_same_tokens(
    pair: LoadedBundle, recording: list[Answer], tmp_path: Path
) -> None:
    shard = answers.Shard("b", "gsm8k", "train", 0, 2)
    answers.write(shard.file(tmp_path), [(answer, answer.draft_prompt) for answer in recording])
    loaded = answers.load(tmp_path, "b", "gsm8k")
    for actual, expected in zip(loaded, recording, strict=True):
        assert (actual.prompt, actual.draft_prompt) == (expected.prompt, expected.draft_prompt)
        assert actual.tokens == expected.tokens
        assert actual.rows.finite
        assert abs(actual.rows.probabilities - expected.rows.probabilities).max() < 1e-3
    assert [len(a.tokens.ids) for a in align(pair, loaded)] == [len(a.tokens) for a in recording]


def test_shards_are_taken_up_to_the_first_gap(recording: list[Answer], tmp_path: Path) -> None:
    for start in (0, 4):
        answers.write(
            answers.Shard("a", "code", "train", start, start + 2).file(tmp_path), [(recording[0], [1])] * 2
        )
    assert len(answers.load(tmp_path, "a", "code")) == 2
    with pytest.raises(SettingError, match="has 2 answers of a to code"):
        answers.load(tmp_path, "a", "code", count=3)


def test_a_shard_that_is_not_whole_is_refused(recording: list[Answer], tmp_path: Path) -> None:
    file = answers.Shard("a", "code", "train", 0, 1).file(tmp_path)
    answers.write(file, [(recording[0], recording[0].draft_prompt)])
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(SettingError, match="cannot be read"):
        answers.load(tmp_path, "a", "code")


@pytest.fixture
def results_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    return tmp_path


def an_arm(seed: int) -> Arm:
    settings = {"target": "a", "task": "code", "seed": seed, "recipe": LOSSES["dm"].as_json()}
    return Arm(
        "some", "one", settings, lambda _: {"rounds": [1, 2, 3], "nothing": [], "deep": [[1, 2], [3, 4]]}
    )


def test_a_result_is_whole_and_changes_its_name_with_its_settings(
    results_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([100.0, 112.34])
    monkeypatch.setattr(results, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    arm = an_arm(1)
    results.run_arm(arm, results_directory)
    (result,) = results.read("some")
    assert json.loads((results_directory / "some.jsonl").read_text("utf-8")) == result
    assert result["result"]["deep"] == [[1, 2], [3, 4]] and result["settings"] == arm.settings
    assert result["seconds"] == 12.3 and result["commit"] == results.commit() != ""
    assert result["key"] == arm.key and arm.key.startswith("one-a-code-seed1-")
    assert an_arm(2).key != arm.key


def test_an_arm_that_is_in_the_file_is_done(results_directory: Path) -> None:
    assert not results.is_done(an_arm(1))
    results.run_arm(an_arm(2), results_directory)
    results.run_arm(an_arm(1), results_directory)
    assert results.is_done(an_arm(1)) and results.is_done(an_arm(2)) and not results.is_done(an_arm(3))
    keys = [result["key"] for result in results.read("some")]
    assert keys == sorted(arm.key for arm in (an_arm(1), an_arm(2)))


def test_a_line_that_a_kill_cut_does_not_count_and_is_dropped(results_directory: Path) -> None:
    """At every length of the cut line, the whole lines before it stay byte for byte."""
    results.run_arm(an_arm(1), results_directory)
    results.run_arm(an_arm(2), results_directory)
    file = results_directory / "some.jsonl"
    first, second = file.read_bytes().splitlines(keepends=True)
    for length in range(len(second)):
        file.write_bytes(first + second[:length])
        assert [result["key"] for result in results.read("some")] == [an_arm(1).key]
        assert not results.is_done(an_arm(2))
        results.append("some", json.loads(second))
        assert file.read_bytes() == first + second


def test_a_whole_line_that_is_not_a_result_is_refused(results_directory: Path) -> None:
    results.run_arm(an_arm(1), results_directory)
    for line in (b"{", b"[]", b"{}", b"\xff", b""):
        with (results_directory / "some.jsonl").open("ab") as file:
            end = file.tell()
            file.write(line + b"\n")
        with pytest.raises(SettingError, match=r"line 2 of .*some\.jsonl is not a result"):
            results.read("some")
        with (results_directory / "some.jsonl").open("ab") as file:
            file.truncate(end)


def test_processes_that_append_at_once_lose_no_line(results_directory: Path) -> None:
    script = (
        "import json, sys; from pathlib import Path; from benchmarks.experiments.running import results\n"
    )
    script += "results.RESULTS = Path(sys.argv[1])\n"
    script += (
        "for i in range(50): results.append('some', {'key': f'{sys.argv[2]}-{i}', 'result': 'x' * 5000})"
    )
    command = [sys.executable, "-c", script, str(results_directory)]
    processes = [subprocess.Popen([*command, name], cwd=ROOT) for name in ("a", "b", "c")]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert {result["key"] for result in results.read("some")} == {
        f"{n}-{i}" for n in "abc" for i in range(50)
    }


def test_the_results_are_of_the_experiments_that_there_are() -> None:
    """Every file has an experiment's name, and every line the key of its own settings."""
    assert {file.stem for file in results.RESULTS.glob("*.jsonl")} == set(EXPERIMENTS)
    for name in EXPERIMENTS:
        lines = results.read(name)
        assert lines
        for line in lines:
            assert line["key"] == Arm(name, line["arm"], line["settings"], lambda _: {}).key
