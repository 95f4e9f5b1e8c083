"""`omnidraft learn`: its options, and which of its two ways they ask for. Neither needs torch."""

from pathlib import Path
from typing import Annotated

import typer

from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.settings_file import SettingsFile
from omnidraft.errors import SettingError


def learn(
    bundle: options.BundlePath,
    traces: Annotated[
        list[Path] | None,
        typer.Argument(metavar="TRACES", help="Directories of recordings, or files of them.", readable=False),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Answer these prompts and learn from the answers: a text with a prompt on each line, or "
            "JSON lines, also .gz.",
            readable=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="What to write: FILE.safetensors from TRACES, a directory with --prompts."
        ),
    ] = None,
    adapter: Annotated[
        Path | None,
        typer.Option(
            help="Adapter of `learn` to begin with, also of another target (default: none).", readable=False
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.0, help="With --prompts: stop after this time; the same command continues."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with further settings: learning_rate, seed; with TRACES also steps, "
            "batch_size, schedule, max_length, at_once, threads, target_adapter, checkpoint, "
            "checkpoint_every; with --prompts also interval, passes, replay, memory, field, count, raw and "
            "the settings of `omnidraft config`.",
            readable=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Train the drafter of BUNDLE on TRACES, or while it answers --prompts.

    BUNDLE was exported with --train-step. TRACES make an adapter for `generate --adapter`; prompts make a
    directory of adapter and n-grams for it, and after a kill at any moment the same command goes on. Both
    change the speed and not the text's distribution. Nothing leaves the machine.
    """
    if bool(traces) == (prompts is not None):
        raise SettingError("learning needs TRACES or --prompts FILE", "give one of the two")
    if out is None:
        raise SettingError("learning needs a place for its result", "name it with --out")
    file = SettingsFile(config)
    if prompts is not None:
        from omnidraft.commands.learn.while_answering import learn_while_answering

        return learn_while_answering(bundle, prompts, out, minutes, adapter, file, as_json=as_json)
    from omnidraft.commands.learn.from_traces import learn_from_traces

    if minutes is not None:
        raise SettingError(f"--minutes {minutes:g} is for --prompts", "set steps in the file of --config")
    learn_from_traces(bundle, traces or [], out, adapter, file, as_json=as_json)
