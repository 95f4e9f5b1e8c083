"""`omnidraft learn --prompts`: prompts of every kind, the loop, and `generate` with its result."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from omnidraft.commands.learn.learned_summary import Summary, advice, no_adapter, speed_up
from omnidraft.commands.terminal import progress
from omnidraft.commands.terminal import read_prompts as read_module
from omnidraft.commands.terminal.read_prompts import digest, read_prompts
from omnidraft.errors import SettingError
from omnidraft.learning.online.curve import CurveLine
from omnidraft.learning.step.ort_learner import OrtLearner
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.adapter_file import read_adapter, write_adapter
from omnidraft.runtime.vocab.vocab_map import load_vocab_map
from omnidraft.sample_prompts import word_problems
from support.command_line import Run, config, limit_files, refused
from support.places import ROOT

FEW = {"max_new_tokens": 8, "interval": 3, "passes": 1}


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.txt"
    file.write_text("".join(f"{question}\n" for question in word_problems(9)))
    return file


def test_prompts_of_every_kind(tmp_path: Path) -> None:
    rows = [{"question": " one ", "answer": "1"}, {"question": ""}, {"question": "two", "answer": "2"}]
    lines = "\n".join(map(json.dumps, rows)) + "\n"
    text, plain, packed = tmp_path / "a.txt", tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    for codec in ("utf-8", "utf-8-sig"):  # without and with a byte order mark
        text.write_text("one\n\ntwo\n", codec)
        plain.write_text(lines, codec)
        packed.write_bytes(gzip.compress(lines.encode(codec)))
        for file in (text, plain, packed):
            assert read_prompts(file) == ["one", "two"], file
    assert read_prompts(plain, count=1) == ["one"] and read_prompts(plain, count=1 << 64) == ["one", "two"]
    plain.write_text(json.dumps(rows[2]))
    assert read_prompts(plain, field="answer") == ["2"]
    assert digest(["one", "two"]) != digest(["one two"])


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"", {}, "holds no prompts"),
        (b"nonsense", {}, "line 1 of .* is not a JSON object"),
        (b'{"a": "b"}', {}, "has none of question, .* but a; name the field of the prompt as field"),
        (b'{"a": "b"}', {"field": "c"}, "has no field c, but a"),
        (b'{"question": 3}', {}, "question of a row of .* is 3, which is not text"),
        (b'{"question": []}', {}, "question of a row of .* is a list or an object, which is not text"),
        (b'{"question": ' + b"[" * 200_000, {}, "line 1 of .* is not a JSON object"),
        (b'{"question": "x"}', {"count": -1}, "count -1 is less than 1; leave it out for all prompts"),
        (b"\xff\xfe", {}, r"cannot be read as UTF-8 text \(byte 0 is not UTF-8\); give another file"),
    ],
)
def test_prompts_that_do_not_serve(
    tmp_path: Path, content: bytes, options: dict[str, object], words: str
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(content)
    with pytest.raises(SettingError, match=words):
        read_prompts(file, **options)  # type: ignore[arg-type]


def test_packed_prompts_that_do_not_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged in any part, or larger than any file of prompts once it is unpacked."""
    file, packed = tmp_path / "a.txt.gz", gzip.compress(b"one\n" * 3000)
    for damaged in (packed[:-9], b"xx" + packed, packed[:10] + b"\xff" * 20):
        file.write_bytes(damaged)
        with pytest.raises(SettingError, match=r"cannot be read as UTF-8 text \(.+\); give another file"):
            read_prompts(file)
    monkeypatch.setattr(read_module, "MOST_BYTES", 11_999)
    file.write_bytes(packed)
    with pytest.raises(SettingError, match=r"has more than 11,999 bytes; give a part of it"):
        read_prompts(file)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"is a directory; give a .txt or .jsonl file in it"):
        read_prompts(tmp_path)
    with pytest.raises(SettingError, match=r"nowhere.txt does not exist; give a .txt"):
        read_prompts(Path("nowhere.txt"))


def test_word_problems_differ_and_repeat() -> None:
    problems = word_problems(300)
    assert len(set(problems)) > 290 and problems[:20] == word_problems(20)
    assert problems != word_problems(300, 1)
    assert all("{" not in text and text.endswith("?") for text in problems)


def test_it_begins_with_an_adapter_of_another_target(
    learnable: Path, tmp_path: Path, prompts: Path, run: Run
) -> None:
    """Before the first answer it is the adapter in use, and it belongs to the new target."""
    bundle = open_bundle(learnable)
    learner = OrtLearner(bundle, load_vocab_map(bundle.file(bundle.vocab_map)))
    state = learner.state()
    learner.restore({**state, "parameters": np.full_like(state["parameters"], 1e-3)})
    own = learner.adapter()
    file, place = tmp_path / "other.safetensors", tmp_path / "learned"
    write_adapter(file, replace(own, target_tokenizer="0" * 64))
    learn = ("learn", learnable, "--prompts", prompts, "-o", place, *config(**FEW))
    status, out, _ = run(*learn, "--adapter", file, "--minutes", 0, "--json")
    assert status == 0 and json.loads(out)["adapter"]
    begun = read_adapter(next(place.glob("*/adapter.safetensors")))
    assert begun.target_tokenizer == own.target_tokenizer
    for site, pair in own.tensors.items():
        assert all(map(np.allclose, begun.tensors[site], pair)) and np.any(pair[1])
    assert run(*learn)[0] == 0
    versions = [json.loads(line)["version"] for line in (place / "curve.jsonl").read_text().splitlines()]
    assert versions[:4] == [1, 1, 1, 2]


def test_it_goes_on_and_leaves_what_generate_takes(
    learnable: Path, tmp_path: Path, prompts: Path, run: Run
) -> None:
    place = tmp_path / "learned"
    learn = ("learn", learnable, "--prompts", prompts, "-o", place, *config(**FEW))
    status, out, err = run(*learn, "--minutes", 0, "--json")
    assert status == 0 and json.loads(out)["answers"] == 0
    assert "left to do: 9 prompts; the same command goes on" in err
    status, out, _ = run(*learn, "--json")
    result = json.loads(out)
    assert status == 0
    assert (result["answers"], result["now"], result["learned"], result["ended"]) == (9, 9, 3, "done")
    assert result["last"]["tokens_per_target_pass"] >= 1.0 and Path(result["curve"]).is_file()
    status, out, err = run(*learn)
    assert status == 0 and "9 answers, 0 of them now" in out and f"curve: {result['curve']}" in out
    assert "too few to tell a gain from chance: 9 answers" in out
    assert out.splitlines()[-1].startswith("not worth it yet after 9 answers"), "the last line is advice"
    kept = list(place.glob("*/adapter.safetensors"))
    assert result["adapter"] == bool(kept) != ("has no adapter yet, only n-grams" in err)
    plain = json.loads(run("generate", learnable, "How many?", "-n", 12, "--mode", "plain", "--json")[1])
    cache = next(place.glob("*/cache.odc"))
    before = cache.read_bytes()
    generate = ("generate", learnable, "How many?", "-n", 12, "--adapter", place)
    status, out, _ = run(*generate, "--json")
    assert status == 0
    assert json.loads(out)["token_ids"] == plain["token_ids"]
    own = tmp_path / "own.odc"
    status, _, err = run(*generate, "--cache", own)
    assert status == 0 and own.is_file()
    assert f"the n-grams of --adapter {place} are not used, since --cache {own} was given" in err
    assert json.loads(out)["cache_size"] >= result["cache"] and cache.read_bytes() == before


@pytest.mark.parametrize(
    ("answers", "speed", "words"),
    [
        (400, 1.3, "it pays here: 1.30x"),
        (400, 0.9, "it does not pay here so far"),
        (400, None, "it does not pay here so far"),
        (68, 0.58, "not worth it yet after 68 answers: a gain may need 300"),
        (226, 0.9, "not worth it yet after 226 answers: a gain may need 300"),
        (68, 1.3, "--adapter learned"),
        (8, 1.3, "not worth it yet after 8 answers"),
    ],
)
def test_the_advice_follows_the_figures(answers: int, speed: float | None, words: str) -> None:
    assert words in advice(a_summary(answers, speed))


def a_summary(answers: int, speed: float | None, ended: str = "done", *, adapter: bool = True) -> Summary:
    last = {"speed_up": speed}
    return Summary("learned", ended, answers, 1, {}, last, 1, 0, 1.0, 9, "c", [], adapter)


def test_the_advice_on_going_on_is_what_the_same_command_does() -> None:
    done, stopped = (advice(a_summary(24, 1.0, ended)) for ended in ("done", "minutes"))
    assert "all prompts are answered: give the same --out more of them" in done
    assert "the same command goes on" in stopped and "the same command" not in done


def test_a_run_without_an_adapter_says_so() -> None:
    (sentence,) = no_adapter(a_summary(24, 1.0, adapter=False))
    assert sentence.startswith("learned has no adapter yet, only n-grams")
    assert no_adapter(a_summary(24, 1.0)) == no_adapter(a_summary(0, None, adapter=False)) == []


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_full_disk_names_the_place_and_how_to_go_on(learnable: Path, tmp_path: Path, prompts: Path) -> None:
    place = tmp_path / "learned"
    command = ["learn", learnable, "--prompts", prompts, "-o", place, *config(**FEW)]
    process = subprocess.run(
        [sys.executable, "-m", "omnidraft", *map(str, command)],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, preexec_fn=lambda: limit_files(8192),
    )  # fmt: skip
    last = process.stderr.splitlines()[-1]
    assert process.returncode == 1 and last.startswith(f"omnidraft: {place}"), process.stderr
    assert "cannot be written (" in last and "; make room" in last


def test_going_on_with_other_settings_is_refused(
    learnable: Path, tmp_path: Path, prompts: Path, run: Run
) -> None:
    place = tmp_path / "learned"
    learn = ("learn", learnable, "--prompts", prompts, "-o", place)
    assert run(*learn, *config(**FEW))[0] == 0
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    for settings, words in (
        ({"interval": 4}, "interval = 3 and not with interval = 4"),
        (
            {"learning_rate": 0.01, "max_new_tokens": 9},
            "learning_rate = 0.001, max_new_tokens = 8 and not with learning_rate = 0.01, max_new_tokens = 9",
        ),
        ({"num_draft_tokens": 5}, "num_draft_tokens = auto and not with num_draft_tokens = 5"),
    ):
        result = run(*learn, *config(**(FEW | settings)))
        refused(result, f"{place} was begun with {words}; give the same to go on, or another --out")
    assert before == {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    prompts.write_text("How many?\nHow much?\n")
    status, out, _ = run(*learn, *config(**FEW), "--json")  # other prompts are no other settings
    assert status == 0 and json.loads(out)["answers"] == 11


def test_progress_says_that_it_learns(
    learnable: Path, tmp_path: Path, prompts: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.002)  # less than a step takes on any machine
    learn = ("learn", learnable, "--prompts", prompts, "-o", tmp_path / "p")
    _, _, err = run(*learn, *config(**FEW, count=3))
    assert "omnidraft: learn: learning, 3 of 3 (100 %)" in err


def test_a_place_without_an_adapter_says_so(learnable: Path, tmp_path: Path, prompts: Path, run: Run) -> None:
    learn = ("learn", learnable, "--prompts", prompts, "-o", tmp_path / "p")
    status, _, err = run(*learn, *config(**FEW, count=1))
    assert status == 0 and f"{tmp_path / 'p'} has no adapter yet, only n-grams" in err
    status, _, err = run("generate", learnable, "How many?", "-n", 4, "--adapter", tmp_path / "p")
    assert status == 0 and "has no adapter of this target, only n-grams" in err


def test_the_speed_is_the_median_over_intervals() -> None:
    """Plain decoding is measured at the start of each; a busy interval does not move the figure."""
    usual = {"prompt": 0, "target": "t", "passes": 4, "drafted": 4, "accepted": 2, "cache": 0, "version": 0}
    lines = [
        CurveLine(answer=i, tokens=8, seconds=seconds, plain=plain, **usual)  # type: ignore[arg-type]
        for i, (seconds, plain) in enumerate(((1.0, 0.25), (1.0, 0.25), (9.0, 0.3), (1.0, 0.2)))
    ]
    assert speed_up(lines) == pytest.approx(1.6) and speed_up([]) is None


def test_refusals_are_a_sentence(
    bundle: Path, learnable: Path, tmp_path: Path, prompts: Path, run: Run
) -> None:
    cases: tuple[tuple[Path, dict[str, object], str], ...] = (
        (bundle, {}, "holds no training step; export it again with --train-step"),
        (learnable, {"interval": 0}, "settings.toml: interval 0 is less than 1; 8 is usual"),
        (learnable, {"replay": -1}, "replay -1 is less than 0; 8 is usual"),
        (learnable, {"mode": "plain"}, "drafts nothing, so nothing could be learned"),
        (learnable, {"field": "question"}, "has lines and no field question"),
        (learnable, {"steps": 3}, "settings.toml: steps = 3 is no setting of this command"),
        (learnable, {"learning_rate": -1}, "learning_rate -1.0 is not a number of at least 0.0"),
    )
    for number, (path, settings, words) in enumerate(cases):
        place = tmp_path / f"p{number}"
        learn = ("learn", path, "--prompts", prompts, "-o", place)
        refused(run(*learn, *config(**settings)), words)
        assert not place.exists()
    before = sorted(learnable.iterdir())
    learn = ("learn", learnable, "--prompts", prompts, "-o", learnable)
    refused(run(*learn), f"--out {learnable} is a bundle; give another directory")
    assert sorted(learnable.iterdir()) == before
    refused(run("generate", bundle, "Hi", "--adapter", tmp_path), "run `omnidraft learn --prompts` with it")
    refused(run("generate", bundle, "Hi", "--adapter", bundle), "is a bundle, not an adapter")
