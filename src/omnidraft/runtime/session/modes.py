"""Every mode by its name, and the proposer of each; mode trie is the default."""

from typing import Literal, get_args

from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.baselines import DirectMatch, DirectProposer, PaperProposer
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.prompt_lookup import CopyingProposer, PlainProposer, PromptLookup
from omnidraft.runtime.decoding.proposer import MatchProposer, Proposer, TrieProposer
from omnidraft.runtime.decoding.verifier import verify_block, verify_tokens
from omnidraft.runtime.vocab.ngram_cache import NgramCache

Mode = Literal["trie", "match", "direct", "paper", "lookup", "plain"]
MODES: tuple[Mode, ...] = get_args(Mode)
Verification = Literal["token", "block"]
VERIFICATIONS: tuple[Verification, ...] = get_args(Verification)

_SAMPLED: dict[Mode, type[TrieProposer]] = {
    "trie": TrieProposer,
    "match": MatchProposer,
    "direct": DirectProposer,
    "paper": PaperProposer,
}


def proposer_for(
    mode: Mode,
    drafter: Drafter,
    cache: NgramCache,
    temperature: float,
    verification: Verification = "token",
    *,
    copies: bool = False,
) -> Proposer:
    """The proposer of a mode.

    Args:
        drafter, cache: what modes that draft with the small model use.
        verification: of mode trie above temperature 0: decision by decision, or as a block.
        copies: whether the context is a second source of proposals.
    """
    if mode in ("lookup", "plain"):
        return PromptLookup() if mode == "lookup" else PlainProposer()
    if temperature == 0.0:  # a proposal is accepted while it is the argmax, so all modes share one rule
        kind: type[TrieProposer] = DirectMatch if mode == "direct" else MatchProposer
    else:
        kind = _SAMPLED[mode]
    verify = verify_block if verification == "block" and mode == "trie" else verify_tokens
    drafting = kind(drafter, cache, temperature, verify)
    return CopyingProposer(drafting) if copies else drafting


def check_mode(mode: str, verification: str = "token") -> None:
    """
    Raises:
        SettingError: an unknown mode or verification.
    """
    known = {"mode": (mode, MODES), "verification": (verification, (*VERIFICATIONS, "auto"))}
    for name, (value, names) in known.items():
        if value not in names:
            raise SettingError(f'{name} "{value}" is unknown', f"use one of {', '.join(names)}", setting=name)
