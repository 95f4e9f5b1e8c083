"""An adapter as a value, and whether it fits the sites of a graph.

y = x W + (x A) B, with A [in, rank] and B [rank, out]; the scale is folded into B. spec/11-adapter.md.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.lora_sites import MAX_RANK, LoraSites, a_name, b_name

Floats = npt.NDArray[np.float32]

_SITE = re.compile(r"layers\.(0|[1-9][0-9]{0,5})\.[a-z][a-z_]{0,31}")


@dataclass(frozen=True)
class Adapter:
    """Learned changes of a model: low-rank additions to its products.

    Attributes:
        base: fingerprint of the checkpoint that was trained.
        draft_tokenizer, target_tokenizer: fingerprints of the pair's tokenizers.
        tensors: (A [in, rank], B [rank, out]) of each site, float32; sites may differ in rank.
        created: time in ISO 8601, UTC.
    """

    base: str
    draft_tokenizer: str
    target_tokenizer: str
    tensors: Mapping[str, tuple[Floats, Floats]]
    created: str

    def __post_init__(self) -> None:
        if not self.tensors:
            raise AdapterError("it has no tensors", fault="missing_tensor")
        for site, (a, b) in self.tensors.items():
            if not _SITE.fullmatch(site):
                raise AdapterError(f"{site!r:.80} is not a site of a layer", fault="extra_tensor")
            _check_pair(site, a, b)

    @property
    def rank(self) -> int:
        """The largest rank of a site."""
        return max(len(b) for _, b in self.tensors.values())

    @property
    def named(self) -> dict[str, Floats]:
        """All tensors by the names of the graph's inputs: the sites by name, A first."""
        pairs = sorted(self.tensors.items())
        return {n: t for site, (a, b) in pairs for n, t in ((a_name(site), a), (b_name(site), b))}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the base and every tensor: equal if two adapters compute the same."""
        digest = hashlib.sha256(self.base.encode())
        for name, tensor in self.named.items():
            sizes = "\0".join(str(size) for size in tensor.shape)
            digest.update(f"\0{name}\0{sizes}\0".encode())
            digest.update(tensor.astype("<f4").tobytes())
        return digest.hexdigest()

    def check_fits(self, lora: LoraSites) -> None:
        """Check that a graph with these sites can take the adapter."""
        for name, (a, b) in self.tensors.items():
            site = lora.sites.get(name)
            if site is None:
                raise AdapterError(f"the model has no site {name} for it", fault="extra_tensor")
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
        """The tensors to feed a graph, by input name; a fixed rank is filled up with zeros."""
        self.check_fits(lora)
        if lora.rank is None:
            return self.named
        tensors = no_adapter(lora)
        for site, (a, b) in self.tensors.items():
            tensors[a_name(site)][:, : a.shape[1]] = a
            tensors[b_name(site)][: len(b)] = b
        return tensors


def no_adapter(lora: LoraSites) -> dict[str, Floats]:
    """The tensors to feed a graph without an adapter: zeros if the rank is fixed, else none."""
    tensors: dict[str, Floats] = {}
    for name, site in lora.sites.items() if lora.rank is not None else ():
        tensors[a_name(name)] = np.zeros((site.inputs, lora.rank_of(name)), np.float32)
        tensors[b_name(name)] = np.zeros((lora.rank_of(name), site.outputs), np.float32)
    return tensors


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
