"""`--help`: panels of options, and the names that an option takes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from omnidraft import cli
from omnidraft.export.npu.npu_providers import NAMED
from omnidraft.export.quantize.quantization import FORMS
from omnidraft.runtime.session.modes import MODES
from support.command_line import Run, runs_without

ALL = [(name, lazy) for commands in cli.COMMANDS.values() for name, lazy in commands.items()]
WIDE = "10000"  # columns: no name is broken


@pytest.mark.parametrize(
    ("command", "option", "names"),
    [
        ("generate", "--mode", MODES),
        ("export", "--quant", ("auto", *(form.name for form in FORMS))),
        ("export", "--npu", (*NAMED, "all")),
    ],
)
def test_help_lists_the_names_that_an_option_takes(
    command: str, option: str, names: Iterable[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", WIDE)
    status, out, _ = run(command, "--help")
    line = next(line for line in out.splitlines() if re.search(rf"(^|\s){option}\s", line))
    words = set(re.findall(r"[\w-]+", line))
    assert status == 0 and words.issuperset(names), line


def test_paragraphs_are_broken_by_the_terminal_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", WIDE)
    for command, begins, ends in (
        (("learn",), "BUNDLE was exported", "Nothing leaves the machine."),
        (("sync", "pull"), "Signature, models, tokenizers", "the next pull tries it again."),
        (("export",), "The graphs are compared", "plain decoding on this machine."),
    ):
        lines = [line.strip() for line in run(*command, "--help")[1].splitlines()]
        assert any(line.startswith(begins) and line.endswith(ends) for line in lines), command


@pytest.mark.parametrize(("name", "lazy"), ALL, ids=[name for name, _ in ALL])
def test_the_list_of_commands_says_what_each_says_of_itself(name: str, lazy: cli.LazyCommand) -> None:
    command = cli.loaded(name, lazy)
    assert lazy.help == command.help.split("\n\n")[0]


def test_help_loads_nothing_of_the_runtime() -> None:
    """So it is there at once; neither numpy nor onnxruntime is needed to say what there is."""
    heavy = {"numpy", "onnxruntime", "tokenizers", "torch", "jinja2", "asyncio", "omnidraft.runtime"}
    for arguments in (["--help"], ["--version"], [], ["generate", "--help"], ["chat", "--help"]):
        runs_without(heavy, *arguments)


def test_a_shell_completes_commands_and_options(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_OMNIDRAFT_COMPLETE", "complete_bash")
    for words, place, expected in (
        ("omnidraft ex", 1, "export"),
        ("omnidraft export --tr", 2, "--train-step"),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(place))
        assert expected in run()[1].split()


def test_the_command_line_is_small() -> None:
    """Everything else stands in the file of --config."""
    counted = {name: count(cli.loaded(name, lazy)) for name, lazy in ALL if name != "sync"}
    assert sum(counted.values()) <= 110, counted


def count(command: Any) -> int:
    """Arguments and options of a command, and of those below it; --help is not counted."""
    own: int = sum(parameter.name != "help" for parameter in command.params)
    return own + sum(count(each) for each in getattr(command, "commands", {}).values())
