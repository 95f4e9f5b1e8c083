"""The codes of llama.cpp's blocks: the values of the package gguf, in at most 8 bits."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")

from omnidraft.checkpoints.gguf.codes import EXACT, read_codes  # noqa: E402
from support.gguf_models import HALVES, random_blocks  # noqa: E402


@pytest.mark.parametrize("kind", EXACT)
def test_codes_have_the_values_of_the_package(kind: str) -> None:
    """All bits of the blocks are random; more rows than are unpacked at a time."""
    data = random_blocks(1030, 512, kind)
    codes = read_codes(data, kind)
    assert codes is not None and codes.codes.max() < 1 << codes.bits
    assert codes.codes.shape == (1030, 512 // codes.block, codes.block)
    assert codes.scales.shape == codes.codes.shape[:2]
    expected = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
    limit = 0 if codes.minima is None else 3e-7 * np.abs(expected).max()  # of a sum in float32
    assert np.abs(codes.values() - expected).max() <= limit


@pytest.mark.parametrize("kind", EXACT)
def test_scales_of_any_sign_and_of_zero(kind: str) -> None:
    """A block of zeros has scale 0; some scales are negative, and minima are of either sign."""
    data = random_blocks(8, 512, kind)
    size = EXACT[kind][0]
    blocks = data.reshape(-1, size)
    for number, at in enumerate(HALVES[kind]):
        blocks[::3, at : at + 2] = 0
        blocks[1::3, at : at + 2] = np.array([(-1) ** number * 0.25], np.float16).view(np.uint8)
    codes = read_codes(data, kind)
    assert codes is not None
    expected = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
    assert np.abs(codes.values() - expected).max() <= 3e-7 * np.abs(expected).max()


def test_other_types_have_no_codes() -> None:
    assert read_codes(np.zeros((2, 64), np.uint8), "F16") is None
    assert read_codes(np.zeros((2, 110), np.uint8), "IQ3_S") is None
