"""The bytes of a form of the weights, from shapes alone: what is stored, and what one token reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnidraft.export.graph.markers import EMBEDDING, HEAD, MarkedSite
from omnidraft.export.quantize.quantization import Quantization

_SCALE = 4  # bytes of a float32 scale


@dataclass(frozen=True)
class FormSize:
    """Bytes of the weights in one form.

    Attributes:
        stored: in the files.
        read: of the products, all of which one token reads.
    """

    stored: int
    read: int

    def price(self, other: FormSize) -> str:
        """What another form costs beside this one, for people."""
        more, slower = (other.stored - self.stored) / 1e6, other.read / max(1, self.read)
        return (
            f"{more:.0f} MB more; a token takes up to {slower:.1f} times as long, by the bytes that it reads"
        )


def size_of(sites: Sequence[MarkedSite], tied: bool, form: Quantization) -> FormSize:
    """The size of a model in one form.

    Args:
        sites: the weights of its graph.
        tied: whether the LM head is the embedding.
        form: of the weights.
    """
    stored = read = 0
    for site in sites:
        rows, columns = site.parts[0].shape[1], sum(part.shape[0] for part in site.parts)
        if site.name == EMBEDDING:
            stored += _embedding(columns, rows, form.embedding_bits)
            continue
        shared = tied and site.name == HEAD and (form.one_table or form.bits == form.embedding_bits == 32)
        bits = form.embedding_bits if shared else form.bits_of(site.name.removesuffix(".weight"))
        size = _product(rows, columns, bits, form)
        read += size
        stored += 0 if shared else size
    return FormSize(stored, read)


def product_bytes(site: MarkedSite, bits: int, form: Quantization) -> int:
    """Bytes of one product in `bits` bits, with the block and the method of a form."""
    return _product(site.parts[0].shape[1], sum(part.shape[0] for part in site.parts), bits, form)


def _product(rows: int, columns: int, bits: int, form: Quantization) -> int:
    if bits == 32:
        return 4 * rows * columns
    block = form.block_for(rows)
    blocks = -(-rows // block)
    zeros = -(-blocks * bits // 8) if bits == 4 and form.method != "round" else 0
    return columns * (blocks * block * bits // 8 + _SCALE * blocks + zeros)


def _embedding(tokens: int, width: int, bits: int) -> int:
    return 4 * tokens * width if bits == 32 else tokens * (width * bits // 8 + _SCALE * -(-width // 32))
