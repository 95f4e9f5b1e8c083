"""Learning from what a target says; needs torch, which nothing here loads before it is asked for."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from omnidraft.training.objectives.objectives import objective
    from omnidraft.training.trainer import Trainer, train
    from omnidraft.training.trainer_options import TrainerOptions

__all__ = ["Trainer", "TrainerOptions", "objective", "train"]


def __getattr__(name: str) -> object:
    """What needs torch loads it when it is first asked for, so that alignment alone does without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "objective":
        from omnidraft.training.objectives.objectives import objective

        return objective
    from omnidraft.training import trainer

    return getattr(trainer, name)
