"""The command line: thin, each command calls one function and shows what it returns."""

import errno
import os
import signal
import sys
import threading
from dataclasses import asdict
from inspect import getdoc
from pathlib import Path
from typing import Annotated

import typer

from omnidraft import __version__
from omnidraft.commands import adapter as adapter_commands
from omnidraft.commands import cache as cache_commands
from omnidraft.commands import chat as chat_command
from omnidraft.commands import doctor as doctor_command
from omnidraft.commands import export as export_command
from omnidraft.commands import generate as generate_command
from omnidraft.commands import learn as learn_command
from omnidraft.commands import signing
from omnidraft.commands import trace as trace_commands
from omnidraft.commands import train as train_command
from omnidraft.commands.adapt import adapt as adapt_command
from omnidraft.commands.sync import sync as sync_commands
from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.options import print_json
from omnidraft.errors import OmnidraftError, SettingError
from omnidraft.runtime.session.api import load

app = typer.Typer(
    name="omnidraft",
    help="One small drafter that speeds up any target language model, without changing what it says.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(name="export")(export_command.export)
app.command(name="learn")(learn_command.learn)
app.command(name="train")(train_command.train)
app.command(name="adapt")(adapt_command.adapt)
for command in (doctor_command.doctor, signing.keygen, signing.sign, signing.verify):
    app.command()(command)
app.command(name="generate")(generate_command.generate)
app.command(name="chat")(chat_command.chat)
app.add_typer(adapter_commands.app, name="adapter")
app.add_typer(cache_commands.app, name="cache")
app.add_typer(sync_commands.app, name="sync")
app.add_typer(trace_commands.app, name="trace")


@app.command()
def check(
    drafter: Annotated[str, typer.Argument(help="The drafter's directory or tokenizer.json.")],
    target: Annotated[str, typer.Argument(help="The target's directory or tokenizer.json.")],
    as_json: options.Json = False,
) -> None:
    """Compare two vocabularies as bytes: what the drafter can write of the target's language."""
    from omnidraft.commands.check import compare
    from omnidraft.commands.terminal import output

    with output.progress_bar("compare", quiet=as_json) as bar:
        found = compare(drafter, target, bar.step)
    if as_json:
        return print_json(asdict(found))
    output.out.print(output.comparison_table(found, options.short(drafter), options.short(target)))


@app.command()
def inspect(
    bundle: options.BundlePath, public_key: options.PublicKey = None, as_json: options.Json = False
) -> None:
    """Verify every hash of a bundle and show what is in it."""
    from omnidraft.commands.terminal import output
    from omnidraft.runtime.bundle.bundle import open_bundle

    found = open_bundle(bundle, public_key)
    if as_json:
        return print_json(
            {**found.manifest, "memory": output.memory_json(found), "signed_by": found.signed_by}
        )
    output.out.print(output.bundle_table(found))


@app.command()
def bench(
    bundle: options.BundlePath,
    prompts: Annotated[
        Path | None,
        typer.Option(help="A text file with a prompt on each line (default: built in).", readable=False),
    ] = None,
    max_new_tokens: options.MaxNewTokens = 128,
    num_draft_tokens: options.Lengths = "auto",
    head_threshold: options.HeadThreshold = "1",
    mode: options.Mode = "trie",
    temperature: options.Temperature = 0.0,
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Time this machine first, for the draft length.")
    ] = True,
    threads: options.Threads = None,
    target_on: options.TargetOn = "cpu",
    drafter_on: options.DrafterOn = "cpu",
    public_key: options.PublicKey = None,
    adapter: options.AdapterPath = None,
    bitwise: options.Bitwise = False,
    as_json: options.Json = False,
) -> None:
    """Time plain decoding against speculation, interleaved, prompt by prompt."""
    from omnidraft.commands import bench as benchmark
    from omnidraft.commands.terminal import output
    from omnidraft.sample_prompts import PROMPTS

    session = load(
        bundle,
        threads=threads,
        target_on=target_on,
        drafter_on=drafter_on,
        public_key=public_key,
        adapter=adapter,
        bitwise=bitwise,
    )
    if measure:
        session.measure(PROMPTS[0])
    with output.progress_bar("bench", quiet=as_json) as bar:
        found = benchmark.bench(
            session,
            PROMPTS if prompts is None else options.lines(prompts),
            max_new_tokens=max_new_tokens,
            num_draft_tokens=options.lengths(num_draft_tokens),
            head_threshold=options.threshold(head_threshold),
            mode=mode,  # type: ignore[arg-type] # any text; a wrong one is refused there
            temperature=temperature,
            progress=bar.step,
        )
    if as_json:
        return print_json(benchmark.as_json(found))
    output.out.print(output.bench_table(found))


@app.command()
def demo(
    place: Annotated[Path, typer.Option("--out", "-o", help="Where the bundles and the picture go.")] = Path(
        "omnidraft-demo"
    ),
    as_json: options.Json = False,
) -> None:
    """Export both starter pairs, answer a prompt with each, and draw plain against speculative."""
    options.need_export_packages()
    from omnidraft.commands import demo as demonstration
    from omnidraft.commands.terminal import output

    with output.progress_bar("export", quiet=as_json) as bar:
        pairs = demonstration.export_starters(place, bar.stage)
    shown = []
    for pair in pairs:
        with output.progress_bar(f"time {pair.name}", quiet=as_json) as bar:
            shown.append(demonstration.show(pair, bar.step))
    picture = place / "speed.png"
    demonstration.draw(shown, picture)
    if as_json:
        return print_json(demonstration.to_json(shown))
    output.show_demo(shown, demonstration.PROMPT, picture)


def _let_flow(group: typer.Typer) -> None:
    """Take the source's line breaks out of the paragraphs of help texts, which a terminal breaks anew."""
    for each in group.registered_commands:
        paragraphs = (getdoc(each.callback) or "").split("\n\n")
        each.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for found in group.registered_groups:
        if found.typer_instance is not None:
            _let_flow(found.typer_instance)


_let_flow(app)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line: a refusal is one sentence on standard error and exit status 1."""
    if threading.current_thread() is threading.main_thread():
        # A polite kill unwinds like Ctrl-C does, so that nothing half-written stays behind.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        try:
            app()
        finally:  # here, where a full disk can still be told
            sys.stdout.flush()
    except SettingError as error:
        sys.stderr.write(f"omnidraft: {options.as_typed(str(error), sys.argv)}\n")
        sys.exit(1)
    except OmnidraftError as error:
        sys.stderr.write(f"omnidraft: {error}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except UnicodeEncodeError as error:
        sys.stderr.write(
            f"omnidraft: the output cannot be written as {error.encoding}; set PYTHONIOENCODING=utf-8\n"
        )
        sys.exit(1)
    except OSError as error:
        if error.filename is not None:  # none of the standard streams
            raise
        if error.errno != errno.EPIPE:  # else the reader has gone, and knows it
            sys.stderr.write(f"omnidraft: the output cannot be written ({error.strerror})\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python tries once more when it ends
        sys.exit(1)


if __name__ == "__main__":
    main()
