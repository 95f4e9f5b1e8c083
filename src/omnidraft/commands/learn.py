"""`omnidraft learn`: the drafter learns from what was recorded on this device, without torch."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidraft.commands.adapter import OverwriteAdapter, refuse_existing_adapter
from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.errors import SettingError, counted
from omnidraft.learning.step.step_batch import OBJECTIVES
from omnidraft.runtime.disk.atomic_write import place_of

if TYPE_CHECKING:
    from omnidraft.learning.losses import Losses


def kept(given: Mapping[str, Any]) -> str:
    """What an interrupt leaves of a run that writes its result at the end."""
    checkpoint: Path | None = given["checkpoint"]
    if checkpoint is None:
        return "nothing was written; with --checkpoint FILE the same command can go on where it was stopped"
    if not checkpoint.exists():
        return f"nothing was written, and the first checkpoint comes after {given['checkpoint_every']} steps"
    return f"the last checkpoint is in {checkpoint}, and the same command goes on from it"


@tells_when_interrupted(kept)
def learn(
    bundle: options.BundlePath,
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACES", help="Directories that were recorded in, or files of them.", readable=False
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The adapter to write, FILE.safetensors.")],
    steps: Annotated[
        int | None, typer.Option(help="Steps of training (default: one pass over all traces).")
    ] = None,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    schedule: options.Schedule = "decay",
    objective: Annotated[
        str, typer.Option(help=f"What is learned: {options.one_of(OBJECTIVES)}.")
    ] = "trie-kl",
    batch_size: Annotated[int, typer.Option(help="Responses in a step.")] = 8,
    head: Annotated[
        bool,
        typer.Option("--head", help="Train the adaptive head too, which ends drafts early (docs/head.md)."),
    ] = False,
    at_once: Annotated[
        int, typer.Option(help="Of these, how many go through the graph at once; more take more memory.")
    ] = 1,
    threads: Annotated[int, typer.Option(help="Threads of a step.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the order, and of the adapter's beginning.")] = 0,
    max_length: options.MaxLength = None,
    adapter: Annotated[
        Path | None,
        typer.Option(help="Begin with this adapter, which `learn` wrote, instead of none.", readable=False),
    ] = None,
    target_adapter: options.TargetAdapter = None,
    checkpoint: options.Checkpoint = None,
    checkpoint_every: options.CheckpointEvery = 20,
    public_key: options.PublicKey = None,
    overwrite: OverwriteAdapter = False,
    as_json: options.Json = False,
) -> None:
    """Make the drafter of BUNDLE, exported with --train-step, better at what TRACES recorded.

    It writes an adapter for `generate --adapter`, which changes the speed and no word. Nothing leaves the
    machine.
    """
    from omnidraft.commands.terminal import output
    from omnidraft.learning import learn_traces
    from omnidraft.learning.step.learner import Learned
    from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions
    from omnidraft.runtime.bundle.bundle import open_bundle
    from omnidraft.runtime.models.adapter_file import read_adapter, write_adapter
    from omnidraft.runtime.vocab.vocab_map import load_vocab_map

    digest = None if target_adapter is None else read_adapter(target_adapter).digest
    of_step = StepOptions(objective, rate, seed=seed, at_once=at_once, head=head, threads=threads)
    chosen = learn_traces.LearnOptions(
        of_step,
        steps,
        batch_size,
        schedule,  # type: ignore[arg-type] # any text; a wrong one is refused there
        max_length,
        digest,
    )
    check_places(out, checkpoint, overwrite)
    found = open_bundle(bundle, public_key)
    vocab_map = load_vocab_map(found.file(found.vocab_map))
    begin = None if adapter is None else read_adapter(adapter)
    learner = OrtLearner(found, vocab_map, of_step, adapter=begin)
    with output.progress_bar("learn", quiet=as_json) as bar:
        bar.stage("read the traces", 0, 0)
        responses = learn_traces.responses_of(traces, found, vocab_map, chosen)

        def show(step: Learned, total: int) -> None:
            bar.stage(f"loss {step.loss:.3f}", step.step, total)

        result = learn_traces.learn(
            learner, responses, chosen, checkpoint=checkpoint, every=checkpoint_every, progress=show
        )
    files = write_adapter(out, result.adapter)
    if as_json:
        told = {name: value for name, value in vars(result).items() if name not in ("adapter", "losses")}
        told |= losses_json(result.losses)
        settings = asdict(chosen)
        return options.print_json(
            {**told, "digest": result.adapter.digest, "files": [str(f) for f in files], "settings": settings}
        )
    losses = f", {result.losses}" if result.done else ""
    skipped = f", {result.skipped} of them skipped" if result.skipped else ""
    done = counted(result.steps, "step")
    output.say(f"{out}: {done} on {counted(result.responses, 'response')}{skipped}{losses}")


def losses_json(losses: "Losses") -> dict[str, Any]:
    """The means of a run for programs: of its ends null, over 0 steps, where it was too short to compare."""
    return {
        "mean_loss": losses.mean,
        "first_loss": losses.first,
        "last_loss": losses.last,
        "loss_steps": losses.compared,
    }


def check_places(out: Path, checkpoint: Path | None, overwrite: bool) -> None:
    """Refuse places that could not be written or have something else, before anything is learned.

    A run that goes on from its checkpoint may write again what it wrote.

    Raises:
        SettingError: the adapter's name is none, one of the files cannot be written, or an adapter is there.
    """
    if out.suffix != ".safetensors":
        raise SettingError(
            f"{out} is no name of an adapter", f"give one like {out.stem or 'mine'}.safetensors"
        )
    for what, file in (("adapter", out), ("checkpoint", checkpoint)):
        try:
            if file is not None:
                place_of(file)
        except OSError as error:
            raise SettingError(
                f"the {what} cannot be written to {file} because {error.strerror}", "give another place"
            ) from None
    refuse_existing_adapter(out, overwrite or (checkpoint is not None and checkpoint.exists()))
