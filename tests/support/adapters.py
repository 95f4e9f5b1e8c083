"""Adapters of random numbers, for a bundle's models and for none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_fit import Role
from omnidraft.runtime.session.api import TextSession

BASE, DRAFT, TARGET = "a" * 64, "d" * 64, "e" * 64
CREATED = "2026-01-02T03:04:05Z"
SITES = {
    "layers.0.qkv": Site(3, (("q", 2), ("k", 1), ("v", 1))),
    "layers.0.o": Site(2, (("o", 3),)),
}
PROMPT = "How many legs do 3 cats have?"
OPEN = LoraSites(None, SITES)


def adapter(rank: int = 2, seed: int = 0, *, sites: LoraSites = OPEN, size: float = 1.0) -> Adapter:
    """For models without names: two places of a few values."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) * size).astype(np.float32)

    tensors = {n: (draw(site.inputs, rank), draw(rank, site.outputs)) for n, site in sites.sites.items()}
    return Adapter(BASE, DRAFT, TARGET, tensors, CREATED)


def adapter_of(bundle: Bundle, role: Role, seed: int = 0, *, rank: int = 4, size: float = 0.05) -> Adapter:
    """For a model of a bundle, large enough to change what it says."""
    entry = bundle.drafter if role == "drafter" else bundle.target
    assert entry.lora is not None and entry.fingerprint is not None
    learned = adapter(rank, seed, sites=entry.lora, size=size)
    draft, target = (str(bundle.manifest[r]["tokenizer_fingerprint"]) for r in ("drafter", "target"))
    return Adapter(entry.fingerprint, draft, target, learned.tensors, learned.created)


def drafters(session: TextSession, *seeds: int) -> list[Adapter]:
    return [adapter_of(session.bundle, "drafter", seed) for seed in seeds]


def refusal(call: Callable[[], object]) -> AdapterError:
    with pytest.raises(AdapterError) as caught:
        call()
    return caught.value
