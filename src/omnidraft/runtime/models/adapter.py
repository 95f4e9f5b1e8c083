"""An adapter as a value, the places of a graph that it enters, and whether the two fit.

y = x W + (x A) B, with A [in, rank] and B [rank, out]; the scale is folded into B. spec/adapter.md.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.head import Head
from omnidraft.runtime.bundle.lora_sites import MAX_RANK, LoraSites, a_name, b_name

Floats = npt.NDArray[np.float32]

_SITE = re.compile(r"layers\.(0|[1-9][0-9]{0,5})\.[a-z][a-z_]{0,31}")


@dataclass(frozen=True)
class Adapter:
    """What was learned of a model: low-rank additions to its products, a head, or both.

    Attributes:
        base: fingerprint of the checkpoint that it was learned on.
        draft_tokenizer, target_tokenizer: fingerprints of the pair's tokenizers.
        tensors: (A [in, rank], B [rank, out]) of each place, float32; places may differ in rank.
        created: when, ISO 8601 in UTC.
        head: of a drafter.
    """

    base: str
    draft_tokenizer: str
    target_tokenizer: str
    tensors: Mapping[str, tuple[Floats, Floats]]
    created: str
    head: Head | None = None

    def __post_init__(self) -> None:
        if not self.tensors and self.head is None:
            raise AdapterError("it has no tensors", fault="missing_tensor")
        for site, (a, b) in self.tensors.items():
            if not _SITE.fullmatch(site):
                raise AdapterError(f"{site!r:.80} is no place of a layer", fault="extra_tensor")
            _check_pair(site, a, b)

    @property
    def rank(self) -> int:
        """The largest rank of a place; 0 where it is a head alone."""
        return max((len(b) for _, b in self.tensors.values()), default=0)

    @property
    def named(self) -> dict[str, Floats]:
        """All tensors by the names of the graph's inputs: those of the places by name, A first, then the
        head's.
        """
        pairs = sorted(self.tensors.items())
        found = {n: t for site, (a, b) in pairs for n, t in ((a_name(site), a), (b_name(site), b))}
        return found | (dict(sorted(self.head.tensors.items())) if self.head else {})

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the base and every tensor: equal where two adapters do the same."""
        found = hashlib.sha256(self.base.encode())
        for name, tensor in self.named.items():
            sizes = "\0".join(str(size) for size in tensor.shape)
            found.update(f"\0{name}\0{sizes}\0".encode())
            found.update(tensor.astype("<f4").tobytes())
        return found.hexdigest()

    def check_fits(self, lora: LoraSites) -> None:
        """
        Raises:
            AdapterError: `extra_tensor`, `shape` or `rank`, where a graph with these places cannot take it.
        """
        for name, (a, b) in self.tensors.items():
            site = lora.sites.get(name)
            if site is None:
                raise AdapterError(f"the model has no place {name} for it", fault="extra_tensor")
            if (len(a), b.shape[1]) != (site.inputs, site.outputs):
                raise AdapterError(
                    f"{name} goes from {len(a)} to {b.shape[1]} values and the model's from {site.inputs} "
                    f"to {site.outputs}",
                    fault="shape",
                )
            if lora.rank is not None and a.shape[1] > lora.rank_of(name):
                most = lora.rank_of(name)
                raise AdapterError(
                    f"{name} has rank {a.shape[1]} and the model's graph takes {most} at most", fault="rank"
                )

    def inputs(self, lora: LoraSites) -> dict[str, Floats]:
        """What to feed a graph at its places, by name; a fixed rank is filled up with zeros.

        Raises:
            AdapterError: see `check_fits`.
        """
        self.check_fits(lora)
        if lora.rank is None:
            pairs = self.tensors.items()
            return {n: t for site, (a, b) in pairs for n, t in ((a_name(site), a), (b_name(site), b))}
        found = no_adapter(lora)
        for site, (a, b) in self.tensors.items():
            found[a_name(site)][:, : a.shape[1]] = a
            found[b_name(site)][: len(b)] = b
        return found


def no_adapter(lora: LoraSites) -> dict[str, Floats]:
    """What to feed a graph that is to run without an adapter: zeros where the rank is fixed, else nothing."""
    found: dict[str, Floats] = {}
    for name, site in lora.sites.items() if lora.rank is not None else ():
        found[a_name(name)] = np.zeros((site.inputs, lora.rank_of(name)), np.float32)
        found[b_name(name)] = np.zeros((lora.rank_of(name), site.outputs), np.float32)
    return found


def _check_pair(site: str, a: Floats, b: Floats) -> None:
    for name, tensor in ((a_name(site), a), (b_name(site), b)):
        if tensor.dtype != np.float32:
            raise AdapterError(f"{name} is {tensor.dtype}, not float32", fault="dtype")
        if tensor.ndim != 2 or 0 in tensor.shape:
            raise AdapterError(f"{name} has shape {list(tensor.shape)}, not two sizes above 0", fault="shape")
        if not np.isfinite(tensor).all():
            raise AdapterError(f"{name} holds a value that is not finite", fault="non_finite")
    if a.shape[1] != b.shape[0]:
        raise AdapterError(f"{site} has rank {a.shape[1]} in A and {b.shape[0]} in B", fault="shape")
    if a.shape[1] > MAX_RANK:
        raise AdapterError(f"{site} has rank {a.shape[1]}, more than {MAX_RANK}", fault="rank")
