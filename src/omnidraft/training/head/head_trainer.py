"""Train the adaptive head beside the drafter: on the batch of each step, or on a replay of earlier ones.

The head reads the drafter's states and the drafter never feels the head: no gradient goes back. The labels
are always of the drafter as it is now (see `HeadExample`).
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
from omnidraft.training.head.head_states import draws_of
from omnidraft.training.trainer_options import TrainerOptions

Summed = Callable[[Tensor], Tensor]  # over all processes
_BUFFER = "head_buffer"


class HeadTrainer:
    """A head in training.

    Attributes:
        head: begins as one that believes the drafter, not as one that never stops: from there it would take
            ages to come back.
        parameters: its own, by name.
        buffer: the latest examples, where the mode is interleaved.
    """

    def __init__(self, model: nn.Module, options: TrainerOptions, device: torch.device) -> None:
        """
        Args:
            model: the drafter; it is read only.
            options: with a mode for the head.
            device: of both.

        Raises:
            SettingError: a number of blocks outside 1..3.
        """
        self._model, self._options, self._device = model, options, device
        torch_model: Any = model
        self.head = AcceptanceHead(int(torch_model.config.hidden_size), options.head_blocks).to(device)
        nn.init.zeros_(self.head.bias)
        self.parameters = {f"head.{name}": p for name, p in self.head.named_parameters()}
        self.buffer: deque[HeadExample] = deque(maxlen=options.head_buffer)
        self._allowed: Tensor | None = None

    def examples(self, responses: Sequence[Aligned], step: int) -> list[HeadExample]:
        """What to learn from after a step of the drafter on these responses."""
        allowed = torch.from_numpy(responses[0].vocab_map.draft_allowed)
        self._allowed = allowed.to(self._device)
        new = [head_example(response) for response in responses]
        if self._options.head != "interleaved":
            return new
        self.buffer += new
        chosen = np.random.default_rng([self._options.seed, step]).permutation(len(self.buffer))
        return [self.buffer[i] for i in chosen[: self._options.batch_size]]

    def backward(self, examples: Sequence[HeadExample], step: int, share: slice, summed: Summed) -> float:
        """Gradients of this process's share of the examples; returns the loss of all of them.

        Args:
            examples: the same in every process.
            step: seeds what is drawn.
            share: this process's, maybe none of them.
            summed: adds up over all processes.
        """
        drawn = [np.random.default_rng([self._options.seed, step, i]) for i in range(len(examples))]
        uniforms = [rng.random(len(e.positions)) for rng, e in zip(drawn, examples, strict=True)]
        mine = examples[share]
        batch = head_batch(mine or examples[:1], uniforms[share] if mine else uniforms[:1]).to(self._device)
        total, weight = self._loss(batch)
        whole = summed(torch.stack([total.detach(), weight]) * (1.0 if mine else 0.0))
        (total / whole[1].clamp_min(1e-6) * (1.0 if mine else 0.0)).backward()  # type: ignore[no-untyped-call]
        return float(whole[0] / whole[1].clamp_min(1e-6))

    def _loss(self, batch: HeadBatch) -> tuple[Tensor, Tensor]:
        """Sum of the weighted losses, and the sum of their weights."""
        assert self._allowed is not None
        draw = partial(batch.draws, allowed=self._allowed, temperature=self._options.head_temperature)
        hidden, drawn = draws_of(self._model, batch, draw)
        logits = self.head(hidden.float()) + drawn.odds
        return head_loss(logits[batch.known], drawn.labels[batch.known], self._options.reject_weight)

    def arrays(self) -> dict[str, Tensor]:
        """The buffer, as checkpoints keep it."""
        return {
            f"{_BUFFER}.{i}.{name}": torch.from_numpy(np.ascontiguousarray(array))
            for i, example in enumerate(self.buffer)
            for name, array in example.arrays().items()
        }

    def restore(self, arrays: Mapping[str, Tensor]) -> None:
        """Take over the buffer of `arrays`.

        Raises:
            KeyError: an example lacks a part; nothing is taken over.
        """
        found: dict[int, dict[str, np.ndarray]] = {}
        for name, tensor in arrays.items():
            kind, _, rest = name.partition(".")
            if kind == _BUFFER:
                i, _, field = rest.partition(".")
                found.setdefault(int(i), {})[field] = tensor.numpy()
        examples = [HeadExample.from_arrays(found[i]) for i in sorted(found)]
        self.buffer.clear()
        self.buffer += examples
