"""How arms train, as data: an objective with its settings, and the trainer's options."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from omnidraft.training.trainer_options import TrainerOptions

FULL: Mapping[str, Any] = {"learning_rate": 3e-3, "schedule": "decay", "batch_size": 8}
LORA: Mapping[str, Any] = {"learning_rate": 3e-3, "schedule": "decay", "batch_size": 8, "lora_rank": 32}


@dataclass(frozen=True)
class Recipe:
    """One pass over answers.

    Attributes:
        objective, settings: see `training.objectives`.
        options: of the trainer; the objective's name and the seed are set here.
    """

    objective: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=lambda: dict(FULL))

    def with_lora(self, rank: int = 32) -> "Recipe":
        """The same loss for LoRA of a rank in place of every weight."""
        return replace(self, options={**LORA, "lora_rank": rank})

    def trainer_options(self, seed: int) -> TrainerOptions:
        """As the trainer takes them."""
        return TrainerOptions(objective=self.objective, seed=seed, **self.options)

    @property
    def lora_rank(self) -> int | None:
        """None where every weight is trained."""
        found: int | None = self.options.get("lora_rank")
        return found

    def as_json(self) -> dict[str, Any]:
        """For settings and keys."""
        return asdict(self)


LOSSES = {
    "dm": Recipe("omnidraft", {"factor": 0.0}),
    "dm-ngram": Recipe("omnidraft", {"factor": 0.2}),
    "trie-kl": Recipe("trie-kl"),
}
TITLES = {"dm": "L_DM", "dm-ngram": "L_DM + 0.2 L_ngram", "trie-kl": "trie-KL"}
