"""Options of training the adaptive head; nothing here loads torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

HeadTraining = Literal["joint", "interleaved"]
HEAD_TRAININGS: tuple[HeadTraining, ...] = get_args(HeadTraining)


@dataclass(frozen=True)
class HeadOptions:
    """What `HeadTrainer` reads of the options of a training; their ranges are checked there.

    Attributes:
        mode: "joint" trains on the responses of each step; "interleaved" on `batch_size` of the latest
            `buffer` responses.
        blocks: residual blocks of the head, 1 to 3.
        temperature: of the sessions that will use the head; drafts are drawn at it.
        buffer: number of responses that are kept in mode "interleaved".
        reject_weight: weight of a refused draft token in the loss; an accepted one weighs 1.
        batch_size: responses of a step in mode "interleaved".
        seed: of the draws and of the choice from the buffer.
    """

    mode: HeadTraining
    blocks: int
    temperature: float
    buffer: int
    reject_weight: float
    batch_size: int
    seed: int
