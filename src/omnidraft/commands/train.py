"""`omnidraft train`: train a drafter on recorded generations, in one process or in many."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidraft.commands.adapter import OverwriteAdapter
from omnidraft.commands.learn import check_places, kept, losses_json
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.errors import SettingError, counted, install
from omnidraft.training.objectives import FROM_TRACES
from omnidraft.training.trainer_options import PRECISIONS

if TYPE_CHECKING:
    from omnidraft.training.train_drafter import Job, Trained

SHOWN = 5  # reasons for leaving something out that are printed


def _kept(arguments: Mapping[str, Any]) -> str:
    """As `learn.kept`; of many processes, the main one prints it."""
    return kept(arguments) if os.environ.get("RANK", "0") == "0" else ""


@tells_when_interrupted(_kept)
def train(
    bundle: options.BundlePath,
    drafter: Annotated[
        str,
        typer.Option("--drafter", "-d", help="The checkpoint that the bundle's drafter was exported from."),
    ],
    traces: Annotated[
        list[str],
        typer.Option(
            "--traces",
            metavar="LOCATION",
            help="Folder, archive or segment of recordings, a path or a URL (s3://..., zip::https://...), "
            "searched wholly; repeatable.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="The adapter to write, FILE.safetensors; with --full a directory."),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Train every weight, and write a checkpoint to export.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse traces that are damaged or of another pair or target.")
    ] = False,
    target_adapter: options.TargetAdapter = None,
    checkpoint: options.Checkpoint = None,
    checkpoint_every: options.CheckpointEvery = 50,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Log to write: JSON lines, one a step.", readable=False, rich_help_panel=options.FILES
        ),
    ] = None,
    overwrite: OverwriteAdapter = False,
    objective: Annotated[
        str,
        typer.Option(
            help=f"What is learned: {options.one_of(FROM_TRACES)} (docs/training.md).",
            rich_help_panel=options.LEARNING,
        ),
    ] = "trie-kl",
    lora_rank: Annotated[
        int,
        typer.Option(help="Rank of the adapter; 8 to 64 is usual.", rich_help_panel=options.LEARNING),
    ] = 32,
    rate: Annotated[float, typer.Option(help="Learning rate.", rich_help_panel=options.LEARNING)] = 1e-4,
    schedule: options.Schedule = "decay",
    batch_size: Annotated[
        int,
        typer.Option(help="Responses in a step, over all processes.", rich_help_panel=options.LEARNING),
    ] = 8,
    epochs: Annotated[
        int, typer.Option(help="Passes over all traces.", rich_help_panel=options.LEARNING)
    ] = 1,
    max_length: options.MaxLength = None,
    precision: Annotated[
        str,
        typer.Option(
            help=f"Of the forward pass: {options.one_of(PRECISIONS)}.", rich_help_panel=options.LEARNING
        ),
    ] = "fp32",
    seed: Annotated[
        int,
        typer.Option(
            help="Of the order, and of the adapter's first values.", rich_help_panel=options.LEARNING
        ),
    ] = 0,
    as_json: options.Json = False,
) -> None:
    """Train a drafter on traces: a LoRA adapter for the bundle, or every weight as a checkpoint.

    Traces that are damaged, or of another pair or target, are left out and counted. Under `accelerate launch
    -m omnidraft train ...`, many processes share the work and learn the same as one.
    """
    _need_packages()
    from omnidraft.runtime.models.adapter_file import read_adapter
    from omnidraft.training.train_drafter import Job
    from omnidraft.training.train_traces import Files, TraceOptions

    if objective not in FROM_TRACES:
        raise SettingError(f'--objective "{objective}" is unknown here', f"use {options.one_of(FROM_TRACES)}")
    if max_length is not None and max_length < 2:
        raise SettingError(
            f"--max-length {max_length} leaves no room",
            "give 2 or more, or leave it out for all that the drafter's context holds",
        )
    settings = TraceOptions(
        objective=objective,
        learning_rate=rate,
        schedule=schedule,  # type: ignore[arg-type] # any text; TraceOptions refuses an unknown one
        batch_size=batch_size,
        lora_rank=None if full else lora_rank,
        precision=precision,  # type: ignore[arg-type] # likewise
        seed=seed,
        max_length=max_length or 0,
        epochs=epochs,
    )
    if full:
        _check_full(overwrite)
    else:
        check_places(out, checkpoint, overwrite)
    digest = None if target_adapter is None else read_adapter(target_adapter).digest
    files = Files(log, checkpoint, checkpoint_every)
    trained = _train(Job(bundle, drafter, traces, out, settings, files, digest, strict), quiet=as_json)
    if trained is None:
        return None
    if as_json:
        return options.print_json(_as_json(trained))
    for line in _lines(trained):
        output.say(line)


def _check_full(overwrite: bool) -> None:
    """Refuse options that --full has no use for."""
    if overwrite:
        raise SettingError(
            "--overwrite replaces adapters, and --full makes a checkpoint", "leave one of them out"
        )


def _train(job: "Job", *, quiet: bool) -> "Trained | None":
    """Train in all processes, with progress in the main one; None in the other processes."""
    from omnidraft.training.data.processes import Processes
    from omnidraft.training.train_drafter import train_drafter
    from omnidraft.training.training_log import StepReport

    processes = Processes.launched()
    try:
        with output.progress_bar("train", quiet=quiet or not processes.is_main) as bar:

            def show(report: StepReport, total: int) -> None:
                bar.stage(f"loss {report.loss:.3f}", report.step, total)

            if not processes.is_main:
                train_drafter(job, processes)
                return None
            return train_drafter(job, processes, show, lambda stage: bar.stage(stage, 0, 0))
    finally:
        processes.close()


def _as_json(trained: "Trained") -> dict[str, Any]:
    counts = {name: value for name, value in asdict(trained).items() if name != "losses"}
    return {**counts, **losses_json(trained.losses), "files": [str(file) for file in trained.files]}


def _lines(trained: "Trained") -> list[str]:
    """What was trained, a line each."""
    lines = [
        f"{trained.files[0]}: {counted(trained.steps, 'step')} on {counted(trained.responses, 'response')} "
        f"of {counted(trained.segments, 'segment')}, {trained.seconds:.0f} s"
        + (f", {trained.processes} processes" if trained.processes > 1 else "")
    ]
    if trained.done < trained.steps:
        lines.append(f"  {trained.steps - trained.done} of the steps were done before")
    if trained.done:
        lines.append(f"  {trained.losses}")
    if trained.skipped:
        lines.append(
            f"  {counted(trained.skipped, 'step')} not finite, which changed nothing; a lower --rate may help"
        )
    if trained.left_out:
        left_out = list(trained.left_out.items())
        lines.append(f"  left out: {counted(sum(trained.left_out.values()), 'segment or record')}")
        lines += [f"    {counted(count, 'time')}: {why}" for why, count in left_out[:SHOWN]]
        lines += ["    and others; --json lists all"] if len(left_out) > SHOWN else []
    return lines


def _need_packages() -> None:
    missing = [name for name in ("torch", "transformers", "accelerate", "fsspec") if not find_spec(name)]
    if missing:
        raise SettingError(
            f"training needs {', '.join(missing)}, which this Python does not have",
            f"{install('all')} with Python 3.11, 3.12 or 3.13",
        )
