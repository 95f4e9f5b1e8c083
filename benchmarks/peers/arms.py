"""The arms: what transformers, onnxruntime-genai and omnidraft do with the same models."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.peers.decoders import Decoder, Omnidraft, Transformers, assisted
from benchmarks.peers.genai import INSTALLED, Genai, of_bundle, with_drafter
from benchmarks.peers.same_vocabulary import make
from benchmarks.support.starter_pairs import StarterPair
from omnidraft.commands.starters import starter
from omnidraft.export.bundle import export_bundle
from omnidraft.export.options import Options
from omnidraft.export.quantize.quantization import FP32, INT8
from omnidraft.runtime.session.api import TextSession, load, load_bundle
from omnidraft.runtime.session.modes import Mode

NUM_DRAFT_TOKENS = 4
COPIED = 10  # tokens of a copy, in each runtime
LOOKUP = {"prompt_lookup_num_tokens": COPIED, "max_matching_ngram_size": 2}
GENAI_LOOKUP = {"ngram_size": 3, "max_draft_tokens": COPIED}  # it matches ngram_size - 1 tokens
MEASURED = "How many legs do 3 cats have?"  # the text that a machine is timed on
Length = int | Literal["auto"]
DrafterName = Literal["none", "untrained", "learned", "same vocabulary"]


@dataclass(frozen=True)
class Arm:
    """One way to decode.

    Attributes:
        name: with the runtime as its first word.
        drafter: what proposes, besides the context.
        temperature: 0 is greedy.
        make: makes its decoder; each arm has models of its own, since TLI rewrites the drafter.
        plain: makes the runtime's plain decoder.
        keeps: whether an answer depends on those before it, so that the prompts of a task belong together.
    """

    name: str
    drafter: DrafterName
    temperature: float
    make: Callable[[], Decoder]
    plain: Callable[[], Decoder]
    keeps: bool = False

    def __str__(self) -> str:
        return f"{self.name}, {self.drafter}, T = {self.temperature:g}"


def arms(pair: StarterPair, *, timed: bool = False) -> list[Arm]:
    """All arms of a starter pair; the learned drafter's checkpoint lies beside the bundles.

    Args:
        pair: of a target and its drafters.
        timed: whether omnidraft measures this machine, keeps its sessions and takes no seed, as by default. A
            count takes seeds, and leaves out "auto", whose draft lengths depend on the machine.
    """
    return [*_transformers(pair), *(_genai(pair) if INSTALLED else []), *_omnidraft(pair, timed)]


def plain_transformers(pair: StarterPair) -> Transformers:
    """The target alone."""
    return Transformers(starter(pair.name[-1]))


def _transformers(pair: StarterPair) -> list[Arm]:
    target, untrained = starter(pair.name[-1]), starter("drafter")
    learned = pair.untrained.parent / f"drafter-learned-{pair.name[-1]}"
    k = NUM_DRAFT_TOKENS

    def arm(name: str, drafter: DrafterName, temperature: float, make: Callable[[], Decoder]) -> Arm:
        return Arm(f"transformers {name}", drafter, temperature, make, lambda: plain_transformers(pair))

    def tli(drafter: DrafterName, *, in_order: bool) -> Arm:
        way, checkpoint = (
            ("repaired" if in_order else "as shipped"),
            learned if drafter == "learned" else untrained,
        )
        return arm(
            f"TLI {way}, k = 4", drafter, 1.0, lambda: assisted(target, checkpoint, k, in_order=in_order)
        )

    return [
        arm("plain", "none", 0.0, lambda: plain_transformers(pair)),
        arm("UAG, k = 4", "untrained", 0.0, lambda: assisted(target, untrained, k)),
        arm("UAG, k = 4", "learned", 0.0, lambda: assisted(target, learned, k)),
        tli("untrained", in_order=True),
        tli("learned", in_order=True),
        arm("prompt lookup", "none", 0.0, lambda: Transformers(target, **LOOKUP)),
        arm("UAG, its defaults", "untrained", 0.0, lambda: assisted(target, untrained, None)),
        tli("untrained", in_order=False),
    ]


def _genai(pair: StarterPair) -> list[Arm]:
    """Its draft model must have the target's vocabulary, which the starters' drafter has not."""
    folder = pair.untrained.parent / f"genai-{pair.name[-1]}"
    if not folder.exists():
        of_bundle(pair.untrained, folder, threads=1)

    def arm(name: str, drafter: DrafterName, temperature: float, make: Callable[[], Decoder]) -> Arm:
        return Arm(f"genai {name}", drafter, temperature, make, lambda: Genai(folder))

    def drafting() -> Decoder:
        return Genai(_with_same_vocabulary(pair, folder), max_draft_tokens=NUM_DRAFT_TOKENS)

    return [
        arm("plain", "none", 0.0, lambda: Genai(folder)),
        arm("prompt lookup", "none", 0.0, lambda: Genai(folder, **GENAI_LOOKUP)),
        arm("draft model, k = 4", "same vocabulary", 0.0, drafting),
        arm("draft model, k = 4", "same vocabulary", 1.0, drafting),
    ]


def _with_same_vocabulary(pair: StarterPair, target: Path) -> Path:
    """The folder of the target's graph with a drafter that is made of the target."""
    place, name = pair.untrained.parent, pair.name[-1]
    bundle, graph = place / f"same-vocabulary-{name}-bundle", place / f"same-vocabulary-{name}-genai"
    checkpoint = make(load(pair.untrained, threads=1), starter(name), place / f"same-vocabulary-{name}")
    if not bundle.exists():
        bare = Options(FP32, drafter_quantization=INT8, lora_drafter=False)
        export_bundle(str(checkpoint), str(starter("drafter")), bundle, bare)
    if not graph.exists():
        of_bundle(bundle, graph, threads=1)
    return with_drafter(target, graph, place / f"genai-{name}-drafting")


def _omnidraft(pair: StarterPair, timed: bool) -> list[Arm]:
    def decoder(mode: Mode, count: Length, drafter: DrafterName, *, keeps: bool) -> Decoder:
        learned = drafter == "learned"
        loaded = load_bundle(pair.learned if learned else pair.untrained, threads=1)

        def begin() -> TextSession:
            session = TextSession(loaded, cache=pair.cache if learned else None)
            if timed:
                session.measure(MEASURED)
            return session

        return Omnidraft(begin, mode, count, keeps=keeps or timed, seeded=not timed)

    def arm(
        name: str, drafter: DrafterName, temperature: float, mode: Mode, count: Length, *, keeps: bool = False
    ) -> Arm:
        return Arm(
            f"omnidraft {name}",
            drafter,
            temperature,
            lambda: decoder(mode, count, drafter, keeps=keeps),
            lambda: decoder("plain", 0, drafter, keeps=True),
            keeps,
        )

    def drafting(temperature: float) -> Iterator[Arm]:
        k = NUM_DRAFT_TOKENS
        yield arm("direct map, k = 4", "untrained", temperature, "direct", k)
        yield arm("cold cache, k = 4", "untrained", temperature, "trie", k)
        yield arm("kept cache, k = 4", "untrained", temperature, "trie", k, keeps=True)
        yield arm("kept cache, k = 4", "learned", temperature, "trie", k, keeps=True)
        if timed:
            yield arm("auto", "untrained", temperature, "trie", "auto", keeps=True)
            yield arm("auto", "learned", temperature, "trie", "auto", keeps=True)

    return [
        arm("plain", "none", 0.0, "plain", 0),
        arm("copying", "none", 0.0, "lookup", COPIED),
        *drafting(0.0),
        *drafting(1.0),
    ]
