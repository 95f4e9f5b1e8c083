"""From a response to training positions: spec/learner.md, places, distributions and traces."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vectorlib.reference.random_source import TooClose
from vectorlib.reference.trace import Begin, Kept, Pass, Tape, Token, half, single
from vectorlib.reference.vocab_map import Path, Trie, Words

NOTHING = 1e-12


@dataclass(frozen=True)
class Listed:
    """The target's distribution before a token: what it lists by target id, and the mass of the rest."""

    p: Mapping[int, float]
    rest: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {"ids": list(self.p), "probabilities": list(self.p.values()), "rest": self.rest}


@dataclass(frozen=True)
class Over:
    """A distribution over draft tokens: by id, of all others, and how likely the drafter can write what comes."""

    p: Mapping[int, float]
    other: float
    weight: float = 1.0

    def top(self, keep: int) -> "Over":
        ranked = sorted(self.p, key=lambda d: -self.p[d])
        if len(ranked) > keep and self.p[ranked[keep - 1]] - self.p[ranked[keep]] < 1e-9:
            raise TooClose(f"two draft ids share place {keep}")
        lost = math.fsum(self.p[d] for d in ranked[keep:])
        return Over({d: self.p[d] for d in sorted(ranked[:keep])}, self.other + lost, self.weight)

    def as_json(self, row: int) -> dict[str, Any]:
        return {"row": row, "ids": list(self.p), "probabilities": list(self.p.values()), "other": self.other,
                "weight": self.weight}  # fmt: skip


def below(trie: Trie, distribution: Listed, path: Path) -> float:
    """Mass of the tokens whose spelling begins so, the path's own among them."""
    return math.fsum(distribution.p.get(t, 0.0) for t in trie.below(path))


def of_children(trie: Trie, distribution: Listed, path: Path) -> dict[int, float]:
    """Mass below each child that some listed token goes on to."""
    return {
        d: below(trie, distribution, (*path, d))
        for d in trie.children(path)
        if any(t in distribution.p for t in trie.below((*path, d)))
    }


def root(trie: Trie, distribution: Listed) -> Over | None:
    masses = of_children(trie, distribution, ())
    total = math.fsum(masses.values()) + distribution.rest
    if total <= NOTHING:
        return None
    return Over({d: m / total for d, m in masses.items()}, distribution.rest / total, min(total, 1.0))


def inside(trie: Trie, distribution: Listed, path: Path) -> Over | None:
    mass = below(trie, distribution, path)
    if mass <= NOTHING:
        return None
    ending = trie.ending(path)
    end = 0.0 if ending is None else distribution.p.get(ending, 0.0) / mass
    return Over({d: m / mass for d, m in of_children(trie, distribution, path).items()}, end)


def after(trie: Trie, distribution: Listed, path: Path, following: Over | None) -> Over | None:
    here = inside(trie, distribution, path)
    if here is None:
        return following
    if following is None:
        total = math.fsum(here.p.values())
        return None if total <= NOTHING else Over({d: p / total for d, p in here.p.items()}, 0.0, total)
    others = {d: p for d, p in following.p.items() if d not in trie.children(path)}
    left = math.fsum(others.values()) + following.other
    said = here.other * following.weight
    weight = 1.0 - here.other + said
    if weight <= NOTHING:
        return None
    share = said / (weight * left) if left > NOTHING else 0.0
    other = following.other * share if left > NOTHING else said / weight
    found = {d: p / weight for d, p in here.p.items()} | {d: p * share for d, p in others.items()}
    return Over(found, other, weight)


@dataclass(frozen=True)
class Places:
    """A response in training: distributions by row, and of each target token where it begins.

    Attributes:
        trie: distributions in the order of the rows, several of one row maybe. direct: of each token.
    """

    words: Words
    prompt: list[int]
    tokens: list[int]
    distributions: list[Listed]
    before: int
    trie: list[tuple[int, Over]] = field(default_factory=list)
    direct: list[tuple[int, Over]] = field(default_factory=list)

    @property
    def spellings(self) -> list[Path]:
        return [self.words.spelling(t) for t in self.tokens]

    @property
    def rows(self) -> list[int]:
        return [sum(map(len, self.spellings[:i])) for i in range(len(self.tokens))]

    @property
    def said(self) -> list[int]:
        return [d for spelling in self.spellings for d in spelling]

    def is_direct(self, i: int) -> bool:
        spelling = self.spellings[i]
        return len(spelling) == 1 and self.words.direct[spelling[0]] == self.tokens[i]

    def as_json(self) -> dict[str, Any]:
        sizes = [len(self.words.spoken(t)) for t in self.tokens]
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        return {
            "draft_ids": [*self.prompt, *self.said],
            "prompt_length": len(self.prompt),
            "owners": [i for i, spelling in enumerate(self.spellings) for _ in spelling],
            "tokens": {
                "ids": self.tokens,
                "before": [self.before, *self.tokens][: len(self.tokens)],
                "rows": self.rows,
                "lengths": [len(s) for s in self.spellings],
                "direct": [self.is_direct(i) for i in range(len(self.tokens))],
                "probabilities": [
                    distribution.p.get(t, None if distribution.rest > 0 else 0.0)
                    for t, distribution in zip(self.tokens, self.distributions, strict=True)
                ],
                "starts": [end - size for end, size in zip(ends, sizes, strict=True)],
                "ends": ends,
            },
            "trie": [distribution.as_json(row) for row, distribution in self.trie],
            "direct": [distribution.as_json(row) for row, distribution in self.direct],
        }


def align(
    trie: Trie,
    prompt: Sequence[int],
    tokens: Sequence[int],
    distributions: Sequence[Listed],
    *,
    max_length: int,
    keep: int = 64,
    before: int = -1,
    roots: Sequence[Over | None] | None = None,
) -> Places:
    words = trie.words
    known = [root(trie, distribution) for distribution in distributions] if roots is None else roots
    count, used = 0, len(prompt)
    while count < len(tokens) and used + len(words.spelling(tokens[count])) <= max_length:
        used += len(words.spelling(tokens[count]))
        count += 1
    found = Places(words, list(prompt), list(tokens[:count]), list(distributions[:count]), before)
    paths: list[Path] = [s if trie.ending(s) == t else () for s, t in
                         zip(found.spellings, found.tokens, strict=True)]  # fmt: skip
    for i, row in enumerate(found.rows):
        earlier = paths[i - 1] if i else ()
        distribution = known[i]
        if earlier and trie.children(earlier):
            distribution = after(trie, distributions[i - 1], earlier, known[i])
        inner = [inside(trie, distributions[i], paths[i][:n]) for n in range(1, len(paths[i]))]
        for depth, each in enumerate([distribution, *inner]):
            if each is not None:
                found.trie.append((row + depth, each.top(keep)))
        found.direct.append((row, direct(words, distributions[i]).top(keep)))
    return found


def direct(words: Words, distribution: Listed) -> Over:
    pairs = {t: d for d, t in enumerate(words.direct) if t >= 0}
    outside = math.fsum(p for t, p in distribution.p.items() if t not in pairs)
    return Over(
        {pairs[t]: p for t, p in distribution.p.items() if t in pairs},
        distribution.rest,
        max(0.0, 1.0 - outside),
    )


def of_trace(words: Words, token: Token) -> tuple[Listed, Over | None]:
    """The distribution before a recorded token, and its root distribution over the whole trie, as their file has them."""

    def read(kept: Kept) -> tuple[dict[int, float], float]:
        return {i: half(p) for i, p in zip(kept[0], kept[1], strict=True)}, single(kept[2])

    distribution, rest = read(token.distribution)
    said = math.exp(-single(token.surprisal))
    left = rest if token.id in distribution else max(0.0, rest - said)
    others = {t: p for t, p in distribution.items() if t != token.id}
    total = math.fsum(others.values()) + left
    share = (1.0 - said) / total if total > 1e-9 else 0.0
    listed = {t: p * share for t, p in others.items()} | {token.id: said}
    masses, mass_left = read(token.roots)
    whole = math.fsum(masses.values()) + mass_left
    begun = None
    if whole > 1e-9:
        weight = max(0.0, 1.0 - single(token.unspelled))
        begun = Over({d: m / whole for d, m in masses.items()}, mass_left / whole, weight)
    return Listed(listed, left * share if total > 1e-9 else 1.0 - said), begun


def responses(
    words: Words, tapes: Sequence[Tape], active: Sequence[int], *, start: Sequence[int], max_length: int
) -> list[Places]:
    """What the generations of a trace come to."""
    trie, found = Trie(words, active), []
    whole = len(active) == sum(len(words.spelling(t)) > 1 for t in words.leaves)
    for begun, passes in _generations(tapes):
        tokens = [token for each in passes for token in each.tokens]
        spelled = sum(len(words.spelling(t.id)) for t in tokens)
        room = max(max_length - len(start) - spelled, max_length // 2 - len(start), 0)
        prompt = [*start, *begun.context[max(0, len(begun.context) - room) :]]
        first = words.spelling(tokens[0].id)
        if not prompt or len(prompt) + len(first) > max_length:
            continue
        distributions, roots = zip(*(of_trace(words, token) for token in tokens), strict=True)
        ids = [token.id for token in tokens]
        places = align(
            trie, prompt, ids, distributions, max_length=max_length, roots=roots if whole else None
        )
        found.append(places)
    return found


def _generations(tapes: Sequence[Tape]) -> list[tuple[Begin, list[Pass]]]:
    """Records that go on with one another, as one each; the vectors have fewer than 8 at a time."""
    found: list[tuple[Begin, list[Pass]]] = []
    for tape in tapes:
        for number in range(1 + max(record for record, _ in tape.entries)):
            mine = [entry for record, entry in tape.entries if record == number]
            begun = next(entry for entry in mine if isinstance(entry, Begin))
            passes = [entry for entry in mine if isinstance(entry, Pass)]
            earlier = next((g for g in found if _goes_on(*g, begun)), None)
            if earlier is not None:
                earlier[1].extend(passes)
            else:
                found.append((begun, passes))
    return found


def _goes_on(earlier: Begin, passes: Sequence[Pass], later: Begin) -> bool:
    text = [*earlier.context, *(d for each in passes for token in each.tokens for d in token.pieces)]
    shared = min(len(text), len(later.context))
    return (
        bool(later.continues)
        and later.digests[1] == earlier.digests[1]
        and earlier.skipped + len(text) == later.skipped + len(later.context)
        and text[len(text) - shared :] == later.context[len(later.context) - shared :]
    )
