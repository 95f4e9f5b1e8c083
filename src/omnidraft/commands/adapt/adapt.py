"""`omnidraft adapt`: answer prompts with speculation while the drafter learns from the answers."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft.commands.adapt.adapt_learner import LEARNERS, Learning
from omnidraft.commands.adapt.adapt_loop import BundleSchedule, Loop, check, stopping
from omnidraft.commands.adapt.adapt_summary import Summary, advice, files, no_adapter, summary, table
from omnidraft.commands.adapt.curve_plot import NEEDED, can_draw, running
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.generation_options import generation_config
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.commands.terminal.open_session import tell
from omnidraft.commands.terminal.read_prompts import FIELDS, digest, read_prompts
from omnidraft.errors import SettingError, counted, reason
from omnidraft.learning.online.adaptation import Adaptation
from omnidraft.learning.online.adapted_target import AdaptOptions, answer_settings
from omnidraft.learning.online.curve import CurveLine
from omnidraft.learning.online.profiles import profiles_in
from omnidraft.learning.step.step_batch import OBJECTIVES as STEP_OBJECTIVES
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.sample_prompts import word_problems
from omnidraft.training.objectives import FROM_TRACES

PROMPTS_PANEL = "Prompts"
USUAL_PROBLEMS = 400  # word problems when no prompts are given


def _kept(arguments: Mapping[str, Any]) -> str:
    """What an interrupt leaves that does not wait for the end of an answer."""
    out = arguments["out"]
    if not profiles_in(out):
        return "nothing was learned"
    return f"{out} has everything up to its last checkpoint; go on with: {shlex.join(_command())}"


@tells_when_interrupted(_kept)
def adapt(
    context: typer.Context,
    bundle: options.BundlePath,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory for everything that is learned.")],
    drafter: Annotated[
        str | None,
        typer.Option("--drafter", "-d", help="The checkpoint that the bundle's drafter was exported from."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.0, help="Stop after this time; the same command goes on later."),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DATASET",
            help="Text with a prompt on each line; JSON lines or a JSON list, also .gz; or a dataset of the "
            "hub as NAME:CONFIG:SPLIT (default: generated word problems).",
            rich_help_panel=PROMPTS_PANEL,
        ),
    ] = None,
    field: Annotated[
        str | None,
        typer.Option(
            help=f"Field of a row that holds the prompt (default: the first of {', '.join(FIELDS)}).",
            rich_help_panel=PROMPTS_PANEL,
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            help="In place of --field: text with names of fields in braces.", rich_help_panel=PROMPTS_PANEL
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(min=1, help="Largest number of prompts.", rich_help_panel=PROMPTS_PANEL),
    ] = None,
    switch_at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N=BUNDLE",
            help="From prompt N on another bundle answers, with its own learned state; repeatable.",
            rich_help_panel=PROMPTS_PANEL,
        ),
    ] = None,
    learner: Annotated[
        str,
        typer.Option(
            help=f"What computes a step: {options.one_of(LEARNERS)}. onnx uses the bundle's training graph "
            "(export --train-step), torch needs --drafter, auto takes onnx if the bundle has the graph.",
            rich_help_panel=options.LEARNING,
        ),
    ] = "auto",
    objective: Annotated[
        str,
        typer.Option(
            help=f"What is learned: {options.one_of(STEP_OBJECTIVES)}; with torch also "
            f"{options.one_of(n for n in FROM_TRACES if n not in STEP_OBJECTIVES)} (docs/training.md).",
            rich_help_panel=options.LEARNING,
        ),
    ] = "trie-kl",
    interval: Annotated[
        int,
        typer.Option(help="Answers between two rounds of learning.", rich_help_panel=options.LEARNING),
    ] = 8,
    passes: Annotated[
        int, typer.Option(help="Passes over the answers of an interval.", rich_help_panel=options.LEARNING)
    ] = 4,
    replay: Annotated[
        int,
        typer.Option(help="Earlier answers in each step.", rich_help_panel=options.LEARNING),
    ] = 8,
    memory: Annotated[
        int, typer.Option(help="Earlier answers that are kept for replay.", rich_help_panel=options.LEARNING)
    ] = 64,
    rate: Annotated[float, typer.Option(help="Learning rate.", rich_help_panel=options.LEARNING)] = 4e-3,
    lora_rank: Annotated[
        int | None,
        typer.Option(
            "--lora-rank",
            help="Rank of the adapter with torch (default: 32); that of a training graph is fixed.",
            rich_help_panel=options.LEARNING,
        ),
    ] = None,
    max_new_tokens: options.MaxNewTokens = 128,
    temperature: options.Temperature = 0.0,
    seed: Annotated[
        int, typer.Option(help="Of sampled answers and of the replay.", rich_help_panel=options.TEXT)
    ] = 0,
    raw: options.Raw = False,
    mode: options.Mode = "trie",
    num_draft_tokens: options.Lengths = "auto",
    threads: options.Threads = None,
    public_key: options.PublicKey = None,
    as_json: options.Json = False,
) -> None:
    """Answer prompts with speculation, learn every few answers, and plot the progress.

    The text keeps the target's own distribution throughout. After a kill at any moment, the same command goes
    on.
    """
    if learner == "onnx" and drafter is not None:
        raise SettingError(
            f"--learner onnx learns by the bundle's own graph and reads no checkpoint {drafter}",
            "leave out one of the two",
        )
    if objective not in FROM_TRACES:
        raise SettingError(f'--objective "{objective}" is unknown here', f"use {options.one_of(FROM_TRACES)}")
    settings = AdaptOptions(interval, passes, replay, memory, seed)
    schedule = BundleSchedule.parse(bundle, switch_at or ())
    config = generation_config(context)
    if config.mode == "plain":
        raise SettingError("mode plain drafts nothing, so nothing could be learned", "leave out --mode")
    learning = Learning(learner, drafter, objective, rate, lora_rank, answer_settings(config, raw))
    for _, path in schedule.bundles:
        check(out, open_bundle(path, public_key), learning, settings)
    texts = _prompts(prompts, field, template, count, seed)
    with closing(Adaptation(out, learning.make, settings, prompts=digest(texts))) as adaptation:
        loop = Loop(adaptation, learning, schedule, config, raw, threads, public_key)
        lines = _run(loop, texts, minutes, quiet=as_json)
        result = summary(out, loop, len(lines))
    _report(result, len(texts) - adaptation.position, as_json)


def _run(loop: Loop, prompts: Sequence[str], minutes: float | None, *, quiet: bool) -> list[CurveLine]:
    """Run the loop with progress; the lines of the curve that it added."""
    lines: list[CurveLine] = []
    ends = None if minutes is None else time.monotonic() + 60.0 * minutes
    with output.progress_bar("adapt", quiet=quiet) as bar:

        def on_line(line: CurveLine) -> None:
            lines.append(line)
            tokens = running(lines[-16:], "tokens_per_target_pass")[-1]
            learned = f"{counted(line.cache, 'n-gram')}, adapter {line.version}"
            left = "" if ends is None else f", {max(0.0, ends - time.monotonic()) / 60:.1f} minutes left"
            bar.stage(
                f"{tokens:.2f} tokens per target pass, {learned}{left}",
                loop.adaptation.position,
                len(prompts),
            )

        def on_learning() -> None:
            bar.stage("learning", loop.adaptation.position, len(prompts))

        loop.adaptation.on_learning = on_learning
        bar.stage("loading", loop.adaptation.position, len(prompts))
        try:
            with stopping(loop.stop, _tell_stopping):
                loop.run(prompts, minutes, on_line)
        except OSError as error:
            raise SettingError(
                f"{loop.adaptation.place} cannot be written ({reason(error)}), and has everything up to its "
                "last checkpoint",
                "make room, and the same command goes on",
            ) from error
    return lines


def _report(result: Summary, left: int, as_json: bool) -> None:
    """Print the result and how to go on; exit status 130 after Ctrl-C.

    Args:
        result: of all runs.
        left: number of prompts that were not answered.
        as_json: print JSON.
    """
    no_picture = [] if can_draw() else [f"no picture is drawn: {NEEDED}"]
    tell((*result.skipped, *no_picture, *no_adapter(result)))
    if as_json:
        options.print_json({**asdict(result), "advice": advice(result)})
    else:
        output.out.print(table(result))
        for line in files(result):
            print(line)
        print(advice(result))
    if result.ended != "done":
        tell([f"left to do: {counted(left, 'prompt')}; go on with: {shlex.join(_command())}"])
    if result.ended == "interrupted":
        raise typer.Exit(130)


def _prompts(
    source: str | None, field: str | None, template: str | None, count: int | None, seed: int
) -> list[str]:
    if source is not None:
        return read_prompts(source, field=field, template=template, count=count)
    if field or template:
        raise SettingError("--field and --template are for rows of --prompts", "give --prompts too")
    return word_problems(count or USUAL_PROBLEMS, seed)


def _tell_stopping() -> None:
    sys.stderr.write("\nomnidraft: stopping after this answer; Ctrl-C again stops at once\n")


def _command() -> list[str]:
    """The command line as typed."""
    return ["omnidraft", *sys.argv[1:]]
