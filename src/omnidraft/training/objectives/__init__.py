"""Training objectives by name: trie-kl, trie-acceptance, the paper's two losses, and forward KL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnidraft.errors import SettingError

if TYPE_CHECKING:
    from omnidraft.training.objectives.losses import Objective

OBJECTIVES = ("trie-kl", "trie-acceptance", "omnidraft-dm", "omnidraft", "forward-kl")


def objective(name: str) -> Objective:
    """The objective of a name; needs torch.

    Raises:
        SettingError: the name is unknown.
    """
    if name not in OBJECTIVES:
        raise SettingError(
            f'objective "{name}" is unknown', f"use one of {', '.join(OBJECTIVES)}", setting="objective"
        )
    from omnidraft.training.objectives import losses

    found: Objective = getattr(losses, name.replace("-", "_"))
    return found
