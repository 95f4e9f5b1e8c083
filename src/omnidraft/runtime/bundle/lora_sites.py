"""The sites of a graph, its products that an adapter can change, and the names of the adapter's inputs.

y = x W + (x A) B, with A [in, rank] and B [rank, out]; see spec/11-adapter.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from omnidraft.runtime.bundle import bundle_limits as limits

# Of one site: three packed parts of rank 256 fit, and a wrong file cannot ask for all memory.
MAX_RANK = limits.MAX_RANK


def a_name(site: str) -> str:
    """The name of the graph's input for A of a site."""
    return f"{site}.lora_a"


def b_name(site: str) -> str:
    """The name of the graph's input for B of a site."""
    return f"{site}.lora_b"


@dataclass(frozen=True)
class Site:
    """A product that an adapter can change.

    Attributes:
        parts: name and width of each part of its output, in order.
    """

    inputs: int
    parts: tuple[tuple[str, int], ...]

    @property
    def outputs(self) -> int:
        """Width of the whole output."""
        return sum(width for _, width in self.parts)


@dataclass(frozen=True)
class LoraSites:
    """Where adapters enter a graph.

    Attributes:
        rank: of A and B for each part of a site, which must be fed; None where any rank fits, fed or not.
        sites: by name, `layers.{i}.{product}`.
    """

    rank: int | None
    sites: Mapping[str, Site]

    def rank_of(self, name: str) -> int:
        """The fixed rank of a site: parts that were trained apart lie side by side in it."""
        assert self.rank is not None, "any rank fits"
        return self.rank * len(self.sites[name].parts)
