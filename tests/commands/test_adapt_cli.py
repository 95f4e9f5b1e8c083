"""`omnidraft adapt`: prompts of every kind, the loop on the command line, and `generate` with its result."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("torch")

from omnidraft.commands.adapt.adapt_loop import BundleSchedule, Ended
from omnidraft.commands.adapt.adapt_summary import Summary, advice, no_adapter
from omnidraft.commands.terminal import progress
from omnidraft.commands.terminal.read_prompts import digest, read_prompts
from omnidraft.errors import SettingError
from omnidraft.sample_prompts import word_problems
from support.command_line import Run, limit_files
from support.places import ROOT, STARTERS

DRAFTER = STARTERS / "drafter"
FEW = ("-n", 8, "--interval", 3, "--passes", 1, "--lora-rank", 4, "--drafter", DRAFTER)


def test_prompts_of_every_kind(tmp_path: Path) -> None:
    rows = [{"question": " one ", "answer": "1"}, {"question": ""}, {"question": "two", "answer": "2"}]
    lines = "\n".join(map(json.dumps, rows)) + "\n"
    text, plain, packed = tmp_path / "a.txt", tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    text.write_text("one\n\ntwo\n")
    plain.write_text(lines)
    packed.write_bytes(gzip.compress(lines.encode()))
    for file in (text, plain, packed):
        assert read_prompts(str(file)) == ["one", "two"], file
    assert read_prompts(str(plain), count=1) == ["one"]
    plain.write_text(json.dumps(rows, indent=2))
    assert read_prompts(str(plain)) == ["one", "two"]
    plain.write_text(json.dumps(rows[2]))
    assert read_prompts(str(plain), field="answer") == ["2"]
    assert read_prompts(str(plain), template="Q: {question}\nA: {answer}") == ["Q: two\nA: 2"]
    assert digest(["one", "two"]) != digest(["one two"])


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"", {}, "holds no prompts"),
        (b"[1]", {}, "entry 1 of .* is not a JSON object"),
        (b'[{"question": "a"}', {}, "is not a whole JSON list"),
        (b"nonsense", {}, "line 1 of .* is not a JSON object"),
        (b'{"a": "b"}', {}, "has none of question, .* but a; name the field of the prompt with --field"),
        (b'{"a": "b"}', {"field": "c"}, "has no field c, but a"),
        (b'{"question": 3}', {}, "question of a row of .* is 3, which is not text"),
        (b'{"a": "b"}', {"template": "{c}"}, "does not fit a row of .* which has a"),
        (b'{"a": "b"}', {"template": "{a"}, "does not fit a row"),
        (b"\xff\xfe", {}, r"cannot be read as UTF-8 text \(byte 0 is not UTF-8\); give another file"),
    ],
)
def test_prompts_that_do_not_serve(
    tmp_path: Path, content: bytes, options: dict[str, str], words: str
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(content)
    with pytest.raises(SettingError, match=words):
        read_prompts(str(file), **options)  # type: ignore[arg-type]


def test_no_file_and_no_package(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"is a directory; give a .txt or .jsonl file in it"):
        read_prompts(str(tmp_path))
    with pytest.raises(SettingError, match=r"nowhere.txt does not exist; give a .txt"):
        read_prompts("nowhere.txt")
    if find_spec("datasets") is None:
        with pytest.raises(SettingError, match="needs the package datasets"):
            read_prompts("someone/questions")


def test_word_problems_differ_and_repeat() -> None:
    problems = word_problems(300)
    assert len(set(problems)) > 290 and problems[:20] == word_problems(20)
    assert problems != word_problems(300, 1)
    assert all("{" not in text and text.endswith("?") for text in problems)


def test_a_schedule() -> None:
    schedule = BundleSchedule.parse(Path("a"), ["20=c", "10=b"])
    assert [str(schedule.at(i)) for i in (0, 9, 10, 19, 20, 99)] == ["a", "a", "b", "b", "c", "c"]
    for wrong in ("x=b", "0=b", "5", "5="):
        with pytest.raises(SettingError, match="is not NUMBER=BUNDLE"):
            BundleSchedule.parse(Path("a"), [wrong])
    with pytest.raises(SettingError, match="at the same prompt"):
        BundleSchedule.parse(Path("a"), ["5=b", "5=c"])


def test_it_goes_on_and_leaves_what_generate_takes(bundle: Path, tmp_path: Path, run: Run) -> None:
    place = tmp_path / "learned"
    status, out, err = run("adapt", bundle, "-o", place, "--count", 9, *FEW, "--minutes", 0, "--json")
    assert status == 0 and json.loads(out)["answers"] == 0
    assert "left to do: 9 prompts; go on with: omnidraft adapt" in err
    status, out, _ = run("adapt", bundle, "-o", place, "--count", 9, *FEW, "--json")
    result = json.loads(out)
    assert status == 0
    assert (result["answers"], result["now"], result["learned"], result["ended"]) == (9, 9, 3, "done")
    assert result["last"]["tokens_per_target_pass"] >= 1.0 and Path(result["curve"]).is_file()
    if find_spec("matplotlib"):
        assert Path(result["picture"]).read_bytes().startswith(b"\x89PNG")
    status, out, err = run("adapt", bundle, "-o", place, "--count", 9, *FEW)
    assert status == 0 and "9 answers, 0 of them now" in out and f"curve: {result['curve']}" in out
    assert "too few to tell a gain from chance: 9 answers" in out
    assert out.splitlines()[-1].startswith("not worth it yet after 9 answers"), "the last line is advice"
    kept = list(place.glob("*/adapter.safetensors"))
    assert result["adapter"] == bool(kept) != ("has no adapter yet, only n-grams" in err)
    assert json.loads(run("adapt", bundle, "-o", place, "--count", 9, *FEW, "--json")[1])["advice"]
    plain = json.loads(run("generate", bundle, "How many?", "-n", 12, "--plain", "--json")[1])
    cache = next(place.glob("*/cache.odc"))
    before = cache.read_bytes()
    status, out, _ = run("generate", bundle, "How many?", "-n", 12, "--profile", place, "--json")
    assert status == 0
    assert json.loads(out)["token_ids"] == plain["token_ids"]
    own = tmp_path / "own.odc"
    adapter = next(place.glob("*/adapter.safetensors"), None)
    beside = ("--cache", own, *(() if adapter is None else ("--adapter", adapter)))
    status, _, err = run("generate", bundle, "How many?", "-n", 12, "--profile", place, *beside)
    assert status == 0 and own.is_file()
    assert f"the n-grams of --profile {place} are not used, since --cache {own} was given" in err
    assert (f"the adapter of --profile {place} is not used" in err) == (adapter is not None)
    assert json.loads(out)["cache_size"] >= result["cache"] and cache.read_bytes() == before


@pytest.mark.parametrize(
    ("answers", "speed", "words"),
    [
        (400, 1.3, "it pays here: 1.30x"),
        (400, 0.9, "it does not pay here so far"),
        (400, None, "it does not pay here so far"),
        (68, 0.58, "not worth it yet after 68 answers: a gain may need 300"),
        (226, 0.9, "not worth it yet after 226 answers: a gain may need 300"),
        (68, 1.3, "--profile learned"),
        (8, 1.3, "not worth it yet after 8 answers"),
    ],
)
def test_the_advice_follows_the_figures(answers: int, speed: float | None, words: str) -> None:
    assert words in advice(a_summary(answers, speed))


def a_summary(answers: int, speed: float | None, ended: Ended = "done", *, adapter: bool = True) -> Summary:
    last = {"speed_up": speed}
    return Summary("learned", ended, answers, 1, {}, last, 1, 0, 1.0, 9, [], "c", None, [], adapter)


def test_the_advice_on_going_on_is_what_the_same_command_does() -> None:
    done, stopped = (advice(a_summary(24, 1.0, ended)) for ended in ("done", "minutes"))
    assert "all prompts are answered: give the same --out more of them" in done
    assert "the same command goes on" in stopped and "the same command" not in done


def test_a_run_without_an_adapter_says_so() -> None:
    (sentence,) = no_adapter(a_summary(24, 1.0, adapter=False))
    assert sentence.startswith("learned has no adapter yet, only n-grams")
    assert no_adapter(a_summary(24, 1.0)) == no_adapter(a_summary(0, None, adapter=False)) == []


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_full_disk_names_the_place_and_how_to_go_on(bundle: Path, tmp_path: Path) -> None:
    place, command = tmp_path / "learned", ["adapt", bundle, "-o", tmp_path / "learned", "--count", 1, *FEW]
    process = subprocess.run(
        [sys.executable, "-m", "omnidraft", *map(str, command)],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, preexec_fn=lambda: limit_files(8192),
    )  # fmt: skip
    last = process.stderr.splitlines()[-1]
    assert process.returncode == 1 and last.startswith(f"omnidraft: {place}"), process.stderr
    assert "cannot be written (" in last and "; make room" in last


def test_going_on_with_other_settings_is_refused(bundle: Path, tmp_path: Path, run: Run) -> None:
    place = tmp_path / "learned"
    adapt = ("adapt", bundle, "-o", place, "--count", 6, *FEW)
    assert run(*adapt)[0] == 0
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    for option, words in (
        (("--interval", 4), "--interval 3 and not with --interval 4;"),
        (
            ("--rate", 0.01, "-n", 9),
            "--rate 0.004 --max-new-tokens 8 and not with --rate 0.01 --max-new-tokens 9;",
        ),
        (("--objective", "uld"), "--objective trie-kl and not with --objective uld;"),
        (("-k", 5), "--num-draft-tokens auto and not with --num-draft-tokens 5;"),
        (("--seed", 1), "--seed 0 and not with --seed 1;"),
    ):
        status, _, err = run(*adapt, *option)
        assert (
            status == 1 and f"{place} was begun with {words} give the same to go on, or another --out" in err
        )
    assert before == {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    status, out, _ = run(*adapt, "--count", 8, "--json")  # more prompts are no other settings
    assert status == 0 and json.loads(out)["answers"] == 14


def test_progress_says_that_it_learns(
    bundle: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.02)
    _, _, err = run("adapt", bundle, "-o", tmp_path / "p", "--count", 3, *FEW)
    assert "omnidraft: adapt: learning, 3 of 3 (100 %)" in err


def test_a_profile_without_an_adapter_says_so(bundle: Path, tmp_path: Path, run: Run) -> None:
    status, _, err = run("adapt", bundle, "-o", tmp_path / "p", "--count", 1, *FEW)
    assert status == 0 and f"{tmp_path / 'p'} has no adapter yet, only n-grams" in err
    status, _, err = run("generate", bundle, "How many?", "-n", 4, "--profile", tmp_path / "p")
    assert status == 0 and "has no adapter of this target, only n-grams" in err


def test_refusals_are_a_sentence(bundle: Path, tmp_path: Path, run: Run) -> None:
    for arguments, words in (
        (("--learner", "onnx"), "holds no training step; export it again with --train-step"),
        (("--learner", "onnx", "--drafter", DRAFTER), "reads no checkpoint"),
        (("--learner", "jax"), '--learner "jax" is unknown; use one of auto, torch, onnx'),
        ((), "give their directory or hub id with --drafter"),
        (("--drafter", STARTERS / "a"), "give the checkpoint that it was exported from"),
        (("--drafter", DRAFTER, "--interval", 0), "--interval 0 is less than 1; 8 is usual"),
        (("--drafter", DRAFTER, "--replay", -1), "--replay -1 is less than 0; 8 is usual"),
        (("--drafter", DRAFTER, "--mode", "plain"), "drafts nothing, so nothing could be learned"),
        (("--drafter", DRAFTER, "--field", "question"), "are for rows of --prompts"),
        (("--drafter", DRAFTER, "--objective", "none"), '--objective "none" is unknown here; use trie-kl, '),
        (
            ("--drafter", DRAFTER, "--rate", "nan"),
            "--rate nan is not a number of at least 0.0; 0.0001 is usual",
        ),
    ):
        place = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        status, _, err = run("adapt", bundle, "-o", place, "--count", 2, *arguments)
        assert status == 1 and words in err and err.count("\n") == 1, (arguments, err)
        # A checkpoint is read after the place is claimed.
        assert place.exists() == ("give the checkpoint" in words), arguments
    before = sorted(bundle.iterdir())
    status, _, err = run("adapt", bundle, "-o", bundle, "--count", 1, *FEW)
    assert status == 1 and f"--out {bundle} is a bundle; give a directory of its own" in err
    assert sorted(bundle.iterdir()) == before
    status, _, err = run("generate", bundle, "Hi", "--profile", tmp_path)
    assert status == 1 and "run `omnidraft adapt` with it first" in err
