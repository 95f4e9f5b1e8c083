"""LoRA on a torch drafter: y = x W + (x A) B alpha / rank at the linears of its layers, never folded into W.

The parameters have the layout of an adapter, A [in, rank] and B [rank, out], and become an adapter
(spec/11-adapter.md) by the code that also packs peft's. So a session adds exactly the trained term.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from omnidraft.checkpoints.peft_adapter import MODULES, PeftAdapter, pack
from omnidraft.errors import SettingError
from omnidraft.runtime.bundle.lora_sites import MAX_RANK, LoraSites
from omnidraft.runtime.models.adapter import Adapter

_PLACE = re.compile(r"(?:.*\.)?layers\.(?P<layer>\d{1,6})\.(?P<module>[a-z_.]+)")
Place = tuple[int, str]  # layer, and name of the linear in it


class LoraLinear(nn.Module):
    """A frozen linear with a low-rank term added; B begins at zero, so the term does too."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float, generator: torch.Generator) -> None:
        super().__init__()
        self.base, self.scale = base, alpha / rank
        bound = base.in_features**-0.5
        drawn = (torch.rand(base.in_features, rank, generator=generator) * 2.0 - 1.0) * bound
        self.lora_a = nn.Parameter(drawn.to(base.weight.device))  # float32 also where the base is not
        self.lora_b = nn.Parameter(torch.zeros(rank, base.out_features, device=base.weight.device))

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] to [..., out]; the term is computed in float32, as in the graphs."""
        added = (x.to(self.lora_a.dtype) @ self.lora_a) @ self.lora_b * self.scale
        y: Tensor = self.base(x)
        return y + added.to(y.dtype)


def add_lora(model: nn.Module, rank: int = 32, alpha: float = 32.0, *, seed: int = 0) -> list[nn.Parameter]:
    """Put LoRA on all attention and MLP linears of every layer and freeze everything else.

    Args:
        model: a transformers decoder; it is changed.
        alpha: the scale is alpha / rank.
        seed: of the initial values of A.

    Returns:
        the trainable parameters.

    Raises:
        SettingError: the rank is outside 1..1024, the model has LoRA already, or none of its linears has a
            known name.
    """
    if not 1 <= rank <= MAX_RANK:
        raise SettingError(f"LoRA rank {rank} is outside 1..{MAX_RANK}", "8 to 64 is usual")
    if any(isinstance(module, LoraLinear) for module in model.modules()):
        raise SettingError("the model has LoRA already", "load the checkpoint again")
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, linear in list(_linears(model)):
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, LoraLinear(linear, rank, alpha, generator))
    trainable = [p for p in model.parameters() if p.requires_grad]
    if not trainable:
        raise SettingError(
            f"{type(model).__name__} has no linear of a layer that LoRA knows by name", "train it in full"
        )
    return trainable


def lora_modules(model: nn.Module) -> dict[Place, LoraLinear]:
    """The adapted linears by layer and name, in order."""
    modules = {}
    for name, module in model.named_modules():
        match = _PLACE.fullmatch(name) if isinstance(module, LoraLinear) else None
        if match is not None and isinstance(module, LoraLinear):
            modules[int(match["layer"]), match["module"]] = module
    return modules


def to_adapter(
    model: nn.Module, lora: LoraSites, base: str, tokenizers: tuple[str, str], created: str
) -> Adapter:
    """The trained tensors as an adapter of a bundle's model.

    Args:
        model: with LoRA.
        base: fingerprint of the bundle's model.
        tokenizers: fingerprints of the drafter's and the target's tokenizer.
        created: the time, ISO 8601 in UTC.

    Raises:
        AdapterError: the tensors do not fit the bundle's model.
    """
    modules = {
        place: (_floats(each.lora_a.T), _floats((each.lora_b * each.scale).T))
        for place, each in lora_modules(model).items()
    }
    adapter = Adapter(base, *tokenizers, pack(PeftAdapter("", modules), lora), created)
    adapter.check_fits(lora)
    return adapter


def linears_by_site(model: nn.Module) -> dict[str, list[nn.Linear]]:
    """The linears of each site that an adapter can change, in the order of their outputs in the site."""
    names = list(MODULES)
    by_site: dict[str, list[tuple[int, nn.Linear]]] = {}
    for name, linear in _linears(model):
        match = _PLACE.fullmatch(name)
        assert match is not None, name
        site = f"layers.{match['layer']}.{MODULES[match['module']][0]}"
        by_site.setdefault(site, []).append((names.index(match["module"]), linear))
    return {site: [each for _, each in sorted(parts, key=lambda p: p[0])] for site, parts in by_site.items()}


def _linears(model: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    for name, module in model.named_modules():
        match = _PLACE.fullmatch(name)
        if match and match["module"] in MODULES and isinstance(module, nn.Linear):
            yield name, module


def _floats(values: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.ascontiguousarray(values.detach().cpu().float().numpy())
