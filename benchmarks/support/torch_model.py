"""A torch model as the runtime's `Model`, so that a drafter is measured without an export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from omnidraft.runtime.decoding.model import Logits


class TorchModel:
    """A decoder with full attention and its KV cache; see `omnidraft.runtime.decoding.model.Model`."""

    def __init__(self, model: PreTrainedModel, max_length: int | None = None) -> None:
        """
        Args:
            model: a transformers decoder.
            max_length: number of positions; that of the model when None.
        """
        self._model, self._cache = model, DynamicCache()
        self.vocab_size = int(model.config.vocab_size)
        self.max_length = max_length or int(model.config.max_position_embeddings)

    @property
    def length(self) -> int:
        return int(self._cache.get_seq_length())

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        """Float32 logits; dropout is off even while the model is in training."""
        training = self._model.training
        self._model.train(False)
        try:
            with torch.no_grad():
                out: Any = self._model(
                    input_ids=torch.tensor([list(tokens)], device=self._model.device),
                    past_key_values=self._cache,
                    use_cache=True,
                    logits_to_keep=num_logits or len(tokens),
                )
        finally:
            self._model.train(training)
        rows: Logits = out.logits[0].float().cpu().numpy().astype(np.float32, copy=False)
        return rows

    def rewind(self, length: int) -> None:
        if length == 0:
            self._cache = DynamicCache()
        elif length < self.length:
            self._cache.crop(length - self.length)  # newer versions take only the number to drop
