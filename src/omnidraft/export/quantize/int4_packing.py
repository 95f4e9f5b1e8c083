"""Codes of weights as bytes: two 4-bit codes share one, an 8-bit code has its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint8]


def packed(codes: Codes, bits: int) -> Codes:
    """Codes as bytes; two 4-bit codes share a byte along the last axis, the first in the low half."""
    if bits == 8:
        return codes
    if codes.shape[-1] % 2:
        codes = np.concatenate([codes, np.zeros_like(codes[..., :1])], axis=-1)
    halves: Codes = codes[..., ::2] | codes[..., 1::2] * np.uint8(16)
    return halves


def unpacked(codes: Codes, count: int, bits: int) -> Codes:
    """The first `count` codes of each row of `packed` bytes."""
    if bits == 8:
        return codes
    return np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), -1)[:, :count]
