"""Train the drafter of a bundle on traces; the result is an adapter, or a checkpoint if all weights train."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.checkpoints.checkpoint import Checkpoint, load_model, read_checkpoint
from omnidraft.checkpoints.control_tokens import read_tokenizer
from omnidraft.checkpoints.fingerprint import fingerprint
from omnidraft.checkpoints.write_checkpoint import write_checkpoint
from omnidraft.errors import SettingError
from omnidraft.learning.loss_summary import Losses, losses_of
from omnidraft.learning.positions.from_traces import aligner_of
from omnidraft.learning.step.ort_learner import utc_now
from omnidraft.runtime.bundle.bundle import Bundle, need_drafter, open_bundle
from omnidraft.runtime.disk.atomic_write import place_of
from omnidraft.runtime.models.adapter_file import write_adapter
from omnidraft.runtime.vocab.vocab_map import VocabMap, load_vocab_map
from omnidraft.training.data.trace_source import TraceSource, digest, find_sources
from omnidraft.training.data.trace_stream import TraceStream
from omnidraft.training.lora import to_adapter
from omnidraft.training.train_traces import Files, Progress, train_on_traces
from omnidraft.training.trainer import Trainer
from omnidraft.training.trainer_options import TrainerOptions

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Job:
    """What to train, on which data, and where to write the result.

    Attributes:
        bundle: the traces are of its pair.
        drafter: the checkpoint that the bundle's drafter was exported from.
        traces: locations that fsspec can open.
        out: an adapter file, or the directory of a checkpoint if all weights are trained.
        options: a `max_length` of 0 stands for the drafter's context.
        files: the log and the checkpoint of the training.
        target_adapter: digest of the target's adapter, if the traces were recorded with one.
        strict: refuse traces that are broken or of another pair or target; else they are left out.
        public_key: of the bundle's signer; None leaves the signature unchecked.
    """

    bundle: Path
    drafter: str
    traces: Sequence[str]
    out: Path
    options: TrainerOptions
    files: Files
    target_adapter: str | None = None
    strict: bool = False
    public_key: Path | None = None


@dataclass(frozen=True)
class Trained:
    """The result of a training.

    Attributes:
        responses: number of responses in an epoch.
        left_out: number of segments and records that were left out, by reason.
        done: number of steps of this run.
        skipped: number of steps that were not finite and changed nothing.
    """

    files: tuple[Path, ...]
    segments: int
    responses: int
    left_out: dict[str, int]
    steps: int
    done: int
    skipped: int
    losses: Losses
    seconds: float


def train_drafter(
    job: Job, progress: Progress = lambda *_: None, stage: Callable[[str], None] = lambda _: None
) -> Trained:
    """Train, and write the result.

    Args:
        progress: called after each step.
        stage: called with the name of each stage when it begins.

    Raises:
        OmnidraftError: bundle, checkpoint and traces do not fit together, there is nothing to learn from, or
            a file cannot be written.
    """
    started = time.monotonic()
    _check_places(job)
    stage("open")
    bundle = open_bundle(job.bundle, job.public_key)
    need_drafter(bundle)
    vocab_map = load_vocab_map(bundle.file(bundle.vocab_map))
    checkpoint = read_checkpoint(job.drafter)
    model = load_model(checkpoint)
    _check_drafter(job, bundle, vocab_map, checkpoint)
    stage("look for traces")
    sources = find_sources(job.traces)
    options = _complete(job.options, bundle, checkpoint, sources)
    aligner = aligner_of(bundle, vocab_map, options.max_length, job.target_adapter)
    stream = TraceStream(sources, aligner, seed=options.seed, strict=job.strict)
    trainer = Trainer(model, options)
    stage("count")
    count, reports = train_on_traces(trainer, stream, job.files, progress)
    stage("write")
    files = _write(job, trainer, bundle, vocab_map, checkpoint)
    return Trained(
        files=files,
        segments=len(sources),
        responses=count,
        left_out=dict(stream.left_out),
        steps=trainer.steps,
        done=len(reports),
        skipped=trainer.skipped,
        losses=losses_of([report.loss for report in reports]),
        seconds=time.monotonic() - started,
    )


def _complete(
    options: TrainerOptions, bundle: Bundle, checkpoint: Checkpoint, sources: Sequence[TraceSource]
) -> TrainerOptions:
    """The options with the values that depend on the bundle, the checkpoint and the traces."""
    longest = min(bundle.drafter.kv.max_length, checkpoint.shape.max_positions)
    if not 0 <= options.max_length <= longest:
        raise SettingError(
            f"max_length {options.max_length} is outside 1 to {longest}, what the drafter's context holds",
            setting="max_length",
        )
    return replace(options, traces=digest(sources), max_length=options.max_length or longest)


def _check_places(job: Job) -> None:
    if job.options.lora_rank is None and job.out.exists():
        raise SettingError(f"{job.out} exists already", "choose another place for the checkpoint")
    if job.options.lora_rank is None:
        parent = job.out.resolve().parent
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise SettingError(f"{job.out} cannot be made in {parent}", "choose another place")
    files = [job.files.log, job.files.checkpoint, *([job.out] if job.options.lora_rank is not None else [])]
    for file in files:
        try:
            if file is not None:
                place_of(file)
        except OSError as error:
            raise SettingError(
                f"{file} cannot be written because {error.strerror}", "choose another place"
            ) from None


def _check_drafter(job: Job, bundle: Bundle, vocab_map: VocabMap, checkpoint: Checkpoint) -> None:
    if read_tokenizer(checkpoint.directory).fingerprint != vocab_map.draft_fingerprint:
        raise SettingError(
            f"{job.drafter} has another tokenizer than the drafter of {job.bundle}",
            f"give the checkpoint that it was exported from, {bundle.drafter.source}",
        )
    if job.options.lora_rank is None:
        return
    if bundle.drafter.lora is None or bundle.drafter.fingerprint is None:
        raise SettingError(
            f"the drafter of {job.bundle} takes no adapters",
            "export it again with lora_drafter = true, or add --full",
        )
    if (actual := fingerprint(checkpoint)) != bundle.drafter.fingerprint:
        raise SettingError(
            f"{job.drafter} has the weights {actual[:12]} and the drafter of "
            f"{job.bundle} was exported from {bundle.drafter.fingerprint[:12]}",
            "give that checkpoint, or add --full",
        )


def _write(
    job: Job, trainer: Trainer, bundle: Bundle, vocab_map: VocabMap, checkpoint: Checkpoint
) -> tuple[Path, ...]:
    """Write the checkpoint or the adapter; returns its files."""
    entry = bundle.drafter
    if job.options.lora_rank is None:
        model: PreTrainedModel = trainer.model  # type: ignore[assignment] # it was given one
        write_checkpoint(model, checkpoint, job.out)
        return (job.out,)
    assert entry.lora is not None and entry.fingerprint is not None
    tokenizers = vocab_map.draft_fingerprint, vocab_map.target_fingerprint
    adapter = to_adapter(trainer.model, entry.lora, entry.fingerprint, tokenizers, utc_now())
    write_adapter(job.out, adapter)
    return (job.out,)
