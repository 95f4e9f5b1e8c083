"""Options of a training as one value, which its checkpoints store; nothing here loads torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from omnidraft.errors import SettingError
from omnidraft.learning.step.schedule import Schedule, check_least, check_schedule, rate_at

Precision = Literal["fp32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True)
class TrainerOptions:
    """How to train; a checkpoint is resumed only with the same options.

    Attributes:
        learning_rate: of AdamW with betas (0.9, 0.999).
        schedule: of the rate over a pass. "constant", as in the paper, is for learning without an end;
            "decay" rises over the first 5 % and falls to 0 over the last 30 %.
        batch_size: responses in a step.
        lora_rank: rank of LoRA; None trains every weight.
        lora_alpha: the scale of LoRA is alpha / rank.
        seed: of the order of responses and of LoRA's initial values.
        traces: digest of the segments.
        max_length: largest number of draft tokens of a response with its prompt.
        epochs: passes over all responses.
    """

    objective: str = "trie-kl"
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    schedule: Schedule = "constant"
    batch_size: int = 8
    clip_norm: float = 1.0
    lora_rank: int | None = None
    lora_alpha: float = 32.0
    precision: Precision = "fp32"
    seed: int = 0
    traces: str = ""
    max_length: int = 0
    epochs: int = 1

    def __post_init__(self) -> None:
        least = {"learning_rate": 0.0, "weight_decay": 0.0, "batch_size": 1, "clip_norm": 0.0, "epochs": 1}
        fields: dict[str, Any] = TrainerOptions.__dataclass_fields__
        check_least(self, least, {name: fields[name].default for name in least})
        check_schedule(self.schedule)
        if self.precision not in PRECISIONS:
            raise SettingError(
                f'precision "{self.precision}" is unknown', "use fp32 or bf16", setting="precision"
            )

    def rate_at(self, step: int, total: int) -> float:
        """The learning rate of step `step` (0, 1, ...) of a pass of `total` steps."""
        return rate_at(self.schedule, self.learning_rate, step, total)
