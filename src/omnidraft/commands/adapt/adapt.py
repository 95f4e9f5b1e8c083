"""`omnidraft adapt`: answer prompts with speculation while the drafter learns from the answers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft.commands.adapt import adapt_loop as work
from omnidraft.commands.adapt import adapt_summary as ending
from omnidraft.commands.adapt.adapt_learner import LEARNERS, Learning
from omnidraft.commands.adapt.curve_plot import NEEDED, can_draw, running
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.generation_options import lengths
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.commands.terminal.read_prompts import FIELDS, digest, read_prompts
from omnidraft.errors import SettingError, counted
from omnidraft.learning.online.adaptation import Adaptation
from omnidraft.learning.online.adapted_target import AdaptOptions, answer_settings
from omnidraft.learning.online.curve import CurveLine
from omnidraft.learning.online.profiles import profiles_in
from omnidraft.learning.step.step_batch import OBJECTIVES as STEP_OBJECTIVES
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.sample_prompts import word_problems
from omnidraft.training.objectives import FROM_TRACES

USUAL_PROBLEMS = 400  # word problems where no prompts are given


def _kept(given: Mapping[str, Any]) -> str:
    """Of an interrupt that does not wait for the answer's end."""
    out = given["out"]
    if not profiles_in(out):
        return "nothing was learned yet"
    return f"{out} has all up to its last checkpoint; go on with: {shlex.join(_command())}"


@tells_when_interrupted(_kept)
def adapt(
    bundle: options.BundlePath,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where all that is learned is kept.")],
    drafter: Annotated[
        str | None,
        typer.Option("--drafter", "-d", help="The checkpoint that the bundle's drafter was exported from."),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DATASET",
            help="Text, a prompt on each line; JSON lines or a JSON list, also .gz; or a dataset of the "
            "hub as NAME:CONFIG:SPLIT (default: word problems that are made up).",
        ),
    ] = None,
    field: Annotated[
        str | None, typer.Option(help=f"A row's prompt (default: the first of {', '.join(FIELDS)}).")
    ] = None,
    template: Annotated[
        str | None, typer.Option(help="In place of a field: text with names of fields in braces.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Prompts at most.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.0, help="Stop after so long; the same command goes on.")
    ] = None,
    switch_at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N=BUNDLE", help="From prompt N on another bundle answers, with what is its own; repeat."
        ),
    ] = None,
    interval: Annotated[int, typer.Option(help="Answers between two times of learning.")] = 8,
    passes: Annotated[int, typer.Option(help="Times that an interval's answers are learned from.")] = 4,
    replay: Annotated[int, typer.Option(help="Earlier answers in each step besides the new ones.")] = 8,
    memory: Annotated[int, typer.Option(help="Earlier answers that are kept for that.")] = 64,
    objective: Annotated[
        str,
        typer.Option(
            help=f"What is learned: {options.one_of(STEP_OBJECTIVES)}; with torch also "
            f"{options.one_of(n for n in FROM_TRACES if n not in STEP_OBJECTIVES)} (docs/training.md)."
        ),
    ] = "trie-kl",
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 4e-3,
    lora_rank: Annotated[
        int | None,
        typer.Option(
            "--lora-rank", help="Of the adapter, with torch (default: 32); a training step's is fixed."
        ),
    ] = None,
    head: Annotated[
        bool, typer.Option("--head", help="Also learn when to stop a draft (the adaptive head).")
    ] = False,
    learner: Annotated[
        str,
        typer.Option(
            help=f"Who learns: {options.one_of(LEARNERS)}; onnx is the bundle's training graph (export "
            "--train-step), torch needs --drafter, auto takes onnx where the bundle has it."
        ),
    ] = "auto",
    max_new_tokens: options.MaxNewTokens = 128,
    temperature: options.Temperature = 0.0,
    seed: Annotated[int, typer.Option(help="Of sampled answers and of what is learned again.")] = 0,
    num_draft_tokens: options.Lengths = "4",
    mode: options.Mode = "trie",
    raw: Annotated[bool, typer.Option("--raw", help="Leave out the bundle's prompt template.")] = False,
    threads: options.Threads = None,
    public_key: options.PublicKey = None,
    as_json: options.Json = False,
) -> None:
    """Answer prompts with speculation, learn every few answers, and draw the learning curve.

    What is said is the target's own all the while. Killed at any moment, the same command goes on.
    """
    config = GenerationConfig(
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        mode=mode,  # type: ignore[arg-type] # any text; `check` refuses a wrong one
        num_draft_tokens=lengths(num_draft_tokens),
    )
    learning = Learning(learner, drafter, objective, rate, lora_rank, head, answer_settings(config, raw))
    if learner == "onnx" and drafter is not None:
        raise SettingError(
            f"--learner onnx learns by the bundle's own graph and reads no checkpoint {drafter}",
            "leave out one of the two",
        )
    if objective not in FROM_TRACES:
        raise SettingError(f'--objective "{objective}" is unknown here', f"use {options.one_of(FROM_TRACES)}")
    settings = AdaptOptions(interval, passes, replay, memory, seed)
    schedule = work.BundleSchedule.parse(bundle, switch_at or ())
    config.check()
    if mode == "plain":
        raise SettingError("mode plain drafts nothing, so nothing could be learned", "leave out --mode")
    for _, path in schedule.bundles:
        work.check(out, open_bundle(path, public_key), learning, settings)
    asked = _prompts(prompts, field, template, count, seed)
    with closing(Adaptation(out, learning.make, settings, prompts=digest(asked))) as adaptation:
        begun = adaptation.position
        loop = work.Loop(adaptation, learning, schedule, config, raw, threads, public_key)
        lines: list[CurveLine] = []
        with output.progress_bar("adapt", quiet=as_json) as bar:

            def on_line(line: CurveLine) -> None:
                lines.append(line)
                passed = running(lines[-16:], "tokens_per_target_pass")[-1]
                known = f"{counted(line.cache, 'n-gram')}, adapter {line.version}"
                bar.stage(f"{passed:.2f} tokens per target pass, {known}", adaptation.position, len(asked))

            bar.stage("loading", begun, len(asked))
            with work.stopping(loop.stop, _told_to_stop):
                loop.run(asked, minutes, on_line)
        found = ending.summary(out, loop, len(lines))
    for sentence in (*loop.skipped, *([] if can_draw() else [f"no picture is drawn: {NEEDED}"])):
        sys.stderr.write(f"omnidraft: {sentence}\n")
    if as_json:
        options.print_json(ending.as_json(found))
    else:
        output.out.print(ending.table(found))
        for line in ending.files(found):
            print(line)
    if found.ended != "done":
        left = len(asked) - adaptation.position
        sys.stderr.write(
            f"omnidraft: left to do: {counted(left, 'prompt')}; go on with: {shlex.join(_command())}\n"
        )
    if found.ended == "interrupted":
        raise typer.Exit(130)


def _prompts(
    source: str | None, field: str | None, template: str | None, count: int | None, seed: int
) -> list[str]:
    if source is not None:
        return read_prompts(source, field=field, template=template, count=count)
    if field or template:
        raise SettingError("--field and --template are of the rows of --prompts", "give it too")
    return word_problems(count or USUAL_PROBLEMS, seed)


def _told_to_stop() -> None:
    sys.stderr.write("\nomnidraft: stopping after this answer; Ctrl-C again stops at once\n")


def _command() -> list[str]:
    """What was typed."""
    return ["omnidraft", *sys.argv[1:]]
