"""Two random models over the toy language in the real loop, and wrong maps and caches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.modes import Mode
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.configs import config_of
from support.toy import DRAFT, GRAMS, TARGET, ContextModel, ragged, toy_cache, toy_map

PROMPT = [0, 3, 1]


@dataclass
class Toy:
    """Two random models over the toy language, and one generation's settings."""

    seed: int = 0
    vocab_map: VocabMap = field(default_factory=toy_map)
    target_length: int = 256
    drafter_length: int = 256
    start: tuple[int, ...] = (7,)
    draft_prompt: Sequence[int] = (0, 3, 1)
    eos_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.target = ContextModel(2 * self.seed, len(TARGET), max_length=self.target_length)
        self.draft_model = ContextModel(2 * self.seed + 1, len(DRAFT), max_length=self.drafter_length)

    def rounds(
        self,
        mode: Mode,
        count: int,
        cache: NgramCache,
        *,
        most: int = 40,
        temperature: float = 0.0,
        rng: int = 0,
    ) -> Iterator[Round]:
        self.draft_model.rewind(0)
        models = DecoderModels(self.target, Drafter(self.draft_model, self.start), cache)
        config = config_of(mode, SamplingConfig(temperature), most)
        length, random = FixedLength(count), SplitMix64(rng)
        return decode_prompt(models, PROMPT, self.draft_prompt, config, length, random, self.eos_ids)

    def output(self, mode: Mode, count: int, cache: NgramCache, *, most: int = 40) -> list[int]:
        return [token for each in self.rounds(mode, count, cache, most=most) for token in each.emitted]

    def plain(self, most: int = 40) -> list[int]:
        """The target's argmax, token after token, without the loop."""
        output: list[int] = []
        while len(output) < most and len(PROMPT) + len(output) <= self.target_length:
            output.append(int(np.argmax(self.target.row([*PROMPT, *output]))))
            if output[-1] in self.eos_ids:
                break
        return output


class Echo(ContextModel):
    """A drafter's model that knows the target's output and spells it: nearly every draft is right."""

    def __init__(self, target: ContextModel, vocab_map: VocabMap, output: Sequence[int]) -> None:
        super().__init__(1, vocab_map.draft_size, max_length=256)
        self._text = [d for token in output for d in vocab_map.spell(token)]
        self._skip = 4  # start and prompt

    def row(self, context: Sequence[int]) -> npt.NDArray[np.float64]:
        at = len(context) - self._skip
        logits: npt.NDArray[np.float64] = super().row(context).copy()
        if 0 <= at < len(self._text):
            logits[self._text[at]] += 20.0
        return logits


def permuted_map() -> VocabMap:
    """A map whose direct pairs are all wrong: s spells F, f spells LA, and so on."""
    texts = ["s", "f", "la", "ke", "o"]
    targets = ["F", "LA", "KE", "O", "S"]
    return toy_map(dict(zip(texts, targets, strict=True)))


def wrong_grams() -> VocabMap:
    """A map whose n-grams spell other tokens: FLAKE, FO, FLAS and LAKE change places."""
    vocab_map = toy_map()
    rows = [vocab_map.spell(t) for t in range(len(TARGET))]
    places = [TARGET.index(g) for g in GRAMS]
    moved = [rows[p] for p in places[1:] + places[:1]]
    for place, row in zip(places, moved, strict=True):
        rows[place] = row
    leaves = sorted((t for t, row in enumerate(rows) if row), key=lambda t: rows[t])
    return replace(vocab_map, spellings=ragged(rows), leaves=np.array(leaves, dtype=np.int32))


MAPS = {"right": toy_map, "pairs permuted": permuted_map, "n-grams permuted": wrong_grams}


def caches(vocab_map: VocabMap) -> dict[str, NgramCache]:
    full = NgramCache(vocab_map)
    assert full.prefill() == 4
    return {
        "empty": NgramCache(vocab_map),
        "one": toy_cache(vocab_map, ["FO"]),
        "full": full,
        "never emitted": toy_cache(vocab_map, ["FLAS", "LAKE"]),
    }
