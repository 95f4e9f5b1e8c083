"""Examples of the adaptive head as one batch of tensors, and the draws with their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omnidraft.learning.positions.head_example import HeadExample

_LEAST = 1e-6  # smallest probability, and smallest distance of a probability from 1


@dataclass(frozen=True)
class Drawn:
    """The draft tokens that the drafter drew, each tensor [B, A].

    Attributes:
        ids: draft ids.
        labels: how likely each token is to be accepted.
        odds: log(q / (1 - q)), q the drafter's probability of the token at temperature 1.
    """

    ids: Tensor
    labels: Tensor
    odds: Tensor


@dataclass(frozen=True)
class HeadBatch:
    """B responses with at most A draws each.

    Attributes:
        input_ids: [B, L], padded with 0 on the right.
        positions: of the last token before each draw, [B, A], padded with 0.
        known: which draws are not padding, [B, A].
        next_ids: see `HeadExample`, [B, A].
        ids: see `HeadExample`, [B, A, K].
        chances: see `HeadExample`, [B, A, K].
        longer: see `HeadExample`, [B, A, W].
        uniforms: in [0, 1), one for each draw, [B, A].
    """

    input_ids: Tensor
    positions: Tensor
    known: Tensor
    next_ids: Tensor
    ids: Tensor
    chances: Tensor
    longer: Tensor
    uniforms: Tensor

    def to(self, device: torch.device | str) -> HeadBatch:
        """The same batch on a device."""
        return HeadBatch(*(getattr(self, field.name).to(device) for field in fields(self)))

    def draws(self, logits: Tensor, allowed: Tensor, temperature: float) -> Drawn:
        """Draw one draft token at each place, and compute how likely it is to be accepted.

        Args:
            logits: of the drafter at these places, [B, A, draft vocab].
            allowed: which draft ids may be drawn, [draft vocab].
            temperature: of the session. At 0 the likeliest token is drawn, and its label is 1 where the
                response continues with it, else 0.
        """
        logits, longer = logits.masked_fill(~allowed, -torch.inf), self.longer
        log_q = torch.log_softmax(logits, dim=-1)

        def odds(drawn: Tensor) -> Tensor:
            q = log_q.gather(-1, drawn[..., None])[..., 0].exp().clamp(_LEAST, 1.0 - _LEAST)
            return torch.log(q) - torch.log1p(-q)

        if temperature == 0.0:
            drawn = logits.argmax(dim=-1)
            accepted = (drawn == self.next_ids) | (drawn[..., None] == longer).any(dim=-1)
            return Drawn(drawn, accepted.to(logits.dtype), odds(drawn))
        q = torch.softmax(logits / temperature, dim=-1)
        sums = q.cumsum(dim=-1)
        drawn = (sums <= self.uniforms[..., None] * sums[..., -1:]).sum(dim=-1)
        chances = tempered(self.chances, temperature)
        p = (chances * (self.ids == drawn[..., None])).sum(dim=-1)
        label = (p / q.gather(-1, drawn[..., None])[..., 0].clamp_min(1e-30)).clamp(max=1.0)
        label = torch.where((drawn[..., None] == longer).any(dim=-1), 1.0, label)
        return Drawn(drawn, label, odds(drawn))


def tempered(chances: Tensor, temperature: float) -> Tensor:
    """Rows of a distribution [..., K] at another temperature; the mass that a row does not list counts as one
    token.
    """
    rest = (1.0 - chances.sum(dim=-1, keepdim=True)).clamp_min(0.0)
    whole = torch.cat([chances, rest], dim=-1)
    # Divided by the largest first: high powers of small numbers are 0 in float32.
    powers = (whole / whole.amax(dim=-1, keepdim=True).clamp_min(1e-30)) ** (1.0 / temperature)
    listed: Tensor = (powers / powers.sum(dim=-1, keepdim=True).clamp_min(1e-30))[..., :-1]
    return listed


def head_batch(examples: Sequence[HeadExample], uniforms: Sequence[npt.NDArray[np.floating]]) -> HeadBatch:
    """One batch of examples.

    Args:
        examples: at least one.
        uniforms: for each example one number in [0, 1) for each of its draws.
    """
    return HeadBatch(
        input_ids=_stacked([e.draft_ids for e in examples], 0).long(),
        positions=_stacked([e.positions for e in examples], 0).long(),
        known=_stacked([np.ones(len(e.positions), dtype=np.bool_) for e in examples], False),
        next_ids=_stacked([e.next_ids for e in examples], -1).long(),
        ids=_stacked([e.ids for e in examples], -1).long(),
        chances=_stacked([e.chances for e in examples], 0.0),
        longer=_stacked([e.longer for e in examples], -1).long(),
        uniforms=_stacked([u.astype(np.float32) for u in uniforms], 0.0),
    )


def _stacked(arrays: Sequence[npt.NDArray[np.generic]], fill: float) -> Tensor:
    """Arrays with the same number of dimensions, stacked; each is padded to the largest sizes."""
    sizes = np.max([a.shape for a in arrays], axis=0)
    pads = [[(0, int(largest - size)) for largest, size in zip(sizes, a.shape, strict=True)] for a in arrays]
    padded = [np.pad(a, pad, constant_values=fill) for a, pad in zip(arrays, pads, strict=True)]
    return torch.from_numpy(np.stack(padded))
