"""How to train, as one value: it travels in checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from omnidraft.errors import SettingError
from omnidraft.learning.step.schedule import Schedule, check_schedule, rate_at

HeadTraining = Literal["joint", "interleaved"]
HEAD_TRAININGS: tuple[HeadTraining, ...] = get_args(HeadTraining)
Precision = Literal["fp32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True)
class TrainerOptions:
    """How to train.

    Attributes:
        objective: its name, where none is given to the trainer.
        learning_rate, weight_decay: of AdamW with betas (0.9, 0.999).
        schedule: of the rate over a pass. "constant", as in the paper, is for learning without an end;
            "decay" rises over the first 5 % and falls to 0 over the last 30 %.
        batch_size: responses in a step, over all processes.
        clip_norm: largest norm of the gradient.
        lora_rank: None trains every weight. lora_alpha: the scale is alpha / rank.
        head: also train an adaptive head, after each step: "joint" on the step's responses, "interleaved" on
            as many of the latest `head_buffer`.
        head_blocks: of the head, 1 to 3. head_learning_rate: of AdamW without weight decay.
        head_temperature: of the sessions that it is for: drafts are drawn at it.
        reject_weight: what a refused draft token weighs in the head's loss; an accepted one weighs 1.
        precision: of the forward pass.
        seed: of the order of responses and of LoRA's beginning.
    """

    objective: str = "trie-kl"
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    schedule: Schedule = "constant"
    batch_size: int = 8
    clip_norm: float = 1.0
    lora_rank: int | None = None
    lora_alpha: float = 32.0
    head: HeadTraining | None = None
    head_blocks: int = 1
    head_learning_rate: float = 1e-3
    head_temperature: float = 0.0
    head_buffer: int = 256
    reject_weight: float = 6.0
    precision: Precision = "fp32"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, at_least in (
            ("learning_rate", 0.0),
            ("weight_decay", 0.0),
            ("batch_size", 1),
            ("clip_norm", 0.0),
            ("head_blocks", 1),
            ("head_learning_rate", 0.0),
            ("head_temperature", 0.0),
            ("head_buffer", 1),
            ("reject_weight", 1.0),
        ):
            value = getattr(self, name)
            if not at_least <= value < float("inf"):
                usual = TrainerOptions.__dataclass_fields__[name].default
                raise SettingError(
                    f"{name} {value} is not a number of at least {at_least}", f"{usual} is usual"
                )
        check_schedule(self.schedule)
        if self.head not in (None, *HEAD_TRAININGS):
            raise SettingError(f'head "{self.head}" is unknown', "use joint or interleaved, or leave it out")
        if self.precision not in PRECISIONS:
            raise SettingError(f'precision "{self.precision}" is unknown', "use fp32 or bf16")

    def rate_at(self, step: int, total: int) -> float:
        """The learning rate of step 0, 1, ... of a pass of so many."""
        return rate_at(self.schedule, self.learning_rate, step, total)
