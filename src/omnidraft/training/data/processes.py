"""What the processes of one training say to each other, so that none waits for one that has given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from omnidraft.errors import OmnidraftError, SettingError

if TYPE_CHECKING:
    from accelerate import Accelerator

Value = TypeVar("Value")


@dataclass(frozen=True)
class Processes:
    """Those that `accelerate launch` started, or this one alone."""

    accelerator: Accelerator | None = None

    @property
    def rank(self) -> int:
        """Which of them this one is."""
        return 0 if self.accelerator is None else int(self.accelerator.process_index)

    @property
    def count(self) -> int:
        """How many there are."""
        return 1 if self.accelerator is None else int(self.accelerator.num_processes)

    @property
    def is_main(self) -> bool:
        """Whether this one writes files and talks to the user."""
        return self.rank == 0

    def gathered(self, value: Value) -> list[Value]:
        """What each of them says, by rank; all have to ask."""
        if self.count == 1:
            return [value]
        from accelerate.utils import gather_object

        return list(gather_object([value]))

    def agreed(self, act: Callable[[], Value]) -> list[Value]:
        """What each of them gets by an act, by rank; all have to do it, and where one refuses, all do.

        Raises:
            OmnidraftError: this one's own, or a SettingError with the sentence of another.
        """
        refusal: OmnidraftError | None = None
        done: Value | None = None
        try:
            done = act()
        except OmnidraftError as error:
            refusal = error
        told = self.gathered((done, None if refusal is None else str(refusal)))
        if refusal is not None:
            raise refusal
        for _, sentence in told:
            if sentence is not None:
                raise SettingError(sentence)
        return [value for value, _ in told]  # type: ignore[misc] # without a refusal each has one

    def of_main(self, act: Callable[[], Value]) -> Value:
        """What the main process alone gets by an act; all have to ask, and where it refuses, all do.

        Raises:
            OmnidraftError: see `agreed`.
        """
        found = self.agreed(lambda: act() if self.is_main else None)[0]
        return found  # type: ignore[return-value] # the main process is the first
