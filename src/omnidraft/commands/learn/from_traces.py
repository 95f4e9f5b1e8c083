"""`omnidraft learn BUNDLE TRACES`: train the drafter on what was recorded on this device."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from omnidraft.commands.adapter import refuse_existing_adapter
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.progress import Bar
from omnidraft.commands.terminal.settings_file import SettingsFile
from omnidraft.commands.terminal.stop_signals import telling
from omnidraft.errors import SettingError, counted
from omnidraft.learning.learn_traces import LearnedFromTraces, LearnOptions, learn, responses_of, usual_steps
from omnidraft.learning.loss_summary import Losses
from omnidraft.learning.step.learner import Learned
from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions
from omnidraft.learning.step.schedule import Schedule
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.disk.atomic_write import place_of
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import read_adapter, write_adapter
from omnidraft.runtime.models.threads import check_threads
from omnidraft.runtime.vocab.vocab_map import load_vocab_map

USUAL_RATE = 1e-3


@dataclass(frozen=True)
class StateFile:
    """The file from which a stopped run goes on.

    Attributes:
        file: None for none.
        every: steps between two writes.
    """

    file: Path | None
    every: int

    @classmethod
    def named_in(cls, file: SettingsFile, every: int) -> "StateFile":
        """The keys `checkpoint` and `checkpoint_every` of a file of settings.

        Raises:
            SettingError: less than one step.
        """
        state = cls(file.path("checkpoint"), file.integer("checkpoint_every", every))
        if state.every < 1:
            with file.named():
                raise SettingError(f"checkpoint_every {state.every} is less than 1", f"{every} is usual")
        return state

    @property
    def kept(self) -> str:
        """What an interrupt leaves of a run that writes its result at the end."""
        if self.file is None:
            return "nothing was written; with a checkpoint in --config the same command can go on"
        if not self.file.exists():
            return f"nothing was written, and the first checkpoint comes after {self.every} steps"
        return f"the last checkpoint is in {self.file}, and the same command goes on from it"


def learn_from_traces(
    bundle: Path,
    traces: Sequence[Path],
    out: Path,
    adapter: Path | None,
    file: SettingsFile,
    *,
    as_json: bool,
) -> None:
    """Train, and write an adapter."""
    settings, state = learn_options(file), StateFile.named_in(file, 20)
    key = file.path("public_key") or options.signer()
    file.refuse_others()
    check_places(out, state.file)
    begin = None if adapter is None else read_adapter(adapter)
    opened = open_bundle(bundle, key)
    with telling(lambda: state.kept), output.progress_bar("learn", quiet=as_json) as bar:
        result = _learn(opened, traces, settings, begin, state, bar)
    write_adapter(out, result.adapter)
    if as_json:
        return options.print_json({**_as_json(result, settings), "files": [str(out)]})
    losses = f", {result.losses}" if result.done else ""
    skipped = f", {result.skipped} of them skipped" if result.skipped else ""
    done = counted(result.steps, "step")
    output.say(f"{out}: {done} on {counted(result.responses, 'response')}{skipped}{losses}")


def learn_options(file: SettingsFile) -> LearnOptions:
    """How to learn, by a file of settings.

    Raises:
        SettingError: a value is outside its range.
    """
    usual, step = LearnOptions(), StepOptions()
    target_adapter, threads = file.path("target_adapter"), file.integer("threads", step.threads)
    with file.named():
        check_threads(threads)
        step = StepOptions(
            learning_rate=file.number("learning_rate", USUAL_RATE),
            seed=file.integer("seed", step.seed),
            at_once=file.integer("at_once", step.at_once),
            threads=threads,
        )
        return LearnOptions(
            step=step,
            steps=file.integer("steps", usual.steps),
            batch_size=file.integer("batch_size", usual.batch_size),
            schedule=cast(Schedule, file.text("schedule", usual.schedule)),
            max_length=file.integer("max_length", usual.max_length),
            target_adapter=None if target_adapter is None else read_adapter(target_adapter).digest,
        )


def _learn(
    bundle: Bundle,
    traces: Sequence[Path],
    settings: LearnOptions,
    begin: Adapter | None,
    state: StateFile,
    bar: Bar,
) -> LearnedFromTraces:
    """Read the traces and train; the bar shows the loss."""
    vocab_map = load_vocab_map(bundle.file(bundle.vocab_map))
    learner = OrtLearner(bundle, vocab_map, settings.step, adapter=begin)
    bar.stage("read the traces", 0, 0)
    responses = responses_of(traces, bundle, vocab_map, settings)
    if settings.steps is None and begin is None:  # an adapter has learned from other answers before
        settings = replace(settings, steps=usual_steps(len(responses), settings.batch_size))

    def show(step: Learned, total: int) -> None:
        bar.stage(f"loss {step.loss:.3f}", step.step, total)

    return learn(learner, responses, settings, checkpoint=state.file, every=state.every, progress=show)


def _as_json(result: LearnedFromTraces, settings: LearnOptions) -> dict[str, Any]:
    counts = {name: value for name, value in vars(result).items() if name not in ("adapter", "losses")}
    return {
        **counts,
        **losses_json(result.losses),
        "digest": result.adapter.digest,
        "settings": asdict(settings),
    }


def losses_json(losses: Losses) -> dict[str, Any]:
    """The mean losses of a run; the means of its two ends are null where it was too short to compare them."""
    return {
        "mean_loss": losses.mean,
        "first_loss": losses.first,
        "last_loss": losses.last,
        "loss_steps": losses.compared,
    }


def check_places(out: Path, checkpoint: Path | None) -> None:
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
    refuse_existing_adapter(out, replace=checkpoint is not None and checkpoint.exists())
