"""The command line: registers the commands, and turns errors into one sentence and an exit status.

The module of a command is imported when that command runs, so that `--help`, `--version` and completion in a
shell start at once.
"""

import errno
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from omnidraft import __version__
from omnidraft.commands.terminal.stop_signals import ends_at_once, stop_signals
from omnidraft.errors import OmnidraftError, SettingError, shown


def join_lines(group: typer.Typer) -> None:
    """Give every command of a group, and of the groups in it, its docstring with one line a paragraph."""
    for command in group.registered_commands:
        paragraphs = (getdoc(command.callback) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            join_lines(inner.typer_instance)


@dataclass(frozen=True)
class LazyCommand:
    """A command, or a group of commands, by the place of its code.

    Attributes:
        module: below `omnidraft.commands`.
        name: of its function, or of its Typer for a group.
        help: the first paragraph of its documentation, which `omnidraft --help` shows.
    """

    module: str
    name: str
    help: str


COMMANDS: Mapping[str, Mapping[str, LazyCommand]] = {
    "Use a bundle": {
        "generate": LazyCommand(
            "generate",
            "generate",
            "Continue a prompt. The text has the target's own distribution; drafting only saves time.",
        ),
        "chat": LazyCommand(
            "chat.chat",
            "chat",
            "Talk to a bundle in the terminal. Ctrl-C cancels an answer; /help lists the commands.",
        ),
        "serve": LazyCommand(
            "serve",
            "serve",
            "Serve a bundle to OpenAI clients on this machine, with a page to chat; Ctrl-C ends it.",
        ),
        "bench": LazyCommand(
            "bench",
            "bench_command",
            "Time plain against speculative decoding, interleaved, prompt by prompt.",
        ),
        "config": LazyCommand(
            "config",
            "config_command",
            "Print the settings of `generate`, `chat` and `bench` as TOML, with comments, for --config.",
        ),
        "eval": LazyCommand(
            "evaluate",
            "evaluate",
            "Measure how well a bundle's target predicts text: perplexity by kind, and beside its source.",
        ),
    },
    "Make a bundle": {
        "demo": LazyCommand(
            "demo.demo",
            "demo",
            "Fetch and export a real model, answer questions, and compare plain and speculative speed.",
        ),
        "export": LazyCommand(
            "export",
            "export",
            "Turn a target and a drafter into a bundle for onnxruntime, and check the bundle.",
        ),
        "pack": LazyCommand(
            "archive",
            "pack",
            "Pack the parts of a bundle that a device needs into one file, and print its sizes.",
        ),
        "unpack": LazyCommand(
            "archive", "unpack", "Unpack an archive of `omnidraft pack`, and check every hash."
        ),
        "inspect": LazyCommand(
            "inspect.inspect",
            "inspect",
            "Verify and show a bundle, an archive, an adapter, n-grams or recordings.",
        ),
        "grammar": LazyCommand(
            "grammar",
            "grammar",
            "Compile a JSON Schema, a pattern, choices or tools to a grammar that outputs must belong to.",
        ),
        "doctor": LazyCommand(
            "doctor",
            "doctor",
            "Check this machine, and a bundle on it; the verdict comes first.",
        ),
        "keygen": LazyCommand(
            "signing",
            "keygen",
            "Make a pair of Ed25519 keys: the private key signs bundles, the public key checks them.",
        ),
        "sign": LazyCommand(
            "signing",
            "sign",
            "Verify every hash of a bundle and sign its manifest; writes manifest.sig into the bundle.",
        ),
        "verify": LazyCommand(
            "signing",
            "verify",
            "Check a bundle's signature and every hash, and name the files that it does not cover.",
        ),
    },
    "Make the drafter better": {
        "learn": LazyCommand(
            "learn.learn",
            "learn",
            "Train the drafter of BUNDLE on TRACES, or while it answers --prompts.",
        ),
        "train": LazyCommand(
            "train",
            "train",
            "Train a drafter on traces: a LoRA adapter for the bundle, or every weight as a checkpoint.",
        ),
    },
    "Manage learned and recorded files": {
        "adapter": LazyCommand(
            "adapter", "app", "LoRA adapters: convert from peft, or fold into a checkpoint."
        ),
        "cache": LazyCommand(
            "cache",
            "app",
            "Files of learned n-grams: merge them; `omnidraft inspect` and `wipe` take them, too.",
        ),
        "wipe": LazyCommand(
            "inspect.inspect",
            "wipe",
            "Delete a file of n-grams, also a damaged one, or recordings. Other files stay.",
        ),
        "sync": LazyCommand(
            "sync.sync",
            "app",
            "Share what drafters learned: devices push to a store and pull from it, others publish.",
        ),
    },
}


class LazyGroup(TyperGroup):
    """The group of all commands; one that is asked for is imported then."""

    def resolve_command(self, *arguments: Any) -> Any:
        """The name, the command and the other arguments; see `click.Group`."""
        name, command, rest = super().resolve_command(*arguments)
        typed = str(name)
        found = next((commands[typed] for commands in COMMANDS.values() if typed in commands), None)
        if found is None:
            return name, command, rest
        with ends_at_once():  # what interrupts an import can be lost in a callback of the interpreter
            return name, loaded(typed, found), rest


def loaded(name: str, lazy: LazyCommand) -> Any:
    """The command itself, for click.

    Args:
        name: as it is typed.
        lazy: its place.
    """
    found = getattr(import_module(f"omnidraft.commands.{lazy.module}"), lazy.name)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(name)(function)
    join_lines(found)
    # `get_command` would give a group options for completion, which are of `omnidraft` alone.
    is_group = len(found.registered_commands) > 1 or found.registered_callback is not None
    return typer.main.get_group(found) if is_group else typer.main.get_command(found)


def _not_imported() -> None:
    """The function of a command in `omnidraft --help`; `LazyGroup` imports the command before it runs."""


app = typer.Typer(
    name="omnidraft",
    cls=LazyGroup,
    help="Speculative decoding across tokenizers: one small drafter for many target models, whose output "
    "distribution stays their own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, commands in COMMANDS.items():
    for name, lazy in commands.items():
        app.command(name, help=lazy.help, rich_help_panel=panel)(_not_imported)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; a refusal is one sentence on standard error and exit status 1."""
    with stop_signals():
        try:
            _run()
        except KeyboardInterrupt:
            sys.exit(130)


def _run() -> None:
    try:
        try:
            app(prog_name="omnidraft")
        finally:  # an error of the last write is raised here, where it can be reported
            sys.stdout.flush()
    except SettingError as error:
        from omnidraft.commands.terminal.generation_options import as_option

        _fail(as_option(error))
    except OmnidraftError as error:
        _fail(str(error))
    except UnicodeEncodeError as error:
        _fail(f"the output cannot be written as {error.encoding}; set PYTHONIOENCODING=utf-8")
    except OSError as error:
        if error.filename is not None:  # not of a standard stream
            if isinstance(error, PermissionError):
                where = shown(error.filename)
                _fail(f"{where} cannot be used ({error.strerror}); check the path and its permissions")
            raise
        if error.errno != errno.EPIPE:  # EPIPE: the reader has closed the pipe, which needs no message
            why = "standard output is closed" if error.errno == errno.EBADF else error.strerror
            sys.stderr.write(f"omnidraft: the output cannot be written ({why})\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes once more when it ends
        sys.exit(1)


def _fail(sentence: str) -> None:
    sys.stderr.write(f"omnidraft: {sentence}\n")
    sys.exit(1)


if __name__ == "__main__":
    main()
