"""Training a drafter with torch: a trainer, its objectives, LoRA, and data from traces."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from omnidraft.training.objectives import objective
from omnidraft.training.trainer_options import TrainerOptions

if _TYPE_CHECKING:
    from omnidraft.training.trainer import Trainer, train

__all__ = ["Trainer", "TrainerOptions", "objective", "train"]


def __getattr__(name: str) -> object:
    """Load the names that need torch when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from omnidraft.training import trainer

    return getattr(trainer, name)
