"""From a bundle, its drafter's checkpoint and traces to a trained drafter: an adapter, or a checkpoint."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.checkpoints.checkpoint import Checkpoint, load_model, read_checkpoint
from omnidraft.checkpoints.fingerprint import fingerprint
from omnidraft.checkpoints.write_checkpoint import write_checkpoint
from omnidraft.errors import SettingError
from omnidraft.learning.losses import Losses, losses_of
from omnidraft.learning.positions.alignment import Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.learning.positions.from_traces import TraceAligner
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.disk.atomic_write import place_of
from omnidraft.runtime.models.adapter_file import write_adapter
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.vocab_map import VocabMap, load_vocab_map
from omnidraft.training.data.processes import Processes
from omnidraft.training.data.trace_source import digest, find_sources
from omnidraft.training.data.trace_stream import TraceStream
from omnidraft.training.lora import to_adapter
from omnidraft.training.train_traces import Files, Progress, TraceOptions, train_on_traces
from omnidraft.training.trainer import Trainer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Job:
    """What is to be trained, on what, and where it goes.

    Attributes:
        bundle: whose pair the traces are of. drafter: the checkpoint that its drafter was exported from.
        traces: locations, in the words of fsspec. target_adapter: digest of the target's, if it has one.
        out: an adapter file, or where every weight is trained the directory of a checkpoint.
        options: a `max_length` of 0 is as much as the drafter's context holds.
        strict: refuse traces that are broken or of another pair or target.
    """

    bundle: Path
    drafter: str
    traces: Sequence[str]
    out: Path
    options: TraceOptions
    files: Files
    target_adapter: str | None = None
    strict: bool = False


@dataclass(frozen=True)
class Trained:
    """What came of a training.

    Attributes:
        files: that were written. segments, responses: that there were to learn from, in each epoch.
        left_out: how many segments and records were passed by, by the sentence that says why.
        steps: in all. done: of them in this run. skipped: that were not finite and changed nothing.
        losses: of this run's steps.
    """

    files: tuple[Path, ...]
    segments: int
    responses: int
    left_out: dict[str, int]
    steps: int
    done: int
    skipped: int
    losses: Losses
    processes: int
    seconds: float


def train_drafter(
    job: Job,
    processes: Processes,
    progress: Progress | None = None,
    stage: Callable[[str], None] = lambda _: None,
) -> Trained:
    """Train, and write the result in the main process alone.

    Args:
        job: what is asked for.
        processes: all have to call this with the same job.
        progress: called after each step. stage: called with what begins.

    Raises:
        OmnidraftError: what is given does not fit together, nothing can be learned from, or a place cannot be
            written.
    """
    begun = time.monotonic()
    _check_places(job)
    stage("open")
    bundle = open_bundle(job.bundle)
    vocab_map = load_vocab_map(bundle.file(bundle.vocab_map))
    checkpoint = read_checkpoint(job.drafter)
    model = load_model(checkpoint)
    _check_drafter(job, bundle, vocab_map, checkpoint)
    stage("look for traces")
    sources = processes.of_main(lambda: find_sources(job.traces))
    longest = min(bundle.drafter.kv.max_length, checkpoint.shape.max_positions)
    wanted = job.options.max_length
    if not 0 <= wanted <= longest:
        raise SettingError(f"max_length {wanted} is outside 1 to {longest}, what the drafter's context holds")
    blocks = 1 if bundle.drafter.head is None else bundle.drafter.head.blocks
    options = replace(job.options, traces=digest(sources), max_length=wanted or longest, head_blocks=blocks)
    bos = bundle.drafter.bos_id
    aligner = TraceAligner(
        Aligner(full_trie(vocab_map), options.max_length), () if bos is None else (bos,), job.target_adapter
    )
    stream = TraceStream(sources, aligner, seed=options.seed, strict=job.strict, processes=processes)
    trainer = Trainer(model, options, accelerator=processes.accelerator)
    stage("count")
    count, reports = train_on_traces(trainer, stream, options, job.files, processes, progress)
    stage("write")
    files = processes.of_main(lambda: _written(job, trainer, bundle, vocab_map, checkpoint))
    return Trained(
        files=files,
        segments=len(sources),
        responses=count,
        left_out=dict(stream.left_out),
        steps=trainer.steps,
        done=len(reports),
        skipped=trainer.skipped,
        losses=losses_of([report.loss for report in reports]),
        processes=processes.count,
        seconds=time.monotonic() - begun,
    )


def _check_places(job: Job) -> None:
    """Refuse places that could not be written, before hours are spent."""
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
    """Refuse a checkpoint that the result would not be of."""
    if Tokenizer.from_file(checkpoint.directory).fingerprint != vocab_map.draft_fingerprint:
        raise SettingError(
            f"{job.drafter} has another tokenizer than the drafter of {job.bundle}",
            f"give the checkpoint that it was exported from, {bundle.drafter.source}",
        )
    if job.options.lora_rank is None:
        return
    if bundle.drafter.lora is None or bundle.drafter.fingerprint is None:
        raise SettingError(
            f"the drafter of {job.bundle} takes no adapters",
            "export it again without --no-lora, or add --full",
        )
    if job.options.head is not None and bundle.drafter.head is None:
        raise SettingError(
            f"the drafter of {job.bundle} takes no head",
            "export it again without --no-head, or leave out --head",
        )
    if (found := fingerprint(checkpoint)) != bundle.drafter.fingerprint:
        raise SettingError(
            f"{job.drafter} has the weights {found[:12]} and the drafter of "
            f"{job.bundle} was exported from {bundle.drafter.fingerprint[:12]}",
            "give that checkpoint, or add --full",
        )


def _written(
    job: Job, trainer: Trainer, bundle: Bundle, vocab_map: VocabMap, checkpoint: Checkpoint
) -> tuple[Path, ...]:
    entry = bundle.drafter
    if job.options.lora_rank is None:
        model: PreTrainedModel = trainer.model  # type: ignore[assignment] # it was given one
        write_checkpoint(model, checkpoint, job.out)
        return (job.out,)
    assert entry.lora is not None and entry.fingerprint is not None
    tokenizers = vocab_map.draft_fingerprint, vocab_map.target_fingerprint
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    head = None if trainer.head is None else trainer.head.head
    adapter = to_adapter(trainer.model, entry.lora, entry.fingerprint, tokenizers, now, head)
    return tuple(write_adapter(job.out, adapter))
