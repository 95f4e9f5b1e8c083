"""The command line: registers the commands, and turns errors into one sentence and an exit status."""

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Annotated

import typer

from omnidraft import __version__
from omnidraft.commands import (
    adapter,
    bench,
    cache,
    chat,
    check,
    demo,
    doctor,
    export,
    generate,
    inspect,
    learn,
    signing,
    trace,
    train,
)  # fmt: skip
from omnidraft.commands.adapt import adapt
from omnidraft.commands.sync import sync
from omnidraft.commands.terminal.generation_options import as_typed
from omnidraft.commands.terminal.help_text import join_lines
from omnidraft.errors import OmnidraftError, SettingError

app = typer.Typer(
    name="omnidraft",
    help="One small drafter that speeds up any target language model and keeps its output distribution.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Use a bundle": {"generate": generate.generate, "chat": chat.chat, "bench": bench.bench_command},
    "Make a bundle": {
        "demo": demo.demo, "check": check.check, "export": export.export, "inspect": inspect.inspect,
        "doctor": doctor.doctor, "keygen": signing.keygen, "sign": signing.sign, "verify": signing.verify,
    },
    "Make the drafter better": {"adapt": adapt.adapt, "learn": learn.learn, "train": train.train},
}  # fmt: skip
for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)
for name, group in {"adapter": adapter.app, "cache": cache.app, "trace": trace.app, "sync": sync.app}.items():
    app.add_typer(group, name=name, rich_help_panel="Manage what was learned and recorded")
join_lines(app)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; a refusal is one sentence on standard error and exit status 1."""
    if threading.current_thread() is threading.main_thread():
        # SIGTERM unwinds as Ctrl-C does, so that no half-written file is left.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        try:
            app()
        finally:  # an error of the last write is raised here, where it can be reported
            sys.stdout.flush()
    except OmnidraftError as error:
        _fail(as_typed(error, sys.argv) if isinstance(error, SettingError) else str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except UnicodeEncodeError as error:
        _fail(f"the output cannot be written as {error.encoding}; set PYTHONIOENCODING=utf-8")
    except OSError as error:
        if error.filename is not None:  # not of a standard stream
            raise
        if error.errno != errno.EPIPE:  # EPIPE: the reader has closed the pipe, which needs no message
            sys.stderr.write(f"omnidraft: the output cannot be written ({error.strerror})\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes once more when it ends
        sys.exit(1)


def _fail(sentence: str) -> None:
    sys.stderr.write(f"omnidraft: {sentence}\n")
    sys.exit(1)


if __name__ == "__main__":
    main()
