"""How an arm trains, as data: an objective with its settings, and the trainer's options."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from omnidraft.training.trainer_options import TrainerOptions

FULL: Mapping[str, Any] = {"learning_rate": 3e-3, "schedule": "decay", "batch_size": 8}
PAPER: Mapping[str, Any] = {**FULL, "learning_rate": 1e-3}
LORA: Mapping[str, Any] = {"learning_rate": 3e-3, "schedule": "decay", "batch_size": 8, "lora_rank": 32}


@dataclass(frozen=True)
class Recipe:
    """How one pass over the answers trains.

    Attributes:
        objective: the name of an objective of `omnidraft.training.objectives`.
        settings: of the objective.
        options: of the trainer, without the objective's name and the seed.
    """

    objective: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=lambda: dict(FULL))

    def with_lora(self, rank: int = 32) -> "Recipe":
        """The same loss, training LoRA of a rank in place of every weight."""
        return replace(self, options={**LORA, "lora_rank": rank})

    def at(self, rate: float) -> "Recipe":
        """The same recipe with another learning rate."""
        return replace(self, options={**self.options, "learning_rate": rate})

    def trainer_options(self, seed: int, **more: Any) -> TrainerOptions:
        """The options of the trainer."""
        return TrainerOptions(objective=self.objective, seed=seed, **self.options, **more)

    @property
    def lora_rank(self) -> int | None:
        """The rank of LoRA, or None where every weight is trained."""
        rank: int | None = self.options.get("lora_rank")
        return rank

    def as_json(self) -> dict[str, Any]:
        """Plain values, for an arm's settings and key."""
        return asdict(self)


# For whole passes, and for temperature, cache_budget and lora_rank.
LOSSES = {
    "dm": Recipe("omnidraft", {"factor": 0.0}, PAPER),
    "dm-ngram": Recipe("omnidraft", {"factor": 0.2}, PAPER),
    "trie-kl": Recipe("trie-kl"),
}
# For learning_gain's 448 answers: each loss at its best rate on held-out prompts of both targets.
RATES = {"dm": 1e-3, "dm-ngram": 5e-4, "trie-kl": 1e-3}
LORA_RATES = {"dm": 3e-3, "dm-ngram": 3e-3, "trie-kl": 1e-2}
EQUAL = {name: recipe.at(RATES[name]) for name, recipe in LOSSES.items()}
EQUAL_LORA = {name: recipe.with_lora().at(LORA_RATES[name]) for name, recipe in LOSSES.items()}
TITLES = {"dm": "L_DM", "dm-ngram": "L_DM + 0.2 L_ngram", "trie-kl": "trie-KL"}
