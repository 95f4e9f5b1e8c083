"""The command line: output of the commands, their options and streams."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from omnidraft.commands import bench
from omnidraft.commands.bench import BenchLine
from omnidraft.commands.terminal import output
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import load_vocab_map
from support.command_line import Run, config, refused
from support.places import ROOT, STARTERS


def never() -> tuple[str, Path]:
    """Take the costs of the bundle."""
    return config(measure="never")


def test_generate_prints_one_object(run: Run, bundle: Path) -> None:
    code, out, _ = run("generate", bundle, "Write a function to add two numbers.", "-n", 64, "--json")
    assert code == 0
    result = json.loads(out)
    assert result["emitted"] == len(result["token_ids"]) <= 64
    assert result["tokens_per_target_pass"] == pytest.approx(result["emitted"] / result["rounds"])
    assert {"draft", "translate", "target", "verify"} <= set(result["seconds"])
    assert result["accepted"] == result["emitted"] - result["rounds"]
    spelled = load_vocab_map(bundle / "vocab_map.safetensors")
    learned = {token for token in result["token_ids"] if NgramCache(spelled).insert(token)}
    assert result["cache_size"] == len(learned) > 0, "the n-grams of the answer, and no other"


def test_streamed_text_is_the_text(run: Run, bundle: Path) -> None:
    _, out, err = run("generate", bundle, "What is 2 and 2?", "-n", 20, "-k", 3)
    _, as_json, _ = run("generate", bundle, "What is 2 and 2?", "-n", 20, "-k", 3, "--json")
    assert out == json.loads(as_json)["text"] + "\n", "a line of a pipe ends"
    assert json.loads(as_json)["tokens_per_second"] > 0
    assert "per target pass" in err


def test_a_stop_string_ends_the_text(run: Run, bundle: Path) -> None:
    _, whole, _ = run("generate", bundle, "What is 2 and 2?", "-n", 20, "-k", 3)
    stop = whole[6:10]
    _, out, err = run("generate", bundle, "What is 2 and 2?", "-n", 20, *config(stop=["\u2603", stop]))
    assert out == whole[: whole.index(stop)].removesuffix("\n") + "\n"
    assert "ended by stop" in err
    _, out, _ = run("generate", bundle, "What is 2 and 2?", "-n", 20, *config(stop=[stop]), "--json")
    assert json.loads(out)["stop_string"] == stop
    refused(run("generate", bundle, "x", *config(stop=[""])), "stop string is empty")


def test_short_memory_leaves_the_drafter_out_and_says_why(
    run: Run, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole, _ = run("generate", bundle, "What is 2 and 2?", "-n", 20)
    monkeypatch.setattr("omnidraft.commands.terminal.open_session.available_bytes", lambda: 90_000_000)
    code, out, err = run("generate", bundle, "What is 2 and 2?", "-n", 20)
    assert (code, out) == (0, whole)
    sentence = " ".join(err.split("\n\n")[0].split())
    assert sentence.startswith("omnidraft: decoding without the drafter") and "90 MB are free" in sentence
    assert "draft tokens accepted" not in " ".join(err.split())
    _, _, err = run("generate", bundle, "What is 2 and 2?", "-n", 2, *config(drafter=False))
    assert "are free" not in err, "that was asked for, so no reason is needed"


def test_memory_is_told_before_loading(run: Run, bundle: Path) -> None:
    _, out, _ = run("inspect", bundle)
    assert "memory at the peak" in out and "without the drafter" in out
    _, out, _ = run("inspect", bundle, "--json")
    memory = json.loads(out)["memory"]
    assert memory["generate"]["total"] > memory["no_drafter"]["total"] > memory["generate"]["kv"]


def test_inspect_and_bench(run: Run, bundle: Path, tmp_path: Path) -> None:
    code, out, _ = run("inspect", bundle)
    assert code == 0
    assert "Qwen2ForCausalLM" in out
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("What is 1 and 1?\n\nWhat is 2 and 2?\n")
    code, out, _ = run("bench", bundle, "--prompts", prompts, "-n", 12, "--json", *never())
    result = json.loads(out)
    assert code == 0
    assert [p["prompt"] for p in result["prompts"]] == ["What is 1 and 1?", "What is 2 and 2?"]
    assert all(p["same_text"] for p in result["prompts"])
    assert result["verdict"]["speed_up"] == result["speed_up"]
    code, out, _ = run("bench", bundle, "--prompts", prompts, "-n", 12, *never(), "-k", 2)
    assert code == 0
    assert "of plain decoding was measured" in out and "predicted from the costs" in out
    assert out.splitlines()[-1].startswith(("2 texts cannot tell", "nothing was drafted"))
    _, out, _ = run(
        "bench", bundle, "--prompts", prompts, "-n", 99, "--json", *config(measure="never", ignore_eos=True)
    )
    _, ended, _ = run("bench", bundle, "--prompts", prompts, "-n", 99, "--json", *never())
    longer, shorter = (sum(p["tokens"] for p in json.loads(text)["prompts"]) for text in (out, ended))
    assert longer == 2 * 99 >= shorter
    result = json.loads(out)
    gained = result["of_drafts_per_pass"] + result["of_copies_per_pass"]
    assert result["tokens_per_target_pass"] == pytest.approx(1.0 + gained)
    assert result["of_copies_per_pass"] > 0.0, "these texts repeat themselves"
    assert f"{result['of_copies_per_pass']:.2f} copied from the text" in result["verdict"]["sentence"]
    _, direct, _ = run("bench", bundle, "--prompts", prompts, "-n", 20, "--json", *never(), "-k", 4)
    assert json.loads(direct)["of_copies_per_pass"] == 0.0 < json.loads(direct)["of_drafts_per_pass"]
    assert "0.00 copied from the text" in json.loads(direct)["verdict"]["sentence"]
    refused(run("bench", bundle, "--adapter", tmp_path), "nothing that was learned of the target")


def test_ctrl_c_in_bench_keeps_what_was_timed(
    run: Run, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two prompts warm up; Ctrl-C comes before any was timed, and then in the second one."""
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("What is 1 and 1?\nWhat is 2 and 2?\nWhat is 3 and 3?\n")
    measure, left = bench._measure, 0

    def interrupted(*arguments: Any) -> BenchLine:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(bench, "_measure", interrupted)
    command = "bench", bundle, "--prompts", prompts, "-n", 4, *never()
    left = 2
    assert run(*command) == (130, "", "")
    left = 3
    code, out, err = run(*command)
    assert code == 130 and "1 prompts, plain and speculative" in out and "What is 1" in out
    assert "predicted from the costs" in out and "What is 2" not in out
    assert err == "omnidraft: stopped: 1 of 3 prompts timed\n"
    left = 3
    code, out, _ = run(*command, "--json")
    assert (code, len(json.loads(out)["prompts"]), json.loads(out)["prompts_left"]) == (130, 1, 2)


def test_the_table_of_bench_fits_80_columns(run: Run, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(output, "out", Console(highlight=False, width=80))
    _, out, _ = run("bench", bundle, "-n", 4, *never(), "-k", 2)
    rows = [line for line in out.splitlines() if "│" in line or "┃" in line]
    assert len(rows) > 3 and max(map(len, rows)) <= 80
    for heading in ("plain", "fast", "ratio", "per pass", "drafts", "copies", "same"):
        assert heading in rows[0], rows[0]
    assert "…" not in "".join(row[40:] for row in rows), "no figure is cut"


@pytest.mark.usefixtures("export_packages")
def test_export_reports_what_it_measured(run: Run, tmp_path: Path) -> None:
    out_path = tmp_path / "bundle"
    arguments = "export", STARTERS / "a", "-d", STARTERS / "drafter", "-o", out_path
    code, out, _ = run(*arguments, "--quant", "int8", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["parity"]["target"]["fp32"]["max_difference"] < 1e-3
    assert report["parity"]["target"]["fp32"]["greedy_agreement"] > 0.99
    assert report["after"]["of_drafted"] > 0.5 * report["before"]["of_drafted"]
    verdict = report["verdict"]
    said = "of plain decoding is expected here", "nothing was drafted or copied"  # where no draft pays
    assert verdict["speed_up"] > 0.0 and any(words in verdict["sentence"] for words in said)
    assert verdict["good"] == verdict["sentence"].startswith("faster")
    assert (
        report["warnings"] == []
    )  # embeddings and tied heads are int8: no file is larger than its checkpoint
    manifest = json.loads((out_path / "manifest.json").read_text())
    assert {manifest[role]["quantization"] for role in ("target", "drafter")} == {"int8"}
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]
    names = ["drafter", "manifest.json", "target", "vocab_map.safetensors"]
    assert sorted(p.name for p in out_path.iterdir()) == names
    refused(run(*arguments), str(out_path), "--overwrite")


def test_seeds_are_shown_where_something_was_drawn(run: Run, bundle: Path) -> None:
    _, _, err = run("generate", bundle, "x", "-n", 2)
    assert "seed" not in err
    assert json.loads(run("generate", bundle, "x", "-n", 2, "--json")[1])["seed"] is None
    assert 0 <= json.loads(run("generate", bundle, "x", "-n", 2, "-t", 1, "--json")[1])["seed"] < 2**53
    _, _, err = run("generate", bundle, "x", "-n", 2, "-t", 1, "--seed", 2**64 - 1)
    decoding, reading = err.strip().splitlines()  # each is one line, however long
    assert decoding.endswith(f"seed {2**64 - 1}") and len(decoding) > 100
    assert "first token after" in reading


def test_a_report_through_a_pipe_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    line = "a/[bold]path: " + "many words " * 30
    output.say(line)
    assert capsys.readouterr().out == line + "\n"


def test_a_reader_that_goes_away_is_no_error(bundle: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "omnidraft", "inspect", str(bundle), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


def closed(streams: str, *arguments: object) -> tuple[int, str, str]:
    """The real command with closed standard streams, such as `>&-`."""
    process = subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "omnidraft", *map(str, arguments)],
        capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    return process.returncode, process.stdout, process.stderr


LOST = "omnidraft: the output cannot be written (standard output is closed)\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
def test_closed_streams_give_no_traceback(bundle: Path, tmp_path: Path) -> None:
    """What cannot be printed is a failure, with one sentence where a stream is left for it."""
    generate = "generate", bundle, "Hi", "-n", 3
    code, text, err = closed("", *generate)
    assert code == 0 and text and err
    for command in (["--version"], ["--help"], ["inspect", bundle], ["doctor", "--json"], generate):
        assert closed(">&-", *command) == (1, "", LOST), command
    assert closed("2>&-", *generate) == (0, text, ""), "the text needs no standard error"
    assert closed("2>&-", "generate", tmp_path / "none", "Hi") == (1, "", "")
    assert closed("2>&-", "generate", "--no-such-option") == (2, "", "")
    assert closed(">&- 2>&- <&-", *generate) == (1, "", "")
    assert closed("<&-", "generate", bundle, "-") == (
        1,
        "",
        "omnidraft: the prompt is empty; give some text\n",
    )
    assert closed("<&-", "chat", bundle)[0] == 0, "as at the end of the input"


OPENS = """
import os, sys
import omnidraft.cli
omnidraft.cli.main = lambda: open(sys.argv[1], "w").write(str(os.open(os.devnull, os.O_RDONLY)))
from omnidraft.__main__ import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
def test_no_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """What a library prints to standard output would be written into that file."""
    command = [
        "sh",
        "-c",
        'exec "$@" <&- >&- 2>&-',
        "sh",
        sys.executable,
        "-c",
        OPENS,
        str(tmp_path / "number"),
    ]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, timeout=120)
    assert int((tmp_path / "number").read_text("utf-8")) > 2


INTERRUPTED = """
import os, signal, sys
wanted = sys.argv.pop(1)
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from omnidraft.__main__ import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("module", "command"), [("typer", ["--version"]), ("onnxruntime", ["generate", "none", "x"])]
)
def test_ctrl_c_while_it_starts_is_quiet(module: str, command: list[str]) -> None:
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, *command],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, timeout=120,
    )  # fmt: skip
    if module == "onnxruntime" and process.stderr:
        # The signal waits for the end of the import; a command that is refused meanwhile says so, once.
        assert process.returncode in (1, 130) and process.stdout == "", process.returncode
        assert process.stderr.startswith("omnidraft: ") and process.stderr.count("\n") <= 1, process.stderr
    else:
        assert (process.returncode, process.stdout, process.stderr) == (130, "", "")


def test_version(run: Run) -> None:
    import omnidraft

    assert run("--version")[:2] == (0, f"{omnidraft.__version__}\n")
