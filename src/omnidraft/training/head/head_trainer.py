"""Train the adaptive head beside the drafter: on the batch of each step, or on a buffer of earlier responses.

The head reads the drafter's hidden states; no gradient flows from the head into the drafter. Labels are
computed from the current drafter (see `HeadExample`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.positions.head_example import HeadExample, head_example
from omnidraft.training.head.head import AcceptanceHead, head_loss
from omnidraft.training.head.head_batch import HeadBatch, head_batch
from omnidraft.training.head.head_options import HeadOptions
from omnidraft.training.head.head_states import draws_of

SumProcesses = Callable[[Tensor], Tensor]  # the sum of a tensor over all processes
_BUFFER = "head_buffer"


class HeadTrainer:
    """A head in training.

    Attributes:
        head: its bias begins at 0, so it agrees with the drafter's probability. A new `AcceptanceHead` never
            stops a draft; from there training would take very long.
        parameters: the head's own, by name.
        buffer: the latest examples, in mode "interleaved".
    """

    def __init__(self, model: nn.Module, options: HeadOptions, device: torch.device) -> None:
        """
        Args:
            model: the drafter; it is only read.
            options: how to train.
            device: of model and head.

        Raises:
            SettingError: the number of blocks is outside 1..3.
        """
        self._model, self._options, self._device = model, options, device
        torch_model: Any = model
        self.head = AcceptanceHead(int(torch_model.config.hidden_size), options.blocks).to(device)
        nn.init.zeros_(self.head.bias)
        self.parameters = {f"head.{name}": p for name, p in self.head.named_parameters()}
        self.buffer: deque[HeadExample] = deque(maxlen=options.buffer)
        self._allowed: Tensor | None = None

    def examples(self, responses: Sequence[Aligned], step: int) -> list[HeadExample]:
        """The examples to train on after a step of the drafter on these responses."""
        allowed = torch.from_numpy(responses[0].vocab_map.draft_allowed)
        self._allowed = allowed.to(self._device)
        new = [head_example(response) for response in responses]
        if self._options.mode != "interleaved":
            return new
        self.buffer += new
        chosen = np.random.default_rng([self._options.seed, step]).permutation(len(self.buffer))
        return [self.buffer[i] for i in chosen[: self._options.batch_size]]

    def backward(
        self, examples: Sequence[HeadExample], step: int, share: slice, sum_processes: SumProcesses
    ) -> float:
        """Compute the gradients of this process's share of the examples; returns the loss of all examples.

        Args:
            examples: the same in every process.
            step: seeds the draws.
            share: the examples of this process; may select none.
            sum_processes: adds a tensor up over all processes.
        """
        generators = [np.random.default_rng([self._options.seed, step, i]) for i in range(len(examples))]
        uniforms = [rng.random(len(e.positions)) for rng, e in zip(generators, examples, strict=True)]
        mine = examples[share]
        batch = head_batch(mine or examples[:1], uniforms[share] if mine else uniforms[:1]).to(self._device)
        total, weight = self._loss(batch)
        summed = sum_processes(torch.stack([total.detach(), weight]) * (1.0 if mine else 0.0))
        loss = total / summed[1].clamp_min(1e-6) * (1.0 if mine else 0.0)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(summed[0] / summed[1].clamp_min(1e-6))

    def _loss(self, batch: HeadBatch) -> tuple[Tensor, Tensor]:
        """Sum of the weighted losses, and the sum of their weights."""
        assert self._allowed is not None
        draw = partial(batch.draws, allowed=self._allowed, temperature=self._options.temperature)
        hidden, drawn = draws_of(self._model, batch, draw)
        logits = self.head(hidden.float()) + drawn.odds
        return head_loss(logits[batch.known], drawn.labels[batch.known], self._options.reject_weight)

    def arrays(self) -> dict[str, Tensor]:
        """The buffer as named tensors, for a checkpoint."""
        return {
            f"{_BUFFER}.{i}.{name}": torch.from_numpy(np.ascontiguousarray(array))
            for i, example in enumerate(self.buffer)
            for name, array in example.arrays().items()
        }

    def restore(self, arrays: Mapping[str, Tensor]) -> None:
        """Replace the buffer by the one that `arrays` returned.

        Raises:
            KeyError: a field of an example is missing; nothing is changed.
        """
        parts: dict[int, dict[str, np.ndarray]] = {}
        for name, tensor in arrays.items():
            kind, _, rest = name.partition(".")
            if kind == _BUFFER:
                i, _, field = rest.partition(".")
                parts.setdefault(int(i), {})[field] = tensor.numpy()
        examples = [HeadExample.from_arrays(parts[i]) for i in sorted(parts)]
        self.buffer.clear()
        self.buffer += examples
