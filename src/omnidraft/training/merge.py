"""Fold an adapter into the weights that it was learned on: W + A B.

A swappable adapter costs time at every pass. The merged checkpoint costs as much as the original one.
"""

from pathlib import Path

import torch
from torch import nn

from omnidraft.checkpoints.checkpoint import load_model, read_checkpoint
from omnidraft.checkpoints.fingerprint import fingerprint
from omnidraft.checkpoints.workplace import refuse_existing
from omnidraft.checkpoints.write_checkpoint import write_checkpoint
from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.training.lora import linears_by_site


def merge(name: str, adapter: Adapter, out: Path) -> None:
    """Write the checkpoint `name` with an adapter folded in, in float32, with its tokenizer.

    Args:
        name: directory or hub id of the checkpoint that the adapter was learned on.
        adapter: its tensors are added.
        out: a directory that does not exist.

    Raises:
        AdapterError: fault `wrong_base`: another checkpoint.
        OmnidraftError: the checkpoint cannot be read, or `out` cannot be written.
    """
    refuse_existing(out, overwrite=False)
    checkpoint = read_checkpoint(name)
    model = load_model(checkpoint)
    if (actual := fingerprint(checkpoint)) != adapter.base:
        raise AdapterError(
            f"{name} has the weights {actual[:12]} and the adapter was learned on {adapter.base[:12]}",
            "give the checkpoint that it was learned on",
            fault="wrong_base",
        )
    add(model, adapter)
    write_checkpoint(model, checkpoint, out)


def add(model: nn.Module, adapter: Adapter) -> None:
    """Add an adapter to a model's weights in place, computed in float32.

    Raises:
        AdapterError: the model has other sites; nothing is added.
    """
    linears = linears_by_site(model)
    sites = {
        site: Site(parts[0].in_features, tuple((str(i), part.out_features) for i, part in enumerate(parts)))
        for site, parts in linears.items()
    }
    adapter.check_fits(LoraSites(None, sites))
    with torch.no_grad():
        for site, (a, b) in adapter.tensors.items():
            widths = [linear.out_features for linear in linears[site]]
            for linear, added in zip(
                linears[site], torch.split(torch.from_numpy(a @ b).T, widths), strict=True
            ):
                linear.weight += added.to(linear.weight)
