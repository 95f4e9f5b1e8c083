"""`omnidraft train`: train a drafter on recorded generations."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from omnidraft.commands.learn.from_traces import StateFile, check_places, losses_json
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.export_packages import need_packages
from omnidraft.commands.terminal.settings_file import SettingsFile
from omnidraft.commands.terminal.stop_signals import telling
from omnidraft.errors import SettingError, counted
from omnidraft.learning.step.schedule import Schedule
from omnidraft.training.objectives import OBJECTIVES
from omnidraft.training.trainer_options import Precision

if TYPE_CHECKING:
    from omnidraft.training.train_drafter import Trained
    from omnidraft.training.trainer_options import TrainerOptions

SHOWN = 5  # reasons for leaving something out that are printed


def train(
    bundle: options.BundlePath,
    drafter: Annotated[
        str,
        typer.Option("--drafter", "-d", help="The checkpoint that the bundle's drafter was exported from."),
    ],
    traces: Annotated[
        list[str],
        typer.Option(
            metavar="LOCATION",
            help="Folder or segment of recordings, a path or a URL such as s3://bucket/traces, "
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
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with further settings: objective, learning_rate, schedule, batch_size, epochs, "
            "lora_rank, max_length, precision, seed, strict, target_adapter, log, checkpoint, "
            "checkpoint_every.",
            readable=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Train a drafter on traces: a LoRA adapter for the bundle, or every weight as a checkpoint.

    Traces that are damaged, or of another pair or target, are left out and counted.
    """
    need_packages("training", ("torch", "transformers", "fsspec"), "all")
    from omnidraft.runtime.models.adapter_file import read_adapter
    from omnidraft.training.train_drafter import Job, train_drafter
    from omnidraft.training.train_traces import Files
    from omnidraft.training.trainer import StepReport

    file = SettingsFile(config)
    settings, state = trace_options(file, full), StateFile.named_in(file, 50)
    log, strict, target_adapter = file.path("log"), file.switch("strict", False), file.path("target_adapter")
    file.refuse_others()
    if not full:
        check_places(out, state.file)
    digest = None if target_adapter is None else read_adapter(target_adapter).digest
    files = Files(log, state.file, state.every)
    job = Job(bundle, drafter, traces, out, settings, files, digest, strict, options.signer())
    with telling(lambda: state.kept), output.progress_bar("train", quiet=as_json) as bar:

        def show(report: StepReport, total: int) -> None:
            bar.stage(f"loss {report.loss:.3f}", report.step, total)

        trained = train_drafter(job, show, lambda stage: bar.stage(stage, 0, 0))
    if as_json:
        return options.print_json(_as_json(trained))
    for line in _lines(trained):
        output.say(line)


def trace_options(file: SettingsFile, full: bool) -> "TrainerOptions":
    """How to train, by a file of settings.

    Args:
        file: of `--config`.
        full: train every weight.

    Raises:
        SettingError: a value is outside its range.
    """
    from omnidraft.training.trainer_options import TrainerOptions

    usual = TrainerOptions(schedule="decay", lora_rank=32)
    objective, max_length = file.text("objective", usual.objective), file.integer("max_length", None)
    with file.named():
        if objective not in OBJECTIVES:
            raise SettingError(
                f'objective "{objective}" is unknown here', f"use {options.one_of(OBJECTIVES)}"
            )
        if max_length is not None and max_length < 2:
            raise SettingError(
                f"max_length {max_length} leaves no room",
                "give 2 or more, or leave it out for all that the drafter's context holds",
            )
        rank = file.integer("lora_rank", usual.lora_rank)
        return TrainerOptions(
            objective=objective,
            learning_rate=file.number("learning_rate", usual.learning_rate),
            schedule=cast(Schedule, file.text("schedule", usual.schedule)),
            batch_size=file.integer("batch_size", usual.batch_size),
            lora_rank=None if full else rank,
            precision=cast(Precision, file.text("precision", usual.precision)),
            seed=file.integer("seed", usual.seed),
            max_length=max_length or 0,
            epochs=file.integer("epochs", usual.epochs),
        )


def _as_json(trained: "Trained") -> dict[str, Any]:
    counts = {name: value for name, value in asdict(trained).items() if name != "losses"}
    return {**counts, **losses_json(trained.losses), "files": [str(file) for file in trained.files]}


def _lines(trained: "Trained") -> list[str]:
    lines = [
        f"{trained.files[0]}: {counted(trained.steps, 'step')} on {counted(trained.responses, 'response')} "
        f"of {counted(trained.segments, 'segment')}, {trained.seconds:.0f} s"
    ]
    if trained.done < trained.steps:
        lines.append(f"  {trained.steps - trained.done} of the steps were done before")
    if trained.done:
        lines.append(f"  {trained.losses}")
    if trained.skipped:
        lines.append(
            f"  {counted(trained.skipped, 'step')} not finite, which changed nothing; "
            "a lower learning_rate may help"
        )
    if trained.left_out:
        left_out = list(trained.left_out.items())
        lines.append(f"  left out: {counted(sum(trained.left_out.values()), 'segment or record')}")
        lines += [f"    {counted(count, 'time')}: {why}" for why, count in left_out[:SHOWN]]
        lines += ["    and others; --json lists all"] if len(left_out) > SHOWN else []
    return lines
