"""Exactness by enumeration: outputs have the target's distribution restricted to a random language."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from omnidraft.grammar import Grammar, from_choices
from omnidraft.grammar.budget import Budget
from omnidraft.grammar.call_grammar import without
from omnidraft.grammar.compile_grammar import linked
from omnidraft.grammar.expression import Embedded, choice, literal, optional, sequence
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import DecoderState
from omnidraft.runtime.decoding.stop import cut_at_eos
from omnidraft.runtime.grammar.byte_trie import ByteTrie
from omnidraft.runtime.grammar.constraint import Constraint, DraftSide
from omnidraft.runtime.grammar.grammar import START
from omnidraft.runtime.grammar.token_masks import TokenMasks
from omnidraft.runtime.session.decode import DecoderModels, decode
from omnidraft.runtime.session.modes import Mode, Verification
from support.configs import config_of
from support.enumerate_distribution import Joint, outcomes
from support.toy import DRAFT, GRAMS, TARGET, ContextModel, processed, toy_cache, toy_map

EOS = TARGET.index("X")
TOKENS = [b"" if name == "X" else name.encode() for name in TARGET]
PIECES = [name.upper().encode() for name in DRAFT if name not in "#i"]
DRAFT_BYTES = [b"" if name in "#i" else name.upper().encode() for name in DRAFT]
PROMPT = (0, 3, 1, 0, 3)


def random_language(rng: np.random.Generator) -> list[bytes]:
    """Two to five texts of up to four pieces."""
    return sorted({b"".join(PIECES[int(i)] for i in rng.integers(len(PIECES), size=rng.integers(1, 4)))
                   for _ in range(int(rng.integers(2, 5)))})  # fmt: skip


@dataclass(frozen=True)
class World:
    """A language, and how a text of it is decoded."""

    seed: int
    mode: Mode
    verification: Verification
    sampling: SamplingConfig
    most: int
    count: int = 1
    spells: bool = True  # whether fixed bytes have one spelling
    ends: bool = True  # whether there is an end token
    marker: bytes = b""  # where it is not empty, any text without it may stand before or instead

    @property
    def language(self) -> list[bytes]:
        return [self.marker + text for text in random_language(np.random.default_rng(self.seed))]

    @property
    def grammar(self) -> Grammar:
        if not self.marker:
            return from_choices([text.decode() for text in self.language])
        texts = choice(literal(text) for text in self.language)
        return linked(sequence(Embedded(without(self.marker)), optional(texts)), {}, 0, Budget())

    def marked(self, text: bytes) -> bytes | None:
        """The part of a text that must belong to the language; None where there is none."""
        at = text.find(self.marker)
        return None if at < 0 else text[at:]

    def fixed(self, text: bytes) -> bytes:
        """What every text of the language goes on with, up to a place where one may end."""
        marked = self.marked(text)
        rests = [] if marked is None else [t[len(marked) :] for t in self.language if t.startswith(marked)]
        same = zip(*rests, strict=False)
        return bytes(each[0] for each in itertools.takewhile(lambda each: len(set(each)) == 1, same))

    def left(self, text: bytes) -> int:
        marked = self.marked(text)
        return 0 if marked is None else left(self.language, marked)


def left(language: Sequence[bytes], text: bytes) -> int:
    """Tokens of the shortest way to complete a text, the first by its bytes; 1000 where there is none."""
    rest = min(
        (t[len(text) :] for t in language if t.startswith(text)), key=lambda r: (len(r), r), default=None
    )
    if rest is None:
        return 1000
    fewest = [0] + [1000] * len(rest)
    for end in range(1, len(rest) + 1):
        fewest[end] = min(
            [1 + fewest[end - len(t)] for t in TOKENS if t and rest[:end].endswith(t)], default=1000
        )
    return fewest[-1]


def expected_of(world: World) -> Joint:
    """The distribution of whole outputs, token by token from the definition."""
    target = ContextModel(2 * world.seed, len(TARGET))
    joint: Joint = defaultdict(float)

    def go_on(emitted: tuple[int, ...], weight: float) -> None:
        text = b"".join(TOKENS[t] for t in emitted)
        marked = world.marked(text)
        if weight == 0.0:
            return
        room = world.most - len(emitted)
        allowed = [bool(t) and world.left(text + t) <= room - 1 for t in TOKENS]
        may_end = marked is None or marked in world.language
        is_last = may_end and not any(allowed)
        own = [bool(t) and is_own(t, world.fixed(text)) for t in TOKENS]
        if world.spells and any(np.logical_and(allowed, own)):
            allowed = list(np.logical_and(allowed, own))
        if emitted and (emitted[-1] == EOS or room == 0 or is_last):
            joint[emitted] += weight
            return
        allowed[EOS] = world.ends and may_end
        context = (*PROMPT, *emitted)
        row = np.where(allowed, target.row(context), -np.inf)
        for token, chance in enumerate(processed(row, world.sampling, context)):
            go_on((*emitted, token), weight * float(chance))

    go_on((), 1.0)
    return joint


def is_own(token: bytes, fixed: bytes) -> bool:
    """Whether a token begins the spelling of fixed bytes, or reaches beyond them."""
    return bool(fixed) and (
        token == TOKENS[spelled(fixed)[0]] or (token.startswith(fixed) and token != fixed)
    )


def spelled(data: bytes) -> list[int]:
    """Bytes as the longest tokens from the left."""
    ids: list[int] = []
    while data:
        ids.append(
            max((i for i, t in enumerate(TOKENS) if t and data.startswith(t)), key=lambda i: len(TOKENS[i]))
        )
        data = data[len(TOKENS[ids[-1]]) :]
    return ids


def actual_of(world: World) -> Joint:
    """The distribution of whole outputs by the real loop."""
    vocab_map, grammar = toy_map(), world.grammar
    trie = ByteTrie(TOKENS, len(TOKENS))
    draft_trie = ByteTrie(DRAFT_BYTES, len(DRAFT_BYTES))
    eos_ids = [EOS] if world.ends else []
    masks = TokenMasks(grammar, trie, eos_ids, spell=spelled if world.spells else lambda _: None)
    draft = DraftSide(TokenMasks(grammar, draft_trie, []), vocab_map.draft_allowed, DRAFT_BYTES.__getitem__)
    drafter, target = ContextModel(2 * world.seed + 1, len(DRAFT)), ContextModel(2 * world.seed, len(TARGET))

    def run(random: object) -> tuple[int, ...]:
        drafter.rewind(0)
        target.rewind(0)
        constraint = Constraint(masks, TOKENS.__getitem__, proposes=True, draft=draft)
        models = DecoderModels(target, Drafter(drafter), toy_cache(vocab_map, tuple(GRAMS)))
        config = config_of(world.mode, world.sampling, world.most, verification=world.verification)
        text, length = DecoderState(), FixedLength(world.count, "copy" if world.mode == "lookup" else "draft")
        text.restart(PROMPT, [0, 3], world.most, cut_at_eos(eos_ids), constraint)
        loop = decode(models, text, config, length, random)  # type: ignore[arg-type]
        return tuple(t for each in loop for t in each.emitted)

    joint: Joint = defaultdict(float)
    for emitted, probability in outcomes(run):
        joint[emitted] += probability
    return joint


def test_certain_tokens_need_no_logits() -> None:
    """FLAKE and S are one token each where nothing else is possible; behind them a choice is."""
    asked = list[int]()

    class Counting(ContextModel):
        def score(self, tokens: Sequence[int], num_logits: int | None = None) -> np.ndarray:
            rows = super().score(tokens, num_logits)
            asked.append(len(rows))
            return rows

    masks = TokenMasks(
        from_choices(["SFLAKELA", "SFLAKEO"]), ByteTrie(TOKENS, len(TOKENS)), [EOS], spell=spelled
    )
    constraint = Constraint(masks, TOKENS.__getitem__, proposes=True)
    target, text = Counting(0, len(TARGET)), DecoderState()
    models = DecoderModels(target, Drafter(ContextModel(1, len(DRAFT))), toy_cache(toy_map(), ()))
    text.restart(PROMPT, [0, 3], 4, cut_at_eos([EOS]), constraint)
    config = config_of("trie", SAMPLINGS[0], 4)
    rounds = list(decode(models, text, config, FixedLength(1), SplitMix64(0)))
    assert len(rounds[0].proposed) == 2
    assert asked[:2] == [1, 1], "the prompt, and the first of three rows"


def distance(world: World) -> float:
    actual, expected = actual_of(world), expected_of(world)
    return 0.5 * sum(abs(actual.get(key, 0.0) - expected.get(key, 0.0)) for key in {*actual, *expected})


SAMPLINGS = (
    SamplingConfig(1.0),
    SamplingConfig(0.6, top_k=3),
    SamplingConfig(1.2, top_p=0.8, repetition_penalty=1.7),
    SamplingConfig(0.0),
)
MODES: tuple[tuple[Mode, Verification], ...] = (
    ("trie", "token"), ("trie", "block"), ("match", "token"), ("lookup", "token"), ("plain", "token"),
)  # fmt: skip


@pytest.mark.parametrize("sampling", range(len(SAMPLINGS)))
@pytest.mark.parametrize(("mode", "verification"), MODES)
def test_an_output_has_the_restricted_distribution(
    mode: Mode, verification: Verification, sampling: int
) -> None:
    for seed in range(10):
        shortest = min(left([text], b"") for text in random_language(np.random.default_rng(seed)))
        world = World(seed, mode, verification, SAMPLINGS[sampling], most=max(shortest, 2) if seed % 2 else 3)
        if world.left(b"") > world.most:
            continue
        assert distance(world) < 1e-9, world
        if seed < 3:
            assert distance(replace(world, spells=False)) < 1e-9, world
            assert distance(replace(world, ends=False)) < 1e-9, world


@pytest.mark.parametrize(("mode", "verification"), MODES)
def test_free_text_before_a_marker_is_the_targets_own(mode: Mode, verification: Verification) -> None:
    """What follows a marker belongs to the language, wherever in a token the marker ends."""
    for seed, marker in enumerate((b"LA", b"FO")):
        world = World(seed, mode, verification, SAMPLINGS[1], most=3, marker=marker)
        assert any(marker in b"".join(TOKENS[t] for t in output) for output in expected_of(world))
        assert distance(world) < 1e-9, world


def test_control_tokens_are_allowed_in_free_text_alone() -> None:
    grammar = World(1, "plain", "token", SAMPLINGS[0], most=3, marker=b"FL").grammar
    tokens, control, tag = [*TOKENS, b"", b""], len(TOKENS), len(TOKENS) + 1
    masks = TokenMasks(grammar, ByteTrie(tokens, len(tokens)), [EOS], {tag: b"FL"})
    assert masks.mask(START, 9)[[EOS, control, tag]].all()
    assert masks.behind(START, control, b"") == START and masks.behind(START, EOS, b"") is None
    inside = masks.behind(START, tag, b"")
    assert inside is not None and inside == grammar.read(START, b"FL")
    assert not masks.mask(inside, 9)[[EOS, control, tag]].any()
    assert not masks.mask(START, 1)[tag], "no room for what must follow"
