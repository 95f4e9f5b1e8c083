"""`omnidraft train`: a drafter learns from recorded generations, in one process or in many."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidraft.commands.adapter import OverwriteAdapter
from omnidraft.commands.learn import check_places, kept, losses_json
from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.errors import SettingError, counted
from omnidraft.training.objectives.names import FROM_TRACES
from omnidraft.training.trainer_options import HEAD_TRAININGS, PRECISIONS

if TYPE_CHECKING:
    from omnidraft.training.train_drafter import Trained

SHOWN = 5  # reasons why something was left out


def _kept(given: Mapping[str, Any]) -> str:
    """As `learn.kept`; one of many processes speaks."""
    return kept(given) if os.environ.get("RANK", "0") == "0" else ""


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
            help="A folder, archive or segment, by its path or URL (s3://..., zip::https://...), "
            "searched whole; may be repeated.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="The adapter to write, FILE.safetensors; with --full a directory."),
    ],
    objective: Annotated[
        str, typer.Option(help=f"What is learned: {options.one_of(FROM_TRACES)} (docs/training.md).")
    ] = "trie-kl",
    full: Annotated[
        bool, typer.Option("--full", help="Train every weight and write a checkpoint to export.")
    ] = False,
    lora_rank: Annotated[int, typer.Option(help="Rank of the adapter: 8 to 64 is usual.")] = 32,
    head: Annotated[
        str | None,
        typer.Option(
            help=f"Train the adaptive head too: {options.one_of(HEAD_TRAININGS)}; joint is on each step's "
            "batch, interleaved on a replay (docs/head.md)."
        ),
    ] = None,
    head_temperature: Annotated[
        float, typer.Option(help="With --head: the temperature of the sessions that it is for.")
    ] = 0.0,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 1e-4,
    schedule: options.Schedule = "decay",
    batch_size: Annotated[int, typer.Option(help="Responses in a step, over all processes.")] = 8,
    epochs: Annotated[int, typer.Option(help="Passes over all traces.")] = 1,
    precision: Annotated[
        str, typer.Option(help=f"Of the forward pass: {options.one_of(PRECISIONS)}.")
    ] = "fp32",
    seed: Annotated[int, typer.Option(help="Of the order, and of the adapter's beginning.")] = 0,
    max_length: options.MaxLength = None,
    target_adapter: options.TargetAdapter = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse traces that are broken or of another pair or target.")
    ] = False,
    checkpoint: options.Checkpoint = None,
    checkpoint_every: options.CheckpointEvery = 50,
    log: Annotated[Path | None, typer.Option(help="JSON lines, one for each step.", readable=False)] = None,
    overwrite: OverwriteAdapter = False,
    as_json: options.Json = False,
) -> None:
    """Train a drafter on traces: LoRA as an adapter of the bundle, or every weight as a checkpoint.

    Traces that are broken, or of another pair or target, are left out and counted. Started by
    `accelerate launch -m omnidraft train ...`, many processes learn what one would.
    """
    _need_packages()
    from accelerate import Accelerator
    from torch.cuda import is_available

    from omnidraft.commands.terminal import output
    from omnidraft.runtime.models.adapter_file import read_adapter
    from omnidraft.training.data.processes import Processes
    from omnidraft.training.train_drafter import Job, train_drafter
    from omnidraft.training.train_traces import Files, TraceOptions
    from omnidraft.training.training_log import StepReport

    if objective not in FROM_TRACES:
        raise SettingError(f'--objective "{objective}" is unknown here', f"use {options.one_of(FROM_TRACES)}")
    if max_length is not None and max_length < 2:
        raise SettingError(
            f"--max-length {max_length} leaves no room",
            "give 2 or more, or leave it out for all that the drafter's context holds",
        )
    chosen = TraceOptions(
        objective=objective,
        learning_rate=rate,
        schedule=schedule,  # type: ignore[arg-type] # any text; a wrong one is refused there
        batch_size=batch_size,
        lora_rank=None if full else lora_rank,
        head=head,  # type: ignore[arg-type] # likewise
        head_temperature=head_temperature,
        precision=precision,  # type: ignore[arg-type] # likewise
        seed=seed,
        max_length=max_length or 0,
        epochs=epochs,
    )
    if not full:
        check_places(out, checkpoint, overwrite)
    if full and overwrite:
        raise SettingError(
            "--overwrite replaces adapters, and --full makes a checkpoint", "leave one of them out"
        )
    if full and head is not None:
        raise SettingError("--head goes into an adapter, which --full does not make", "leave one of them out")
    digest = None if target_adapter is None else read_adapter(target_adapter).digest
    files = Files(log, checkpoint, checkpoint_every)
    job = Job(bundle, drafter, traces, out, chosen, files, digest, strict)
    accelerator = Accelerator(cpu=not is_available())
    processes = Processes(accelerator)
    try:
        with output.progress_bar("train", quiet=as_json or not processes.is_main) as bar:

            def show(report: StepReport, total: int) -> None:
                bar.stage(f"loss {report.loss:.3f}", report.step, total)

            quiet = not processes.is_main
            found = train_drafter(
                job,
                processes,
                None if quiet else show,
                (lambda _: None) if quiet else (lambda what: bar.stage(what, 0, 0)),
            )
    finally:
        accelerator.end_training()
    if not processes.is_main:
        return None
    if as_json:
        return options.print_json(_as_json(found))
    for line in _told(found):
        output.say(line)


def _as_json(found: "Trained") -> dict[str, Any]:
    told = {name: value for name, value in asdict(found).items() if name != "losses"}
    return {**told, **losses_json(found.losses), "files": [str(file) for file in found.files]}


def _told(found: "Trained") -> list[str]:
    lines = [
        f"{found.files[0]}: {counted(found.steps, 'step')} on {counted(found.responses, 'response')} of "
        f"{counted(found.segments, 'segment')}, {found.seconds:.0f} s"
        + (f", {found.processes} processes" if found.processes > 1 else "")
    ]
    if found.done < found.steps:
        lines.append(f"  {found.steps - found.done} of the steps were done before")
    if found.done:
        lines.append(f"  {found.losses}")
    if found.skipped:
        lines.append(
            f"  {counted(found.skipped, 'step')} not finite, which changed nothing; a lower --rate may help"
        )
    if found.left_out:
        lines.append(f"  left out: {counted(sum(found.left_out.values()), 'segment or record')}")
        lines += [
            f"    {counted(count, 'time')}: {why}" for why, count in list(found.left_out.items())[:SHOWN]
        ]
        lines += ["    and others; --json lists all"] if len(found.left_out) > SHOWN else []
    return lines


def _need_packages() -> None:
    missing = [name for name in ("torch", "transformers", "accelerate", "fsspec") if not find_spec(name)]
    if missing:
        raise SettingError(
            f"training needs {', '.join(missing)}, which this Python does not have",
            "run `pip install 'omnidraft[all]'` with Python 3.11, 3.12 or 3.13",
        )
