"""What the round needs of a language model, and nothing else."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.floating]


class Cancelled(Exception):  # noqa: N818 # no error: someone asked for it
    """A pass was not run because the generation was cancelled; the model holds what it held before."""


class Model(Protocol):
    """A causal language model with a context that grows by scoring and shrinks by rewinding."""

    @property
    def vocab_size(self) -> int:
        """Width of the logits; may exceed the tokenizer."""

    @property
    def max_length(self) -> int:
        """Positions that the context can hold."""

    @property
    def length(self) -> int:
        """Positions that it holds now."""

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        """Append tokens to the context and return logits [num_logits, vocab] of the last positions.

        Args:
            tokens: n >= 1 ids.
            num_logits: how many of the last rows to return; all n when None.

        The returned array may be overwritten by the next call.
        """

    def rewind(self, length: int) -> None:
        """Forget every position from `length` on."""


@runtime_checkable
class HasHead(Protocol):
    """What a model with an adaptive head adds.

    Attributes:
        acceptance: how likely the last token that was read is to be accepted, given that those before it
            were, 0 to 1.
    """

    acceptance: float


class SessionModel(Model, Protocol):
    """A model as a session uses it: cancelled between its passes, and adapted.

    Attributes:
        cancelled: asked before each run of a graph; where it says so, `Cancelled` is raised instead.
    """

    cancelled: Callable[[], bool]

    def use_adapter(self, tensors: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Take an adapter's tensors by the names of the graph's inputs; with none, the model as it is.

        What the context holds is of the old weights: rewind to 0 and read it again.
        """
