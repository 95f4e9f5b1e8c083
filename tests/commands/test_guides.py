"""The command lines of the guides: each runs as printed on a bundle with everything, or at least parses.

A line runs in the order of its document, with the bundle, traces, adapter and profile in place of the names
that the guides use for them, and with little work: few tokens, few prompts, few steps.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from omnidraft.commands.demo.show_demo import what_next
from omnidraft.commands.starters import WHOLE, guide_files
from omnidraft.learning.online.profiles import profile_of
from omnidraft.runtime.bundle.bundle import open_bundle
from support.command_line import Run
from support.places import ROOT, STARTERS

GUIDES = sorted(
    str(file.relative_to(ROOT))
    for file in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    if re.search(r"^    omnidraft ", file.read_text(encoding="utf-8"), re.MULTILINE)
)
# They need more than a bundle, or minutes: their options are checked, and other tests run them.
PARSED = (["demo"], ["serve"], ["export"], ["train"], ["sync"], ["adapter", "convert"], ["adapter", "merge"])
NOT_HERE = {"npu.toml", "shared"}  # static graphs, and the directory of `sync pull`
LITTLE = {
    "generate": ["-n", "4"],
    "chat": ["-n", "4"],
    "bench": ["-n", "4", "--config", "bench.toml", "--prompts", "two.txt"],
}


def lines_of(guide: str) -> Iterator[list[str]]:
    """The command lines of a document, as words after `omnidraft`."""
    text = (ROOT / guide).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in re.findall(r"^    omnidraft .*$", text, re.MULTILINE):
        yield shlex.split(line, comments=True)[1:]


@pytest.fixture(scope="module")
def made(learnable: Path, learned_traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as `omnidraft demo` leaves it, with the traces that the guides record."""
    place = tmp_path_factory.mktemp("guides")
    shutil.copytree(learnable, place / WHOLE)
    shutil.copytree(learned_traces, place / "my-trace")
    profile = profile_of(STARTERS / "learned", open_bundle(learnable))
    shutil.copytree(profile.directory, place / "learned" / profile.directory.name)
    guide_files(place, profile)
    (place / "two.txt").write_text("How many?\nHow much?\n")
    for name, text in (("settings", 'stop = ["####"]'), ("export", ""), ("training", ""), ("npu", "")):
        (place / f"{name}.toml").write_text(f"{text}\n")
    person = {"properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}
    (place / "person.json").write_text(json.dumps(person))
    (place / "answers.txt").write_text("yes\nno\n")
    (place / "bench.toml").write_text('measure = "never"\n')
    (place / "traces.toml").write_text("steps = 1\n")
    (place / "prompts.toml").write_text("max_new_tokens = 4\ncount = 1\n")
    return place


@pytest.mark.parametrize("guide", GUIDES)
def test_every_line_of_a_guide_runs(
    guide: str, made: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "guide"
    shutil.copytree(made, place)
    monkeypatch.chdir(place)
    lines = list(lines_of(guide))
    assert lines
    for words in lines:
        monkeypatch.setattr(sys, "stdin", io.StringIO("/quit\n"))  # of a chat
        status, out, err = run(*_call(words))
        assert status == 0, f"omnidraft {shlex.join(words)}\n{out}{err}"


def _call(words: Sequence[str]) -> list[str]:
    """The arguments that stand for a printed line."""
    command = list(words)
    if any(command[: len(parsed)] == parsed for parsed in PARSED) or NOT_HERE & set(command):
        return [*(word for word in command if word != "..."), "--help"]
    real = {
        "path/to/target": STARTERS / "b",
        "path/to/drafter": STARTERS / "drafter",
        "model.gguf": STARTERS / "b",
        "examples/drafter": ROOT / "examples/drafter",
        "examples/starters/a": STARTERS / "a",
        "examples/starters/drafter": STARTERS / "drafter",
        "omnidraft-demo/my-bundle": "my-bundle",
        "omnidraft-demo/learned": "learned",
    }
    replaced = [str(real.get(word, word)) for word in command]
    more = [] if "--grammar" in command else LITTLE.get(command[0], [])
    if command[0] == "learn":
        more = ["--config", "prompts.toml" if "--prompts" in command else "traces.toml"]
    return [*replaced, *_absent(more, replaced)]


def _absent(more: Sequence[str], command: Sequence[str]) -> list[str]:
    """The options of `more` that a command does not have yet."""
    options: list[list[str]] = []
    for word in more:
        if word.startswith("-"):
            options.append([])
        options[-1].append(word)
    return [word for option in options if option[0] not in command for word in option]


def test_what_the_demo_suggests_next_are_commands_of_its_directory(run: Run) -> None:
    lines = [shlex.split(line) for line in what_next(Path("some place"))]
    assert ["cd", "some place"] in lines
    commands = [words[1:] for words in lines if words[:1] == ["omnidraft"]]
    assert len(commands) > 3 and all(WHOLE in words for words in commands)
    for words in commands:
        assert run(*words, "--help")[0] == 0, words
