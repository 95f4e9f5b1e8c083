"""`omnidraft chat` through a pipe and in a real pseudo-terminal, with Ctrl-C."""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from omnidraft import Generation, GenerationConfig, load
from omnidraft.runtime.bundle.bundle import MANIFEST
from omnidraft.runtime.chat.prompt_template import PromptTemplate, SystemSlot
from support.command_line import config
from support.places import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "dumb"}
QUESTION = "What is 3 and 4?"
SAME = "the answer is the same again; -t 0.8 samples)"


def run(
    bundle: Path, *lines: str, options: tuple[str, ...] = ("-n", "24")
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, "chat", str(bundle), *options],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True, text=True, timeout=120, env=ENVIRONMENT,
    )  # fmt: skip


def piped(bundle: Path, *lines: str, options: tuple[str, ...] = ("-n", "24")) -> str:
    process = run(bundle, *lines, options=options)
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr
    return process.stdout


def shown(answer: Generation) -> str:
    """An answer as the chat shows it: with a mark where the limit cut it."""
    cut = f" [cut at {len(answer.finish().token_ids)} tokens; -n sets the limit]"
    return answer.text + (cut if answer.stop_reason == "length" else "")


def test_a_conversation_through_a_pipe(bundle: Path, tmp_path: Path) -> None:
    session, config = load(bundle), GenerationConfig(max_new_tokens=24)
    answers = [shown(session.chat(q, config)) for q in (QUESTION, "And then?")]
    file = tmp_path / "a.session"
    out = piped(
        bundle, QUESTION, f"/save {file}", "And then?", "/reset", "And then?", f"/load {file}", "And then?",
        "/stats", "/nonsense", "/save", "/load no/such/file", "/help", "", "/quit", "never read",
    )  # fmt: skip
    assert out.startswith(answers[0] + "\n" + f"saved as {file}\n" + answers[1] + "\na new conversation\n")
    assert out.count(answers[1]) == 2, "after /load the conversation goes on as it went"
    assert f"1 turn from {file}\n> {QUESTION}\n{answers[0]}\n" in out
    assert re.search(r"1 turn loaded, since then 1 answer, \d+ tokens, .* per target pass", out)
    assert re.search(r"\d+ tokens of prompts read at \d+ a second, first token after \d+\.\d+ s\n", out)
    assert re.search(r"positions used, [\d.]+ [MG]B of memory at the peak", out) or sys.platform == "win32"
    assert re.search(r"\d+ of 256 positions used", out)
    assert "/nonsense is not a command" in out and "/save needs a file" in out
    assert "no/such/file cannot be read" in out and "/reset" in out
    assert "never read" not in out


def test_an_error_does_not_end_the_chat(bundle: Path) -> None:
    out = piped(bundle, "word " * 300, QUESTION)
    assert "the context holds 256; shorten the message, or the system prompt (/system)\n" in out
    assert shown(load(bundle).chat(QUESTION, GenerationConfig(max_new_tokens=24))) in out


def test_an_unfinished_answer_goes_on_after_a_load(bundle: Path, tmp_path: Path) -> None:
    session = load(bundle)
    answer = session.chat(QUESTION, GenerationConfig(max_new_tokens=24))
    next(iter(answer))
    session.save(tmp_path / "a")
    out = piped(bundle, f"/load {tmp_path / 'a'}", "/quit")
    assert out == f"1 turn from {tmp_path / 'a'}\n> {QUESTION}\n{shown(answer)}\n"


def test_undo_regenerate_and_instructions(bundle: Path) -> None:
    session, config = load(bundle), GenerationConfig(max_new_tokens=8)
    session.system = "Be brief."
    first = shown(session.chat(QUESTION, config))
    second = shown(session.chat("And\nthen?", config))
    session.system = None
    third = shown(session.regenerate(config))
    out = piped(
        bundle, QUESTION, "Never mind.", "/undo", "And\\", "then?", "/undo",
        "And\\", "then?", "/system none", "/regenerate", "/undo", "/undo", "/undo",
        "/regenerate", "/quit",
        options=("-n", "8", "--system", "Be brief."),
    )  # fmt: skip
    assert out.startswith(first + "\n")
    assert out.count(second + "\n") >= 2 and "taken back: Never mind." in out
    assert f"there is no system prompt (from the next answer on)\n(at temperature 0 {SAME}\n{third}\n" in out
    assert out.endswith(
        "no message to take back; begin with one\nthere is no answer to generate again; begin "
        "with a message\n"
    )


def with_prompt(bundle: Path, place: Path, **fields: object) -> Path:
    """A copy of a bundle, in which fields of the prompt are others."""
    copy = Path(shutil.copytree(bundle, place))
    manifest = json.loads((copy / MANIFEST).read_text())
    manifest.pop("seal")
    manifest["prompt"] |= fields
    rest = ('",' + json.dumps(manifest)[1:]).encode()
    (copy / MANIFEST).write_bytes(b'{"seal": "' + hashlib.sha256(rest).hexdigest().encode() + rest)
    return copy


def test_what_the_template_itself_adds_is_told(bundle: Path, tmp_path: Path) -> None:
    slot = {"before": "<|sys|>\n", "after": "\n<|user|>\n"}
    told = "there is no system prompt of yours, and the chat template writes its own: "
    named = with_prompt(
        bundle, tmp_path / "a", prefix="<|sys|>\nYou are Ann.\n\x1b[2JBe kind.\n<|user|>\n", system=slot
    )
    lines = piped(named, "/system", "/system Be brief.", "/system none", "/quit").splitlines()
    own = told + r"You are Ann.\n\x1b[2JBe kind."
    assert lines == [
        own, "system prompt: Be brief. (from the next answer on)", f"{own} (from the next answer on)",
    ]  # fmt: skip
    for prefix in ("<|sys|>\n\n<|user|>\n", "<|sys|>\n<|user|>\n", "<|user|>\n"):
        assert PromptTemplate(prefix, "", system=SystemSlot(**slot)).default_system is None
    none = with_prompt(bundle, tmp_path / "b", system=None)
    out = piped(none, "/system", "/system Be brief.", "/quit")
    place = "chat template has no place for "
    assert out.startswith(
        f"there is no system prompt, and the {place}one\nthis bundle's {place}a system prompt"
    )


def test_a_model_without_a_chat_template_is_told(bundle: Path, tmp_path: Path) -> None:
    bare = {"suffix": "", "between": "", "after": "", "begin": "", "lead": "", "system": None, "think": None}
    base = with_prompt(bundle, tmp_path / "bare", prefix="<s>", template=None, **bare)
    out = piped(base, "/system", "/system Be brief.", "Once upon a time", "/quit", options=("-n", "4"))
    answer = shown(load(base).chat("Once upon a time", GenerationConfig(max_new_tokens=4)))
    refusal = (
        "this model has no chat template, and so no place for a system prompt; put the instructions into"
    )
    assert out == (
        "there is no system prompt, and no chat template that has a place for one\n"
        f"{refusal} the first message\n{answer}\n"
    )
    for path, says in ((base, True), (bundle, False)):
        done = run(path, options=("--system", "Be brief.")) if says else run(path)
        assert ("omnidraft: this model has no chat template: it continues each" in done.stderr) is says
        assert (refusal in done.stderr) is says and done.returncode == says


def test_a_seed_gives_each_answer_other_random_numbers(bundle: Path) -> None:
    """Also where an answer is generated again; the same program gives the same texts."""
    lines, options = (
        (QUESTION, "/regenerate", "/regenerate", "/quit"),
        ("-n", "8", "-t", "1", *map(str, config(seed=3))),
    )
    out = piped(bundle, *lines, options=options)
    assert len(set(out.strip().split("tokens; -n sets the limit]"))) >= 3 and out == piped(
        bundle, *lines, options=options
    )


def test_files_are_named_as_people_type_them(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENVIRONMENT, "HOME", str(tmp_path))
    essay = tmp_path / "an essay"
    essay.write_text("mine")
    out = piped(bundle, QUESTION, "/save ~/x", "/load '~/x'", f'/save "{essay}"', "/save ~/x", "/quit")
    assert out.count(f"saved as {tmp_path / 'x'}\n") == 2, "a session takes a session's place"
    assert f"1 turn from {tmp_path / 'x'}" in out
    assert f"{essay} is not a session file, so it is not replaced; choose another name" in out
    assert essay.read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["an essay", "x"]


def test_statistics_begin_anew_with_the_conversation(bundle: Path) -> None:
    out = piped(bundle, QUESTION, "/reset", "/stats", "/quit")
    assert "0 answers, 0 tokens" in out


# ^C typed into a terminal becomes SIGINT in the processes whose terminal it is.
TAKE_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
PROGRAM = "from omnidraft.cli import main; main()"
SLOW = """
import time
from omnidraft.runtime.models.ort_model import OrtModel
run = OrtModel._run
def late(self, *arguments):
    time.sleep(0.05)
    return run(self, *arguments)
OrtModel._run = late
"""


class Terminal:
    """A chat in a pseudo-terminal: type, and wait for output."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self.master, self.process, self.shown = master, process, ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def wait_for(self, pattern: str, seconds: float = 120.0) -> str:
        """The output up to the end of the pattern, which is removed from `shown`."""
        end = time.monotonic() + seconds
        while (match := re.search(pattern, self.shown)) is None:
            ready, _, _ = select.select([self.master], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{pattern!r} did not come; shown: {self.shown!r}"
            self.shown += os.read(self.master, 4096).decode("utf-8", "replace")
        before, self.shown = self.shown[: match.end()], self.shown[match.end() :]
        return before

    def insist(self, text: str, pattern: str) -> str:
        """Type until the pattern comes.

        Python misses a signal that comes just before it begins to read a line, and drops the line.
        """
        for _ in range(9):
            self.type(text)
            with suppress(AssertionError):
                return self.wait_for(pattern, seconds=5.0)
        self.type(text)
        return self.wait_for(pattern)


@contextmanager
def terminal(bundle: Path, *options: str, program: str = PROGRAM) -> Iterator[Terminal]:
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL + program, "chat", str(bundle), *options],
        stdin=slave, stdout=slave, stderr=slave, env=ENVIRONMENT, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(slave)
        try:
            yield Terminal(master, process)
        finally:
            if process.poll() is None:
                process.kill()
            os.close(master)


def test_ctrl_c_cancels_the_answer_and_not_the_program(bundle: Path) -> None:
    """The answers are slowed down, so that the key comes while they stream, on a busy machine too."""
    with terminal(
        bundle, "-n", "120", "-k", "1", *map(str, config(stop=["\u2603"])), program=SLOW + PROGRAM
    ) as chat:
        chat.wait_for("> ")
        for _ in range(3):
            chat.type("Tell me a long story about a dog.\r")
            chat.wait_for(r"dog\.\r\n")
            chat.wait_for(r"\S")  # the answer has begun
            chat.type("\x03")
            shown = chat.wait_for(r"\n> ")
            assert "[cancelled]" in shown and "limit]" not in shown
            assert "Traceback" not in shown
            assert chat.process.poll() is None
        chat.insist("\x03", r"/quit leaves\r\n> ")  # with nothing to cancel
        assert int(re.findall(r"(\d+) answers", chat.insist("/stats\r", r"positions used.*\r\n> "))[0]) == 3
        chat.type("What is 3 and 4?\r")
        chat.wait_for(r"4\?\r\n")
        assert chat.wait_for(r"\n> ", seconds=120.0).strip(" >\r\n")
        chat.type("\x04")  # Ctrl-D
        assert chat.process.wait(60) == 0


def test_pasted_lines_are_one_message(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With brackets around the paste, as terminals send them, and without, as old ones do."""
    monkeypatch.setitem(ENVIRONMENT, "TERM", "xterm")
    with terminal(bundle, "-n", "4") as chat:
        chat.wait_for(r"target: .*, drafter: .*; /help lists the commands")
        chat.wait_for("> ")
        for sent in ("\x1b[200~one\rtwo\x1b[201~\r", "one\rtwo\r"):
            chat.type(sent)
            chat.wait_for(r"limit\]\r\n")
            chat.wait_for("> ")
            chat.type("/undo\r")
            chat.wait_for(r"taken back: one\r\ntwo\r\n")
            chat.wait_for("> ")
        chat.type("/quit\r")
        assert chat.process.wait(60) == 0
