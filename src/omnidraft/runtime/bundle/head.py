"""The adaptive head's tensors as a value, and the shape that a graph takes; spec/11-adapter.md.

acceptance = sigmoid(x w + b), x the drafter's last hidden state after blocks x + SiLU(x W), at the position
that read a draft token (method section 5.3). The head corrects the drafter's own confidence in that token:
`chance` of both is the probability that the token is accepted, if those before it are.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft.errors import AdapterError

Floats = npt.NDArray[np.float32]

PREFIX, WEIGHT, BIAS = "head.", "head.weight", "head.bias"
OUTPUT = "acceptance"  # of the graph
MAX_BLOCKS = 3
NEVER_STOP = 20.0  # bias of an untrained head: its sigmoid is 1 in float32, so the head stops no draft
_BLOCK = re.compile(rf"head\.blocks\.[0-{MAX_BLOCKS - 1}]")


def block_name(i: int) -> str:
    """The name of the graph's input for W of block i."""
    return f"head.blocks.{i}"


def chance(acceptance: float, confidence: float) -> float:
    """The probability that a draft token is accepted: the odds of both are multiplied.

    Args:
        acceptance: output of the head; 1 for an untrained head, and then nothing is refused.
        confidence: probability of the token in the drafter's distribution at temperature 1.
    """
    if acceptance >= 1.0:
        return 1.0
    for_it, against = acceptance * confidence, (1.0 - acceptance) * (1.0 - confidence)
    return for_it / (for_it + against) if for_it + against > 0.0 else 0.5


@dataclass(frozen=True)
class HeadShape:
    """The head that a graph takes: width of the hidden state, and number of blocks."""

    hidden: int
    blocks: int

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor, by the names of the graph's inputs."""
        square = {block_name(i): (self.hidden, self.hidden) for i in range(self.blocks)}
        return {**square, WEIGHT: (self.hidden, 1), BIAS: (1,)}

    def untrained(self) -> dict[str, Floats]:
        """The tensors of a head that stops no draft."""
        tensors = {name: np.zeros(size, np.float32) for name, size in self.sizes().items()}
        tensors[BIAS][:] = NEVER_STOP
        return tensors


def check_names(names: Collection[str]) -> int:
    """The number of blocks of a head with these tensors.

    Raises:
        AdapterError: `extra_tensor` or `missing_tensor`.
    """
    for name in sorted(names):
        if name not in (WEIGHT, BIAS) and not _BLOCK.fullmatch(name):
            raise AdapterError(f"it has a tensor {name!r:.80}, which no head has", fault="extra_tensor")
    blocks = sum(_BLOCK.fullmatch(name) is not None for name in names)
    for name in (*map(block_name, range(max(1, blocks))), WEIGHT, BIAS):
        if name not in names:
            raise AdapterError(f"its head has no {name!r}", fault="missing_tensor")
    return blocks


@dataclass(frozen=True)
class Head:
    """A trained head.

    Attributes:
        tensors: float32 by the names of the graph's inputs: W of each block [hidden, hidden], w [hidden, 1]
            and b [1].

    Raises:
        AdapterError: `missing_tensor`, `extra_tensor`, `dtype`, `shape` or `non_finite`.
    """

    tensors: Mapping[str, Floats]

    def __post_init__(self) -> None:
        blocks = check_names(self.tensors)
        for name, tensor in sorted(self.tensors.items()):
            if tensor.dtype != np.float32:
                raise AdapterError(f"{name} is {tensor.dtype}, not float32", fault="dtype")
        weight = self.tensors[WEIGHT]
        hidden = len(weight) if weight.ndim else 0
        for name, size in sorted(HeadShape(hidden, blocks).sizes().items()):
            tensor = self.tensors[name]
            if tensor.shape != size or not hidden:
                raise AdapterError(
                    f"{name} has shape {list(tensor.shape)} in a head of width {hidden}", fault="shape"
                )
            if not np.isfinite(tensor).all():
                raise AdapterError(f"{name} holds a value that is not finite", fault="non_finite")

    @property
    def shape(self) -> HeadShape:
        """The width and the number of blocks."""
        return HeadShape(len(self.tensors[WEIGHT]), len(self.tensors) - 2)

    def check_fits(self, shape: HeadShape) -> None:
        """
        Raises:
            AdapterError: `shape`, where a graph takes another head.
        """
        if self.shape != shape:
            own = self.shape
            raise AdapterError(
                f"its head has {own.blocks} blocks of width {own.hidden} and the model's graph takes "
                f"{shape.blocks} of width {shape.hidden}",
                fault="shape",
            )
