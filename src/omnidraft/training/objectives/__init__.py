"""Training objectives by name: trie-kl, trie-acceptance, the paper's own, and three for comparison."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnidraft.errors import SettingError

if TYPE_CHECKING:
    from omnidraft.training.objectives.loss import Objective

OBJECTIVES = {
    "trie-kl": "trie_kl.TrieKl",
    "trie-acceptance": "trie_acceptance.TrieAcceptance",
    "omnidraft": "paper.OmniDraft",
    "forward-kl": "paper.ForwardKl",
    "uld": "comparison.Uld",
    "alm": "comparison.Alm",
    "vocagnolm": "comparison.VocAgnoLm",
}


def objective(name: str, **settings: Any) -> Objective:
    """Construct an objective by its name; needs torch.

    Args:
        name: a key of `OBJECTIVES`.
        settings: the arguments of that objective's class.

    Raises:
        SettingError: the name is unknown, or the objective does not have such a setting.
    """
    if name not in OBJECTIVES:
        raise SettingError(
            f'objective "{name}" is unknown', f"use one of {', '.join(OBJECTIVES)}", setting="objective"
        )
    module, _, kind = OBJECTIVES[name].partition(".")
    construct: Callable[..., Objective] = getattr(import_module(f"{__name__}.{module}"), kind)
    try:
        return construct(**settings)
    except TypeError as error:
        raise SettingError(f"objective {name} does not take these settings: {error}") from None
