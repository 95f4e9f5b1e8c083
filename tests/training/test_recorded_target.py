"""The recorded target of the benchmarks beside the model whose greedy text it repeats."""

from __future__ import annotations

from benchmarks.support.recorded_target import RecordedTarget
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.generation_config import GenerationConfig
from support.toy import DRAFT, TARGET, ContextModel, toy_cache, toy_map

TOKENS = 24


def rounds(target: Model, seed: int) -> list[tuple[int, ...]]:
    """The emitted tokens of each round."""
    drafter = Drafter(ContextModel(seed, len(DRAFT)), [DRAFT.index("o")])
    models = DecoderModels(target, drafter, toy_cache(toy_map(), ["FO", "LAKE", "FLAKE"]))
    config = GenerationConfig(TOKENS, mode="trie")
    given = [TARGET.index("S")], [DRAFT.index("s")]
    decoded = decode_prompt(models, *given, config, FixedLength(4), SplitMix64(0))
    return [tuple(each.emitted) for each in decoded]


def test_rounds_are_those_of_the_model() -> None:
    accepted = 0
    for seed in range(6):
        real = rounds(ContextModel(seed + 50, len(TARGET)), seed)
        text = [TARGET.index("S"), *(token for each in real for token in each)]
        assert rounds(RecordedTarget(text, len(TARGET)), seed) == real
        accepted += sum(len(each) > 1 for each in real)
    assert accepted > 5, "no draft was accepted, so the rounds show nothing"
