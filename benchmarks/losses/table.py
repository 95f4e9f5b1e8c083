"""The losses by name: those of the product and those of this package."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import nn

from benchmarks.losses.chunks import View
from benchmarks.losses.dual_space import DualSpace
from benchmarks.losses.likelihoods import alm, likelihood, uld, vocagnolm
from benchmarks.losses.transport import Transport
from omnidraft.training.objectives import OBJECTIVES
from omnidraft.training.objectives.losses import Terms

Loss = Callable[[View], Terms]
PLAIN: dict[str, Loss] = {"likelihood": likelihood, "uld": uld, "alm": alm, "vocagnolm": vocagnolm}
LEARNED: dict[str, Callable[[int, int], nn.Module]] = {
    "dskd": DualSpace,
    "cot2align-sequence": partial(Transport, layers=False),
    "cot2align-layers": partial(Transport, layers=True),
}
LOSSES = (*OBJECTIVES, *PLAIN, *LEARNED)


def loss_named(name: str, width: int, target_width: int) -> Loss:
    """A loss of this package; one with parts of its own is a module that learns them.

    Args:
        width, target_width: of the hidden states of the drafter and of the target.
    """
    return LEARNED[name](width, target_width) if name in LEARNED else PLAIN[name]
