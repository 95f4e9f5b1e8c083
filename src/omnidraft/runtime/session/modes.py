"""Every mode by its name, and the proposer of each; mode trie is the default."""

from collections.abc import Callable
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

_Drafting = Callable[[Drafter, NgramCache, float], TrieProposer]
_SAMPLED: dict[Mode, _Drafting] = {
    "trie": TrieProposer,
    "match": MatchProposer,
    "direct": DirectProposer,
    "paper": PaperProposer,
}
# At temperature 0 a proposal is accepted while it is the argmax, so all modes share one rule.
_GREEDY: dict[Mode, _Drafting] = {
    "trie": MatchProposer,
    "match": MatchProposer,
    "direct": DirectMatch,
    "paper": MatchProposer,
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
    drafting = _drafting_proposer(mode, drafter, cache, temperature, verification)
    return CopyingProposer(drafting) if copies else drafting


def _drafting_proposer(
    mode: Mode, drafter: Drafter, cache: NgramCache, temperature: float, verification: Verification
) -> TrieProposer:
    if temperature == 0.0:
        return _GREEDY[mode](drafter, cache, temperature)
    if mode == "trie":
        verify = verify_block if verification == "block" else verify_tokens
        return TrieProposer(drafter, cache, temperature, verify)
    return _SAMPLED[mode](drafter, cache, temperature)


def check_mode(mode: str, verification: str = "token") -> None:
    """
    Raises:
        SettingError: an unknown mode or verification.
    """
    for name, value, known in (("mode", mode, MODES), ("verification", verification, VERIFICATIONS)):
        if value not in known:
            raise SettingError(f'{name} "{value}" is unknown', f"use one of {', '.join(known)}", setting=name)
