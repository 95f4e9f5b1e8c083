"""Examples of the adaptive head as one batch of tensors: what the drafter draws, and how likely it passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from omnidraft.learning.positions.head_example import HeadExample

_LEAST = 1e-6  # of a probability and of what it lacks to 1


@dataclass(frozen=True)
class Drawn:
    """What the drafter drew, each [B, A].

    Attributes:
        ids: draft ids. labels: how likely each is to be accepted.
        odds: logarithm of q / (1 - q), q the drafter's probability of it at temperature 1.
    """

    ids: Tensor
    labels: Tensor
    odds: Tensor


@dataclass(frozen=True)
class HeadBatch:
    """B responses with A draws at most.

    Attributes:
        input_ids: [B, L], filled up with 0 on the right.
        positions: of the last token before each draw, [B, A]; 0 fills up.
        known: which draws there are, [B, A].
        said, ids, chances, longer: see `HeadExample`, [B, A], [B, A, K], [B, A, K] and [B, A, W].
        uniforms: in [0, 1), one for each draw, [B, A].
    """

    input_ids: Tensor
    positions: Tensor
    known: Tensor
    said: Tensor
    ids: Tensor
    chances: Tensor
    longer: Tensor
    uniforms: Tensor

    def to(self, device: torch.device | str) -> HeadBatch:
        """On a device."""
        return HeadBatch(*(getattr(self, field.name).to(device) for field in fields(self)))

    def draws(self, logits: Tensor, allowed: Tensor, temperature: float) -> Drawn:
        """What the drafter draws at each place, and how likely that is to be accepted.

        Args:
            logits: of the drafter there, [B, A, draft vocab].
            allowed: which draft ids it may draw, [draft vocab].
            temperature: of the session. At 0 the likeliest is drawn, and accepted where the response says it.
        """
        logits, longer = logits.masked_fill(~allowed, -torch.inf), self.longer
        whole = torch.log_softmax(logits, dim=-1)

        def odds(drawn: Tensor) -> Tensor:
            q = whole.gather(-1, drawn[..., None])[..., 0].exp().clamp(_LEAST, 1.0 - _LEAST)
            return torch.log(q) - torch.log1p(-q)

        if temperature == 0.0:
            drawn = logits.argmax(dim=-1)
            right = (drawn == self.said) | (drawn[..., None] == longer).any(dim=-1)
            return Drawn(drawn, right.to(logits.dtype), odds(drawn))
        q = torch.softmax(logits / temperature, dim=-1)
        sums = q.cumsum(dim=-1)
        drawn = (sums <= self.uniforms[..., None] * sums[..., -1:]).sum(dim=-1)
        chances = tempered(self.chances, temperature)
        p = (chances * (self.ids == drawn[..., None])).sum(dim=-1)
        label = (p / q.gather(-1, drawn[..., None])[..., 0].clamp_min(1e-30)).clamp(max=1.0)
        label = torch.where((drawn[..., None] == longer).any(dim=-1), 1.0, label)
        return Drawn(drawn, label, odds(drawn))


def tempered(chances: Tensor, temperature: float) -> Tensor:
    """Rows of a distribution [..., K] at another temperature; what a row does not list counts as one token."""
    rest = (1.0 - chances.sum(dim=-1, keepdim=True)).clamp_min(0.0)
    whole = torch.cat([chances, rest], dim=-1)
    # The largest is divided out first: high powers of small numbers are nothing in float32.
    powers = (whole / whole.amax(dim=-1, keepdim=True).clamp_min(1e-30)) ** (1.0 / temperature)
    found: Tensor = (powers / powers.sum(dim=-1, keepdim=True).clamp_min(1e-30))[..., :-1]
    return found


def head_batch(examples: Sequence[HeadExample], uniforms: Sequence[npt.NDArray[np.floating]]) -> HeadBatch:
    """One batch of examples, at least one.

    Args:
        examples: of responses.
        uniforms: as many numbers in [0, 1) for each example as it has draws.
    """
    return HeadBatch(
        input_ids=_stacked([e.draft_ids for e in examples], 0).long(),
        positions=_stacked([e.positions for e in examples], 0).long(),
        known=_stacked([np.ones(len(e.positions), dtype=np.bool_) for e in examples], False),
        said=_stacked([e.said for e in examples], -1).long(),
        ids=_stacked([e.ids for e in examples], -1).long(),
        chances=_stacked([e.chances for e in examples], 0.0),
        longer=_stacked([e.longer for e in examples], -1).long(),
        uniforms=_stacked([u.astype(np.float32) for u in uniforms], 0.0),
    )


def _stacked(arrays: Sequence[npt.NDArray[np.generic]], fill: float) -> Tensor:
    """Arrays of one number of dimensions on top of each other, each filled up to the largest sizes."""
    sizes = np.max([a.shape for a in arrays], axis=0)
    pads = [[(0, int(most - size)) for most, size in zip(sizes, a.shape, strict=True)] for a in arrays]
    filled = [np.pad(a, pad, constant_values=fill) for a, pad in zip(arrays, pads, strict=True)]
    return torch.from_numpy(np.stack(filled))
