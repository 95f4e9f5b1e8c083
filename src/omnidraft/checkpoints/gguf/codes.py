"""The codes of llama.cpp's blocks, as codes, scales and minima of 4 or 8 bits with the same values.

A value of a block is scale * (code - middle) + minimum, where middle is 8 or 128. Types whose codes are
centred have no minima. All are exact but for the rounding of a sum of two products in float32.
Formats: ggml-common.h and ggml-quants.c of llama.cpp, and the package gguf, with which tests compare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_ROWS = 1024  # unpacked at a time


@dataclass(frozen=True)
class BlockCodes:
    """A weight as codes."""

    bits: int  # 4 or 8
    codes: Bytes  # [rows, blocks, values of a block], one code in a byte
    scales: Floats  # [rows, blocks]
    minima: Floats | None = None  # [rows, blocks], what is added to each value of a block
    zeros: Bytes | None = None  # [rows, blocks], the code of zero where it is not the middle one

    @property
    def block(self) -> int:
        """Values of a block."""
        return int(self.codes.shape[2])

    def values(self) -> Floats:
        """The weight, float32 [rows, columns]."""
        middle: Any = np.float32(1 << (self.bits - 1)) if self.zeros is None else self.zeros[..., None]
        values: Floats = (self.codes.astype(np.float32) - middle) * self.scales[..., None]
        if self.minima is not None:
            values += self.minima[..., None]
        return values.reshape(len(values), -1)


def read_codes(data: Bytes, kind: str) -> BlockCodes | None:
    """The codes of a weight of one of `EXACT`; None for other types.

    Args:
        data: the rows of the weight as in the file, [rows, bytes].
    """
    if kind not in EXACT:
        return None
    size, bits, unpack = EXACT[kind]
    parts = []
    for at in range(0, len(data), _ROWS):
        rows = data[at : at + _ROWS]
        codes, scales, minima = unpack(np.ascontiguousarray(rows).reshape(-1, size))
        shape = (len(rows), -1)
        parts.append(
            (
                codes.astype(np.uint8).reshape(len(rows), -1, codes.shape[-1]),
                scales.astype(np.float32).reshape(shape),
                None if minima is None else minima.astype(np.float32).reshape(shape),
            )
        )
    lifts = [part[2] for part in parts if part[2] is not None]
    return BlockCodes(
        bits,
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate(lifts) if lifts else None,
    )


# Each function takes blocks as bytes [n, bytes] and returns codes [n, parts, values], scales [n, parts], and
# minima [n, parts] or None.
_Unpacked = tuple[NDArray[np.generic], Floats, Floats | None]


def _half(blocks: Bytes, at: int) -> Floats:
    """The float16 at a byte of each block, [n, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(data: Bytes, run: int) -> Bytes:
    """The low halves of each `run` bytes, then the high ones: [n, bytes] -> [n, bytes / run * 2, run]."""
    parts = data.reshape(len(data), -1, 1, run)
    return np.concatenate([parts & 15, parts >> 4], axis=2).reshape(len(data), -1, run)


def _fifth_bits(blocks: Bytes, at: int) -> Bytes:
    """The highest bits of 32 values of 5 bits, as 0 or 16: [n, 1, 32]."""
    bits: Bytes = np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little")
    bits <<= 4
    return bits[:, None]


def _q4_0(blocks: Bytes) -> _Unpacked:
    return _nibbles(blocks[:, 2:], 16).reshape(-1, 1, 32), _half(blocks, 0), None


def _q4_1(blocks: Bytes) -> _Unpacked:
    scale = _half(blocks, 0)
    return _nibbles(blocks[:, 4:], 16).reshape(-1, 1, 32), scale, _half(blocks, 2) + 8 * scale


def _q5_0(blocks: Bytes) -> _Unpacked:
    codes = _nibbles(blocks[:, 6:], 16).reshape(-1, 1, 32) | _fifth_bits(blocks, 2)
    return codes + np.uint8(128 - 16), _half(blocks, 0), None


def _q5_1(blocks: Bytes) -> _Unpacked:
    codes = _nibbles(blocks[:, 8:], 16).reshape(-1, 1, 32) | _fifth_bits(blocks, 4)
    scale = _half(blocks, 0)
    return codes + np.uint8(128 - 16), scale, _half(blocks, 2) + 16 * scale


def _q8_0(blocks: Bytes) -> _Unpacked:
    return (blocks[:, 2:] ^ 128)[:, None], _half(blocks, 0), None  # two's complement plus 128


def _q2_k(blocks: Bytes) -> _Unpacked:
    packed = blocks[:, 16:80].reshape(-1, 2, 1, 32)
    codes = (packed >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3
    scale = _half(blocks, 80) * (blocks[:, :16] & 15)
    minimum = _half(blocks, 82) * (blocks[:, :16] >> 4)
    return codes.reshape(-1, 16, 16) + np.uint8(8 - 2), scale, 2 * scale - minimum


def _q3_k(blocks: Bytes) -> _Unpacked:
    packed = blocks[:, 32:96].reshape(-1, 2, 1, 32)
    low = ((packed >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3).reshape(-1, 8, 32)
    high = (blocks[:, None, :32] >> np.arange(8, dtype=np.uint8)[:, None]) & 1
    codes = (low | high << 2).reshape(-1, 16, 16)
    scales = blocks[:, 96:108]
    four = np.concatenate([scales[:, :8] & 15, scales[:, :8] >> 4], axis=1)
    two = (scales[:, None, 8:] >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3
    steps = (four | two.reshape(-1, 16) << 4).astype(np.float32) - 32
    return codes + np.uint8(8 - 4), _half(blocks, 108) * steps, None


def _steps_k(blocks: Bytes) -> tuple[Floats, Floats]:
    """Scales and minima of Q4_K and Q5_K, six bits each, [n, 8]."""
    low, middle, high = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 2 & 48)], axis=1)
    minima = np.concatenate([middle & 63, (high >> 4) | (middle >> 2 & 48)], axis=1)
    return _half(blocks, 0) * scales, _half(blocks, 2) * minima


def _q4_k(blocks: Bytes) -> _Unpacked:
    scale, minimum = _steps_k(blocks)
    return _nibbles(blocks[:, 16:], 32), scale, 8 * scale - minimum


def _q5_k(blocks: Bytes) -> _Unpacked:
    scale, minimum = _steps_k(blocks)
    high = (blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & 1
    codes = _nibbles(blocks[:, 48:], 32) | high << 4
    return codes + np.uint8(128 - 16), scale, 16 * scale - minimum


def _q6_k(blocks: Bytes) -> _Unpacked:
    low = _nibbles(blocks[:, :128], 64).reshape(-1, 8, 32)
    packed = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    high = ((packed >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3).reshape(-1, 8, 32)
    steps = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    codes = (low | high << 4).reshape(-1, 16, 16)
    return codes + np.uint8(128 - 32), _half(blocks, 208) * steps, None


_IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int16)


def _iq4_nl(blocks: Bytes) -> _Unpacked:
    return (_IQ4 + 128)[_nibbles(blocks[:, 2:], 16).reshape(-1, 1, 32)], _half(blocks, 0), None


def _iq4_xs(blocks: Bytes) -> _Unpacked:
    low = np.stack([blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4], axis=2).reshape(-1, 8)
    packed = np.ascontiguousarray(blocks[:, 2:4]).view("<u2")
    high = (packed >> np.arange(0, 16, 2, dtype=np.uint16)) & 3
    steps = (low | high << 4).astype(np.float32) - 32
    return (_IQ4 + 128)[_nibbles(blocks[:, 8:], 16).reshape(-1, 8, 32)], _half(blocks, 0) * steps, None


# Bytes of a block, bits of our codes, and how a block is unpacked.
EXACT: dict[str, tuple[int, int, Callable[[Bytes], _Unpacked]]] = {
    "Q4_0": (18, 4, _q4_0),
    "Q4_1": (20, 4, _q4_1),
    "Q5_0": (22, 8, _q5_0),
    "Q5_1": (24, 8, _q5_1),
    "Q8_0": (34, 8, _q8_0),
    "Q2_K": (84, 4, _q2_k),
    "Q3_K": (110, 4, _q3_k),
    "Q4_K": (144, 4, _q4_k),
    "Q5_K": (176, 8, _q5_k),
    "Q6_K": (210, 8, _q6_k),
    "IQ4_NL": (18, 8, _iq4_nl),
    "IQ4_XS": (136, 8, _iq4_xs),
}
