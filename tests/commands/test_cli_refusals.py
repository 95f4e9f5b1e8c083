"""Refusals of the command line, one sentence each: options, paths, a full disk, missing packages."""

import errno
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from omnidraft.commands.terminal import export_packages
from omnidraft.commands.terminal.generation_options import as_option
from omnidraft.errors import SettingError, reason
from support.closed_directory import closed
from support.command_line import Run, config, limit_files, refused
from support.places import ROOT, STARTERS


def test_pairs_of_control_tokens_are_named_right_or_refused(run: Run, tmp_path: Path) -> None:
    """A wrong name is refused before any work is done."""
    pytest.importorskip("torch", reason="exporting needs torch, which this Python does not have")
    arguments = ("export", STARTERS / "a", "-d", STARTERS / "drafter", "-o", tmp_path / "out")
    refused(run(*arguments, *config(pair=["<think>=<think>"])), "<think>=<think>", "<|endoftext|>", "</s>")
    refused(run(*arguments, *config(pair=["<think>"])), "DRAFTER=TARGET")
    assert not (tmp_path / "out").exists()


def test_refusals_of_generate(run: Run, bundle: Path, tmp_path: Path) -> None:
    refused(run("generate", tmp_path / "none", "x"), "no bundle at", "omnidraft export")
    refused(run("generate", bundle, ""), "prompt is empty")
    refused(run("generate", bundle, "word " * 900), "context holds 256; shorten it", "--max-length")
    refused(run("generate", bundle, "x", "-t", "-0.5"), "-0.5", ">= 0")
    refused(run("generate", bundle, "x", "-t", "nan"), "--temperature nan")
    refused(run("generate", bundle, "x", "-t", "inf"), "--temperature inf is not a finite number")
    refused(run("generate", bundle, "x", "--temperature", "inf"), ": --temperature inf is not")
    refused(
        run("generate", bundle, "x", "-n", 0),
        ": --max-new-tokens 0 is less than 1; ask for at least one token",
    )
    refused(run("generate", bundle, "x", "--top-p", 2), ": --top-p 2.0 is outside")
    refused(run("generate", bundle, "x", "--seed", -1), ": --seed -1 is outside 0..2^64-1")
    refused(
        run("generate", bundle, "x", *config(verification="foo")),
        'settings.toml: verification "foo"',
        "token, block, auto",
    )
    large = config(temperature=10**400)
    refused(run("generate", bundle, "x", *large), "settings.toml: temperature has 1,329 bits; give a smaller")
    large[1].write_text("temperature = 0", encoding="utf-8-sig")  # with a byte order mark
    refused(run("generate", bundle, "", *large), "prompt is empty")
    refused(run("generate", bundle, " "), "prompt is white space")
    refused(run("generate", bundle, "x", "--mode", "magic"), "magic", "trie")
    refused(run("generate", bundle, "x", "-k", "many"), "many", "auto")
    refused(run("generate", bundle, "x", "-k", 49), "49", "0..48")
    most = 4 * (os.cpu_count() or 1)
    refused(run("generate", bundle, "x", "--threads", 0), f": --threads 0 is outside 1..{most}")
    refused(run("generate", bundle, "x", "--threads", 100_000), f": --threads 100000 is outside 1..{most}")
    refused(run("bench", bundle, *config(threads=most + 1)), f"outside 1..{most}")
    refused(run("generate", bundle, "x", *config(target_on="gpu")), "'gpu' is a GPU", "CPUs and NPUs")
    refused(run("generate", bundle, "x", *config(drafter_on="qnn")), "no graphs for 'qnn'", "--npu")


def test_a_trace_among_other_files(run: Run, bundle: Path, tmp_path: Path) -> None:
    """A bundle is refused; of other files it is said that they stay, until the trace is one of them."""
    before = sorted(bundle.rglob("*"))
    generate = "generate", bundle, "x", "-n", 2, "--trace"
    refused(run(*generate, bundle), f"--trace {bundle} is a bundle; give another directory")
    assert sorted(bundle.rglob("*")) == before
    (tmp_path / "thesis.txt").write_text("years of work")
    said = f"omnidraft: {tmp_path} has other files, which stay; the trace is in the files trace-*.odt"
    for times in range(2):
        code, _, err = run(*generate, tmp_path, "--json")
        assert code == 0 and err.startswith(said) == (times == 0)
    assert run(*generate, tmp_path / "new", "--json")[2] == ""
    assert run("wipe", tmp_path)[0] == 0
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_adapters_of_another_kind_name_the_right_command(run: Run, bundle: Path, tmp_path: Path) -> None:
    peft = tmp_path / "peft"
    peft.mkdir()
    (peft / "adapter_config.json").write_text("{}")
    convert = f"omnidraft adapter convert {peft} BUNDLE"
    refused(run("generate", bundle, "x", "--adapter", peft), convert)
    refused(run("bench", bundle, "--adapter", peft / "adapter_model.safetensors"), convert)


def test_options_that_contradict_are_refused_and_idle_ones_told(run: Run, bundle: Path) -> None:
    none = bundle / "none"  # before anything is loaded
    refused(run("generate", none, "x", *config(logprobs=True)), "logprobs", "add --json")
    for command in (("generate", none, "x"), ("chat", none)):
        refused(run(*command, *config(drafter=False), "--mode", "trie"), "--mode trie needs the drafter")
        refused(run(*command, "--mode", "plain", "-k", 4), "--mode plain and -k 4 contradict each other")
    refused(run("generate", none, "x", "--mode", "plain", "-k", "auto"), "no bundle at")
    for mode in ("lookup", "plain"):
        code, _, err = run("generate", bundle, "x", "-n", 2, *config(drafter=False), "--mode", mode, "--json")
        assert (code, err) == (0, "")
    code, _, err = run("generate", bundle, "x", "-n", 2, "--seed", 3, "--top-k", 2, "--json")
    assert code == 0
    assert err.splitlines() == [
        "omnidraft: --seed does nothing at temperature 0", "omnidraft: --top-k does nothing at temperature 0",
    ]  # fmt: skip
    code, _, err = run("generate", bundle, "x", "-n", 2, "--mode", "paper", "-t", 1, "--json")
    assert code == 0 and err.startswith("omnidraft: mode paper is approximate above temperature 0")


def test_a_refused_setting_is_named_by_its_option() -> None:
    number = SettingError("num_draft_tokens 49 is outside 0..48", "4 is usual", setting="num_draft_tokens")
    assert as_option(number) == "--num-draft-tokens 49 is outside 0..48; 4 is usual"
    assert as_option(SettingError("rank 9 does not fit", "give others")) == "rank 9 does not fit; give others"
    rate = SettingError("learning_rate nan is not a number", setting="learning_rate")
    assert as_option(rate) == "learning_rate nan is not a number", "it has no option"


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize(
    "command", [["--help"], ["generate", "BUNDLE", "Hi", "-n", "8"], ["inspect", "BUNDLE"]]
)
def test_output_that_cannot_be_written_is_one_sentence(
    bundle: Path, tmp_path: Path, command: list[str]
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    with (tmp_path / "out").open("wb") as out:
        process = subprocess.run(
            [sys.executable, "-m", "omnidraft", *(str(bundle) if c == "BUNDLE" else c for c in command)],
            stdout=out, stderr=subprocess.PIPE, text=True, env=environment, timeout=120,
            preexec_fn=lambda: limit_files(0),
        )  # fmt: skip
    assert process.returncode == 1, process.stderr
    assert process.stderr == f"omnidraft: the output cannot be written ({os.strerror(errno.EFBIG)})\n"


def config_of(checkpoint: Path) -> dict[str, object]:
    return dict(json.loads((checkpoint / "config.json").read_text()))


@pytest.mark.usefixtures("export_packages")
def test_refusals_of_export(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drafter, out = STARTERS / "drafter", tmp_path / "out"
    refused(run("export", tmp_path / "none", "-d", drafter, "-o", out), "none", "check the path")
    with monkeypatch.context() as patch:  # before the target is read, which may take long
        patch.setattr("omnidraft.export.bundle.read_model", lambda *_: pytest.fail("read a model"))
        refused(run("export", STARTERS / "a", "-d", tmp_path / "none", "-o", out), "none", "check the path")
    no_tokenizer = tmp_path / "no_tokenizer"
    shutil.copytree(STARTERS / "a", no_tokenizer)
    (no_tokenizer / "tokenizer.json").unlink()
    refused(run("export", no_tokenizer, "-d", drafter, "-o", out), "no tokenizer.json")
    bert = tmp_path / "bert"
    shutil.copytree(STARTERS / "a", bert)
    (bert / "config.json").write_text(json.dumps({**config_of(bert), "architectures": ["BertModel"]}))
    refused(run("export", bert, "-d", drafter, "-o", out), "BertModel", "LlamaForCausalLM")
    refused(run("export", STARTERS / "a", "-d", drafter, "-o", out, "--quant", "int3"), "int3", "int4")
    with monkeypatch.context() as patch:  # before anything is traced or written
        patch.setattr("omnidraft.export.bundle._write_models", lambda *_: pytest.fail("wrote a model"))
        refused(run("export", STARTERS / "a", "-d", drafter, "-o", out, "--max-length", 5000), "5000", "1024")
        narrow = tmp_path / "narrow"
        shutil.copytree(STARTERS / "a", narrow)
        (narrow / "config.json").write_text(json.dumps({**config_of(narrow), "vocab_size": 8190}))
        refused(run("export", narrow, "-d", drafter, "-o", out), "8190 wide", "has 8192 ids")
        shutil.rmtree(narrow)
    refused(
        run("export", "model.Q4_K_M.gguf", "-d", drafter, "-o", out), "there is no file", "check the path"
    )
    (tmp_path / "made").mkdir()
    (tmp_path / "made/manifest.json").write_text("{}")
    refused(run("export", tmp_path / "made", "-d", drafter, "-o", out), "is a bundle")
    shutil.rmtree(tmp_path / "made")
    if sys.platform == "linux":
        refused(run("export", STARTERS / "a", "-d", drafter, "-o", "/proc/x"), "/proc/x cannot be made (")
    for key in ("kv_length", "prefill_chunk", "num_draft_tokens", "npu_lora_rank"):
        file = config(**{key: 64})
        refused(run("export", STARTERS / "a", "-d", drafter, "-o", out, *file), f"{key} 64 is for --npu")
    for memory in (math.nan, 1e12, -1.0):
        file = config(check_memory=memory)
        refused(
            run("export", STARTERS / "a", "-o", out, *file),
            f"check_memory {memory} is outside 0 to 1,000,000 GB",
        )
    alone = "export", STARTERS / "a", "-d", "none", "-o", out
    refused(run(*alone, *config(share_drafter=True)), "share_drafter is for a drafter")
    refused(run(*alone, "--drafter-quant", "int8"), "--drafter-quant int8 is for a drafter")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    refused(run("export", STARTERS / "a", "-d", drafter, "-o", precious, "--overwrite"), "not a bundle")
    assert (precious / "thesis.txt").read_text() == "years of work"
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {"no_tokenizer", "bert", "precious"}, "a refused export leaves nothing behind"


@pytest.mark.usefixtures("export_packages")
@pytest.mark.parametrize("full_at", ["target/cpu/model.onnx"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_at: str
) -> None:
    """A full disk is reported at the latest when a file is synced; here, for one file."""
    sync = os.fsync

    def full(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        # A graph is written under a temporary name that holds its own.
        if Path(full_at).name in name and Path(full_at).parent.as_posix() in name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    out = tmp_path / "bundle"
    arguments = "export", STARTERS / "a", "-d", STARTERS / "drafter", "-o", out, "--quant", "int4"
    refused(run(*arguments), "disk is full", str(out.name))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("export_packages")
def test_a_disk_that_is_full_already_is_found_before_any_work(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnidraft.export.bundle.write_model", lambda *_: pytest.fail("work began"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    result = run("export", STARTERS / "a", "-d", STARTERS / "drafter", "-o", tmp_path / "bundle")
    refused(result, "the disk is full: the weights need at least", f"{tmp_path} has 1000000 left; make room")
    assert list(tmp_path.iterdir()) == []


def test_refusals_of_bench(run: Run, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + bytes(100))
    refused(run("bench", tmp_path / "model.gguf"), "model.gguf is a file", "export it first: `omnidraft")
    refused(run("bench", bundle, "--prompts", tmp_path / "none.txt"), "none.txt does not exist")
    (tmp_path / "binary.txt").write_bytes(b"ab\xff")
    refused(run("bench", bundle, "--prompts", tmp_path / "binary.txt"), "(byte 2 is not UTF-8)")
    (tmp_path / "empty.txt").write_text("\n")
    refused(run("bench", bundle, "--prompts", tmp_path / "empty.txt"), "no prompts")


def test_without_its_packages_export_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_packages, "find_spec", lambda name: None if name == "torch" else object())
    result = run("export", STARTERS / "a", "-d", STARTERS / "drafter", "-o", tmp_path / "out")
    refused(result, "needs torch", "run `pip install -c constraints.txt '.[all]'` in a checkout")


def test_no_remedy_names_a_package_that_no_registry_has() -> None:
    """Who runs such a command would get whatever is registered under that name."""
    files = sorted((ROOT / "src").rglob("*.py"))
    assert len(files) > 200
    for file in files:
        named = re.findall(r"pip install[^`\n]*omnidraft", file.read_text(encoding="utf-8"))
        assert named == [], file


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "Permission denied"),
        (ValueError("no such thing.\nand more"), "no such thing"),
        (TimeoutError(), "no answer in time"),
        (RuntimeError(), "no reason given"),
    ],
)
def test_a_reason_is_words_of_a_sentence(error: Exception, words: str) -> None:
    assert reason(error) == words


def test_no_message_names_a_python_exception(
    run: Run, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography", reason="signatures need the package cryptography")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no key")
    for call in (
        ("sign", bundle, "--key", wrong),
        ("verify", bundle, "--key", wrong),
        ("export", "nobody/nothing", "-d", STARTERS / "drafter", "-o", tmp_path / "out"),
    ):
        result = run(*call)
        refused(result)
        assert not re.search(r"[A-Z]\w*(Error|Exception)\b", result[2]), result[2]


@pytest.mark.usefixtures("export_packages")
def test_an_interrupted_export_leaves_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("omnidraft.export.bundle.write_target", interrupted)
    result = run("export", STARTERS / "a", "-d", STARTERS / "drafter", "-o", tmp_path / "out")
    assert result == (130, "", "omnidraft: stopped; nothing was written\n")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_without_permission(run: Run, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    assert run("inspect", tmp_path / "none")[0] == 1  # imports what the next refusal needs
    with closed(tmp_path / "closed"):
        result = run("inspect", tmp_path / "closed/x")
    refused(result, f"{tmp_path}/closed/x cannot be used (Permission denied); check the path and its perm")
