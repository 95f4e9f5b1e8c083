"""`omnidraft learn`: train the drafter on what was recorded on this device, without torch."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidraft.commands.adapter import OverwriteAdapter, refuse_existing_adapter
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.commands.terminal.progress import Bar
from omnidraft.errors import SettingError, counted
from omnidraft.learning.step.step_batch import OBJECTIVES
from omnidraft.runtime.disk.atomic_write import place_of

if TYPE_CHECKING:
    from omnidraft.learning.learn_traces import LearnedFromTraces, LearnOptions
    from omnidraft.learning.loss_summary import Losses
    from omnidraft.learning.step.learner import Learned
    from omnidraft.runtime.bundle.bundle import Bundle
    from omnidraft.runtime.models.adapter import Adapter


def kept(arguments: Mapping[str, Any]) -> str:
    """What an interrupt leaves of a run that writes its result at the end.

    Args:
        arguments: of the command, by name.
    """
    checkpoint: Path | None = arguments["checkpoint"]
    if checkpoint is None:
        return "nothing was written; with --checkpoint FILE the same command can go on where it was stopped"
    if not checkpoint.exists():
        every = arguments["checkpoint_every"]
        return f"nothing was written, and the first checkpoint comes after {every} steps"
    return f"the last checkpoint is in {checkpoint}, and the same command goes on from it"


@tells_when_interrupted(kept)
def learn(
    bundle: options.BundlePath,
    traces: Annotated[
        list[Path],
        typer.Argument(metavar="TRACES", help="Directories of recordings, or files of them.", readable=False),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The adapter to write, FILE.safetensors.")],
    adapter: Annotated[
        Path | None,
        typer.Option(
            help="Adapter of `learn` to begin with (default: none).",
            readable=False,
            rich_help_panel=options.FILES,
        ),
    ] = None,
    target_adapter: options.TargetAdapter = None,
    checkpoint: options.Checkpoint = None,
    checkpoint_every: options.CheckpointEvery = 20,
    overwrite: OverwriteAdapter = False,
    objective: Annotated[
        str,
        typer.Option(
            help=f"What is learned: {options.one_of(OBJECTIVES)}.", rich_help_panel=options.LEARNING
        ),
    ] = "trie-kl",
    steps: Annotated[
        int | None,
        typer.Option(
            help="Steps of training (default: with --adapter one pass over all traces, else up to sixteen "
            "where they are few).",
            rich_help_panel=options.LEARNING,
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(help="Responses in a step.", rich_help_panel=options.LEARNING)
    ] = 8,
    rate: Annotated[float, typer.Option(help="Learning rate.", rich_help_panel=options.LEARNING)] = 1e-3,
    schedule: options.Schedule = "decay",
    max_length: options.MaxLength = None,
    seed: Annotated[
        int,
        typer.Option(
            help="Of the order, and of the adapter's first values.", rich_help_panel=options.LEARNING
        ),
    ] = 0,
    at_once: Annotated[
        int,
        typer.Option(
            help="Responses that go through the graph at once; more take more memory.",
            rich_help_panel=options.MACHINE,
        ),
    ] = 1,
    threads: Annotated[int, typer.Option(help="Threads of a step.", rich_help_panel=options.MACHINE)] = 1,
    public_key: options.PublicKey = None,
    as_json: options.Json = False,
) -> None:
    """Train the drafter of BUNDLE, exported with --train-step, on what TRACES recorded.

    It writes an adapter for `generate --adapter`, which changes the speed and not the text's distribution.
    Nothing leaves the machine.
    """
    from omnidraft.learning.learn_traces import LearnOptions
    from omnidraft.learning.step.ort_learner import StepOptions
    from omnidraft.runtime.bundle.bundle import open_bundle
    from omnidraft.runtime.models.adapter_file import read_adapter, write_adapter
    from omnidraft.runtime.models.threads import check_threads

    check_threads(threads)
    digest = None if target_adapter is None else read_adapter(target_adapter).digest
    settings = LearnOptions(
        StepOptions(objective, rate, seed=seed, at_once=at_once, threads=threads),
        steps,
        batch_size,
        schedule,  # type: ignore[arg-type] # any text; LearnOptions refuses an unknown one
        max_length,
        digest,
    )
    check_places(out, checkpoint, overwrite)
    begin = None if adapter is None else read_adapter(adapter)
    run = LearnRun(open_bundle(bundle, public_key), traces, settings, begin, checkpoint, checkpoint_every)
    with output.progress_bar("learn", quiet=as_json) as bar:
        result = run.learn(bar)
    files = write_adapter(out, result.adapter)
    if as_json:
        return options.print_json({**_as_json(result, settings), "files": [str(file) for file in files]})
    losses = f", {result.losses}" if result.done else ""
    skipped = f", {result.skipped} of them skipped" if result.skipped else ""
    done = counted(result.steps, "step")
    output.say(f"{out}: {done} on {counted(result.responses, 'response')}{skipped}{losses}")
    for other in files[1:]:
        output.say(f"{other}: the same adapter for onnxruntime in other languages, which map it into memory")


@dataclass(frozen=True)
class LearnRun:
    """One run of `omnidraft learn`.

    Attributes:
        bundle: with a training step.
        traces: directories or files.
        options: how to learn.
        begin: adapter to begin with; None for none.
        checkpoint: file to go on from; None for none.
        every: steps between two checkpoints.
    """

    bundle: "Bundle"
    traces: Sequence[Path]
    options: "LearnOptions"
    begin: "Adapter | None"
    checkpoint: Path | None
    every: int

    def learn(self, bar: Bar) -> "LearnedFromTraces":
        """Read the traces and train; the bar shows the loss.

        Raises:
            OmnidraftError: the traces or the checkpoint are refused, or there is nothing to learn from.
        """
        from omnidraft.learning.learn_traces import learn, responses_of, usual_steps
        from omnidraft.learning.step.ort_learner import OrtLearner
        from omnidraft.runtime.vocab.vocab_map import load_vocab_map

        vocab_map = load_vocab_map(self.bundle.file(self.bundle.vocab_map))
        learner = OrtLearner(self.bundle, vocab_map, self.options.step, adapter=self.begin)
        bar.stage("read the traces", 0, 0)
        responses = responses_of(self.traces, self.bundle, vocab_map, self.options)
        settings = self.options
        if settings.steps is None and self.begin is None:  # an adapter has learned from other answers before
            settings = replace(settings, steps=usual_steps(len(responses), settings.batch_size))

        def show(step: "Learned", total: int) -> None:
            bar.stage(f"loss {step.loss:.3f}", step.step, total)

        return learn(
            learner, responses, settings, checkpoint=self.checkpoint, every=self.every, progress=show
        )


def _as_json(result: "LearnedFromTraces", settings: "LearnOptions") -> dict[str, Any]:
    counts = {name: value for name, value in vars(result).items() if name not in ("adapter", "losses")}
    return {
        **counts,
        **losses_json(result.losses),
        "digest": result.adapter.digest,
        "settings": asdict(settings),
    }


def losses_json(losses: "Losses") -> dict[str, Any]:
    """The mean losses of a run; the means of its two ends are null where it was too short to compare them."""
    return {
        "mean_loss": losses.mean,
        "first_loss": losses.first,
        "last_loss": losses.last,
        "loss_steps": losses.compared,
    }


def check_places(out: Path, checkpoint: Path | None, overwrite: bool) -> None:
    """Refuse places that cannot be written, before anything is learned.

    A run that goes on from its checkpoint may replace the adapter that it wrote.

    Raises:
        SettingError: the adapter's name does not end in .safetensors, a file cannot be written, or an adapter
            exists.
    """
    if out.suffix != ".safetensors":
        raise SettingError(
            f"{out} is not the name of an adapter", f"give one like {out.stem or 'mine'}.safetensors"
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
