"""The bytes of a form of the weights in the files, from shapes alone."""

from __future__ import annotations

from collections.abc import Sequence

from omnidraft.export.graph.markers import EMBEDDING, HEAD, MarkedSite
from omnidraft.export.quantize.quantization import BLOCK, Quantization


def size_of(sites: Sequence[MarkedSite], tied: bool, form: Quantization) -> int:
    """Bytes of a model in one form; a tied LM head is in the file once."""
    total = 0
    for site in sites:
        if site.name == EMBEDDING:
            total += weight_bytes(site, form.table_bits)
        elif not (tied and site.name == HEAD):
            total += weight_bytes(site, form.bits_of(site.name.removesuffix(".weight")), form.method)
    return total


def weight_bytes(site: MarkedSite, bits: int, method: str = "round") -> int:
    """Bytes of one weight: codes, float32 scales, and the zero points of some 4-bit methods."""
    columns, rows = site.parts[0].shape[1], sum(part.shape[0] for part in site.parts)
    if bits == 32:
        return 4 * rows * columns
    blocks = -(-columns // BLOCK)
    zeros = -(-blocks * bits // 8) if bits == 4 and method != "round" else 0
    return rows * (blocks * BLOCK * bits // 8 + 4 * blocks + zeros)
