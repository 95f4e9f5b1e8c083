"""Learn an adapter from recorded generations without torch, in a seeded order, resumable from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from omnidraft.errors import SettingError
from omnidraft.learning.loss_summary import Losses, losses_of
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.positions.from_traces import aligner_of, from_traces
from omnidraft.learning.step.learner import Learned
from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions
from omnidraft.learning.step.schedule import Schedule, check_schedule, rate_at
from omnidraft.learning.step.state_file import StateFormat
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_reader import read_traces
from omnidraft.runtime.vocab.vocab_map import VocabMap

CHECKPOINT = StateFormat("omnidraft.learner_state", "1", "learning")
ENOUGH_RESPONSES, MOST_PASSES = 2048, 16  # of `usual_steps`
LearnProgress = Callable[[Learned, int], None]  # the result of a step, and the number of all steps


@dataclass(frozen=True)
class LearnOptions:
    """Options of learning from traces.

    Attributes:
        step: of the learner; its learning rate is the highest of the schedule.
        steps: in total; one pass when None.
        max_length: draft tokens of a response with its prompt; the drafter's context when None.
        target_adapter: digest of the target's adapter; None for no adapter.
    """

    step: StepOptions = field(default_factory=StepOptions)
    steps: int | None = None
    batch_size: int = 8
    schedule: Schedule = "decay"
    max_length: int | None = None
    target_adapter: str | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise SettingError(
                f"steps {self.steps} is less than 1",
                "give 1 or more, or leave it out for one pass over all",
                setting="steps",
            )
        if self.batch_size < 1:
            raise SettingError(
                f"batch_size {self.batch_size} is less than 1", "8 is usual", setting="batch_size"
            )
        if self.max_length is not None and self.max_length < 2:
            raise SettingError(
                f"max_length {self.max_length} leaves no room",
                "give 2 or more, or leave it out for all that the drafter's context holds",
                setting="max_length",
            )
        check_schedule(self.schedule)


@dataclass(frozen=True)
class LearnedFromTraces:
    """The result of learning.

    Attributes:
        skipped: of all steps, those that were not finite and changed nothing.
    """

    adapter: Adapter
    responses: int
    steps: int
    done: int
    skipped: int
    losses: Losses


def responses_of(
    traces: Sequence[str | Path], bundle: Bundle, vocab_map: VocabMap, options: LearnOptions
) -> list[Aligned]:
    """The responses in traces, all in memory; a trace on a device is bounded (spec/12-trace.md).

    Raises:
        TraceFileError: a file is not a trace, is damaged, or is of another pair.
        SettingError: a record is of the target with another adapter, or there is nothing to learn from.
    """
    longest = bundle.drafter.kv.max_length
    if options.max_length is not None and options.max_length > longest:
        raise SettingError(
            f"max_length {options.max_length} is more than the {longest} that the drafter's context holds",
            f"give {longest} or less",
            setting="max_length",
        )
    of_traces = aligner_of(bundle, vocab_map, options.max_length, options.target_adapter)
    responses = list(from_traces(read_traces(traces, Vocabularies.of(vocab_map)), of_traces))
    if not responses:
        raise SettingError("the traces hold nothing to learn from", "record some text with --trace first")
    return responses


def learn(
    learner: OrtLearner,
    responses: Sequence[Aligned],
    options: LearnOptions,
    *,
    checkpoint: Path | None = None,
    every: int = 20,
    progress: LearnProgress = lambda *_: None,
) -> LearnedFromTraces:
    """Learn, and continue from the checkpoint with the steps that would have followed it.

    Args:
        responses: at least one.
        checkpoint: read if it exists, written after every `every` steps and at the end; None for no
            checkpoint.

    Raises:
        SettingError: the checkpoint is of other settings or responses, or cannot be written.
    """
    each = -(-len(responses) // options.batch_size)
    total = each if options.steps is None else options.steps
    settings = {
        **asdict(options),
        "steps": total,
        "base": learner.adapter().base,
        "responses": _digest(responses),
    }
    if checkpoint is not None and checkpoint.exists():
        state = CHECKPOINT.read(checkpoint)
        CHECKPOINT.check_same(checkpoint, state.metadata.get("settings"), settings)
        learner.restore(state.arrays)
    losses = []
    while learner.steps < total:
        learner.rate = rate_at(options.schedule, options.step.learning_rate, learner.steps, total)
        step = learner.learn([responses[i] for i in _batch(learner.steps, len(responses), options)])
        losses.append(step.loss)
        progress(step, total)
        if checkpoint is not None and (step.step % every == 0 or step.step == total):
            CHECKPOINT.write(checkpoint, learner.state(), {"settings": settings})
    return LearnedFromTraces(
        learner.adapter(), len(responses), learner.steps, len(losses), learner.skipped, losses_of(losses)
    )


def usual_steps(count: int, batch_size: int) -> int:
    """Steps of `omnidraft learn` for a new adapter: passes until 2,048 responses were learned from.

    At least one pass, and at most sixteen: steps count more than answers (docs/learn.md).
    """
    passes = min(MOST_PASSES, -(-ENOUGH_RESPONSES // count))
    return passes * -(-count // batch_size)


def _batch(step: int, count: int, options: LearnOptions) -> list[int]:
    each = -(-count // options.batch_size)
    order = np.random.default_rng([options.step.seed, step // each]).permutation(count)
    start = step % each * options.batch_size
    return [int(i) for i in order[start : start + options.batch_size]]


def _digest(responses: Sequence[Aligned]) -> str:
    """SHA-256 over the draft tokens of all responses, with the length of each prompt."""
    digest = hashlib.sha256()
    for response in responses:
        digest.update(f"{response.prompt_length} {len(response.draft_ids)}\n".encode())
        digest.update(response.draft_ids.astype("<i4").tobytes())
    return digest.hexdigest()
