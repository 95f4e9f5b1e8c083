"""The bytes of a form of the weights, from shapes alone: what is stored, and what one token reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnidraft.export.graph.markers import EMBEDDING, HEAD, MarkedSite
from omnidraft.export.quantize.quantization import BLOCK, Quantization


@dataclass(frozen=True)
class FormSize:
    """Bytes of the weights in one form."""

    stored: int  # in the files
    read: int  # of the products, all of which one token reads

    def price(self, other: FormSize) -> str:
        """What another form costs beside this one, for people."""
        more, slower = (other.stored - self.stored) / 1e6, other.read / max(1, self.read)
        return (
            f"{more:.0f} MB more; a token takes up to {slower:.1f} times as long, by the bytes that it reads"
        )


def size_of(sites: Sequence[MarkedSite], tied: bool, form: Quantization) -> FormSize:
    """The size of a model in one form."""
    stored = read = 0
    for site in sites:
        table = site.name == EMBEDDING or (tied and site.name == HEAD)
        bits = form.table_bits if table else form.bits_of(site.name.removesuffix(".weight"))
        size = weight_bytes(site, bits, "round" if table else form.method)
        read += 0 if site.name == EMBEDDING else size
        stored += 0 if tied and site.name == HEAD else size
    return FormSize(stored, read)


def weight_bytes(site: MarkedSite, bits: int, method: str = "round") -> int:
    """Bytes of one weight: codes, float32 scales, and the zero points of some 4-bit methods."""
    columns, rows = site.parts[0].shape[1], sum(part.shape[0] for part in site.parts)
    if bits == 32:
        return 4 * rows * columns
    blocks = -(-columns // BLOCK)
    zeros = -(-blocks * bits // 8) if bits == 4 and method != "round" else 0
    return rows * (blocks * BLOCK * bits // 8 + 4 * blocks + zeros)
