"""What GPTQ needs of the inputs of each product, measured in torch on calibration rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from omnidraft.checkpoints.thin_model import ThinModel, patched, reading
from omnidraft.export.graph.markers import EMBEDDING, HEAD, MarkedSite
from omnidraft.export.quantize.gptq import inverse_factor
from omnidraft.export.quantize.grids import Floats
from omnidraft.export.quantize.quantization import Quantization

_HESSIANS = 1 << 30  # bytes of Hessians in memory; each group of products reads all rows again
_ROW = 512  # most tokens of a row that are used


def input_factors(
    thin: ThinModel,
    sites: Sequence[MarkedSite],
    form: Quantization,
    rows: Sequence[Sequence[int]],
    step: Callable[[int, int], None],
) -> Iterator[tuple[str, Floats]]:
    """The name and the `inverse_factor` of each product of 4 bits, in the order of the sites.

    Args:
        form: says which products get 4 bits; a tied LM head does not.
        step: called with (rows read, all rows) for each group of products.
    """
    group, held = list[MarkedSite](), 0
    for site in sites:
        if site.name == EMBEDDING or (site.name == HEAD and thin.tied) or form.bits_of(_product(site)) != 4:
            continue
        size = 4 * site.parts[0].shape[1] ** 2
        if group and held + size > _HESSIANS:
            yield from _factors(thin, group, rows, step)
            group, held = [], 0
        group.append(site)
        held += size
    if group:
        yield from _factors(thin, group, rows, step)


def _product(site: MarkedSite) -> str:
    return site.name.removesuffix(".weight")


def _factors(
    thin: ThinModel,
    group: Sequence[MarkedSite],
    rows: Sequence[Sequence[int]],
    step: Callable[[int, int], None],
) -> Iterator[tuple[str, Floats]]:
    """The parts of a packed product have the same input: the first one is looked at."""
    firsts = {site.parts[0].name: site for site in group}
    sums: dict[str, Tensor] = {}
    with reading(thin):
        product = nn.Linear.forward

        def linear(module: Any, x: Tensor) -> Tensor:
            if module.site in firsts:
                flat = x.reshape(-1, x.shape[-1])
                square = flat.T @ flat
                sums[module.site] = sums[module.site] + square if module.site in sums else square
            return product(module, x)

        with patched(nn.Linear, "forward", linear), torch.inference_mode():
            for done, row in enumerate(rows):
                step(done, len(rows))
                thin.model(input_ids=torch.tensor([list(row)[:_ROW]]))
    for name, site in firsts.items():
        yield _product(site), inverse_factor(sums.pop(name).numpy())
