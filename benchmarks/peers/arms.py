"""The arms: what transformers, onnxruntime-genai and omnidraft do with the same models."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from benchmarks.draft_length import read
from benchmarks.draft_length_record import ROWS
from benchmarks.peers.decoders import Decoder, Omnidraft, Transformers, assisted
from benchmarks.peers.genai import INSTALLED, Genai, of_bundle
from omnidraft.commands.starters import StarterPair, starter
from omnidraft.runtime.decoding.baselines import Mode
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.session.api import load

NUM_DRAFT_TOKENS = 4
LOOKUP = {"prompt_lookup_num_tokens": 10, "max_matching_ngram_size": 2}
Length = int | Literal["auto"]


@dataclass(frozen=True)
class Arm:
    """One way to decode.

    Attributes:
        name: with the runtime as its first word.
        temperature: 0 is greedy.
        make: makes its decoder; each arm has models of its own, since TLI rewrites the drafter.
        plain: makes the runtime's plain decoder.
        learned: whether the drafter has learned of the target.
    """

    name: str
    temperature: float
    make: Callable[[], Decoder]
    plain: Callable[[], Decoder]
    learned: bool = False


def arms(pair: StarterPair) -> list[Arm]:
    """All arms of a starter pair; the learned drafter's checkpoint lies beside the bundles."""
    return [*_transformers(pair), *(_genai(pair) if INSTALLED else []), *_omnidraft(pair)]


def plain_transformers(pair: StarterPair) -> Transformers:
    """The target alone."""
    return Transformers(starter(pair.name[-1]))


def _transformers(pair: StarterPair) -> list[Arm]:
    target, untrained = starter(pair.name[-1]), starter("drafter")
    learned = pair.untrained.parent / f"drafter-learned-{pair.name[-1]}"
    k = NUM_DRAFT_TOKENS

    def arm(name: str, temperature: float, make: Callable[[], Decoder], *, learned: bool = False) -> Arm:
        return Arm(f"transformers {name}", temperature, make, lambda: plain_transformers(pair), learned)

    return [
        arm("UAG, its defaults", 0.0, lambda: assisted(target, untrained, None)),
        arm("UAG, k = 4", 0.0, lambda: assisted(target, untrained, k)),
        arm("UAG, k = 4", 0.0, lambda: assisted(target, learned, k), learned=True),
        arm("prompt lookup", 0.0, lambda: Transformers(target, **LOOKUP)),
        arm("TLI as shipped, k = 4", 1.0, lambda: assisted(target, untrained, k)),
        arm("TLI repaired, k = 4", 1.0, lambda: assisted(target, untrained, k, in_order=True)),
        arm("TLI repaired, k = 4", 1.0, lambda: assisted(target, learned, k, in_order=True), learned=True),
    ]


def _genai(pair: StarterPair) -> list[Arm]:
    """Its draft model must have the target's vocabulary, which the starters' drafter has not."""
    folder = pair.untrained.parent / f"genai-{pair.name[-1]}"
    if not folder.exists():
        of_bundle(pair.untrained, folder, threads=1)
    lookup = {"ngram_size": LOOKUP["max_matching_ngram_size"], "max_draft_tokens": 10}
    return [Arm("genai prompt lookup", 0.0, lambda: Genai(folder, **lookup), lambda: Genai(folder))]


def _omnidraft(pair: StarterPair) -> list[Arm]:
    costs = _recorded_costs(f"{pair.name} fp32")

    def make(mode: Mode, count: Length, learned: bool) -> Decoder:
        bundle, cache = (pair.learned, pair.cache) if learned else (pair.untrained, None)
        session = load(bundle, threads=1, cache=cache)
        # Recorded costs, so that "auto" makes the same choices on every machine.
        session.costs = replace(session.bundle.costs, target=costs.target, draft=costs.draft, host=costs.host)
        return Omnidraft(session, mode, count)

    def arm(name: str, temperature: float, mode: Mode, count: Length, learned: bool) -> Arm:
        return Arm(
            f"omnidraft {name}",
            temperature,
            lambda: make(mode, count, learned),
            lambda: make("plain", "auto", learned),
            learned,
        )

    k = NUM_DRAFT_TOKENS
    ways: list[tuple[str, Mode, Length, bool]] = [
        ("direct map, k = 4", "direct", k, False),
        ("k = 4", "trie", k, False),
        ("k = 4", "trie", k, True),
        ("auto", "trie", "auto", False),
        ("auto", "trie", "auto", True),
    ]
    return [
        arm(name, temperature, mode, count, learned)
        for temperature in (0.0, 1.0)
        for name, mode, count, learned in ways
    ]


def _recorded_costs(name: str) -> Costs:
    return read(ROWS)[0][name]
