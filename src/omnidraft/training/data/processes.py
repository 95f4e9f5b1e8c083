"""The processes of one training: they exchange values and errors, so none waits for one that has failed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from omnidraft.errors import OmnidraftError, SettingError

if TYPE_CHECKING:
    from accelerate import Accelerator

Value = TypeVar("Value")


@dataclass(frozen=True)
class Processes:
    """The processes that `accelerate launch` started, or this process alone.

    Attributes:
        accelerator: connects the processes; None for one process.
    """

    accelerator: Accelerator | None = None

    @classmethod
    def launched(cls) -> Processes:
        """The processes that `accelerate launch` started, on GPUs where there are any.

        `torch.distributed.nn` keeps the group of the processes as a default argument where it is imported
        after the group exists, as the first optimizer does. `close` could then not end the group's threads,
        and a thread that lives while Python ends aborts the process. Imported before, it keeps None.
        """
        from accelerate import Accelerator
        from torch.cuda import is_available

        import_module("torch.distributed.nn")
        return cls(Accelerator(cpu=not is_available()))

    def close(self) -> None:
        """End the connection between the processes."""
        if self.accelerator is not None:
            self.accelerator.end_training()

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        return 0 if self.accelerator is None else int(self.accelerator.process_index)

    @property
    def count(self) -> int:
        """Number of processes."""
        return 1 if self.accelerator is None else int(self.accelerator.num_processes)

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    @property
    def share(self) -> slice:
        """The part of a list that this process computes: one of `count` elements."""
        return slice(self.rank, None, self.count)

    def wait(self) -> None:
        """Wait until every process has called this."""
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()

    def summed(self, values: Tensor) -> Tensor:
        """The sum over all processes; all processes must call this."""
        if self.accelerator is None or self.count == 1:
            return values
        total: Tensor = self.accelerator.reduce(values, "sum")
        return total

    def sum_gradients(self, parameters: Collection[nn.Parameter]) -> None:
        """Sum the gradients over all processes, in one message; a missing gradient becomes zeros.

        The parts of the loss are already divided by the counts of all processes.
        """
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if self.count == 1:
            return
        grads = [p.grad for p in parameters if p.grad is not None]
        summed = self.summed(torch.cat([g.reshape(-1) for g in grads]))
        for grad, part in zip(grads, torch.split(summed, [g.numel() for g in grads]), strict=True):
            grad.copy_(part.view_as(grad))

    def gathered(self, value: Value) -> list[Value]:
        """The values of all processes, by rank; all processes must call this."""
        if self.count == 1:
            return [value]
        from accelerate.utils import gather_object

        return list(gather_object([value]))

    def agreed(self, act: Callable[[], Value]) -> list[Value]:
        """Call a function in every process; returns the results by rank. If one process fails, all fail.

        All processes must call this.

        Raises:
            OmnidraftError: the error of this process, or a SettingError with the message of another.
        """
        failure: OmnidraftError | None = None
        result: Value | None = None
        try:
            result = act()
        except OmnidraftError as error:
            failure = error
        outcomes = self.gathered((result, None if failure is None else str(failure)))
        if failure is not None:
            raise failure
        for _, message in outcomes:
            if message is not None:
                raise SettingError(message)
        return [value for value, _ in outcomes]  # type: ignore[misc] # None only after a failure

    def of_main(self, act: Callable[[], Value]) -> Value:
        """Call a function in the main process; returns its result in all processes. If it fails, all fail.

        All processes must call this.

        Raises:
            OmnidraftError: see `agreed`.
        """
        result = self.agreed(lambda: act() if self.is_main else None)[0]
        return result  # type: ignore[return-value] # the main process is the first
