"""The interface of a language model, as the loop and a session use it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.floating]


class Cancelled(Exception):  # noqa: N818 # not an error: the caller asked for it
    """A pass was not run because the generation was cancelled; the model's context is unchanged."""


class Model(Protocol):
    """A causal language model with a context that grows by scoring and shrinks by rewinding."""

    @property
    def vocab_size(self) -> int:
        """Width of the logits; may exceed the tokenizer."""

    @property
    def max_length(self) -> int:
        """Number of positions that the context can hold."""

    @property
    def length(self) -> int:
        """Number of positions that the context holds now."""

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        """Append tokens to the context and return logits [num_logits, vocab] of the last positions.

        Args:
            tokens: n >= 1 ids.
            num_logits: how many of the last rows to return; all n when None.

        Returns:
            an array that the next call may overwrite.
        """

    def rewind(self, length: int) -> None:
        """Forget every position from `length` on."""


class SessionModel(Model, Protocol):
    """A model as a session uses it: cancelled between its passes, and adapted.

    Attributes:
        cancelled: called before each run of a graph, and after each that was interrupted; where it returns
            True, `Cancelled` is raised.
    """

    cancelled: Callable[[], bool]

    def interrupt(self) -> None:
        """End the run of a graph that is going on, from any thread; `cancelled` decides what comes then."""

    def use_adapter(self, tensors: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Use an adapter's tensors from the next pass on, by the names of the inputs; none runs the base.

        The context was computed with the old weights: rewind to 0 and read it again.
        """
