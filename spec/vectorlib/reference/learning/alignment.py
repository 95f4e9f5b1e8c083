"""From a response to training positions: spec/13-learner.md, "Places", "Distributions" and "From traces"."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vectorlib.reference.learning import trace
from vectorlib.reference.learning.trace import RecordStart, Round, Segment, Token, half, single
from vectorlib.reference.random_source import TooClose
from vectorlib.reference.vocab_map import Path, Trie, VocabMap

NOTHING = 1e-12


@dataclass(frozen=True)
class TargetRow:
    """The target's distribution before a token: listed probabilities by target id, and mass of the rest."""

    p: Mapping[int, float]
    rest: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {"ids": list(self.p), "probabilities": list(self.p.values()), "rest": self.rest}


@dataclass(frozen=True)
class DraftTargets:
    """The target's distribution over draft tokens.

    Attributes:
        p: listed probabilities by draft id.
        other: mass of all other draft tokens.
        weight: probability that the target emits something that the drafter can write.
    """

    p: Mapping[int, float]
    other: float
    weight: float = 1.0

    def top(self, keep: int) -> "DraftTargets":
        """The `keep` likeliest ids; the mass of the others joins `other`."""
        ranked = sorted(self.p, key=lambda d: -self.p[d])
        if len(ranked) > keep and self.p[ranked[keep - 1]] - self.p[ranked[keep]] < 1e-9:
            raise TooClose(f"two draft ids share place {keep}")
        lost = math.fsum(self.p[d] for d in ranked[keep:])
        return DraftTargets({d: self.p[d] for d in sorted(ranked[:keep])}, self.other + lost, self.weight)

    def as_json(self, row: int) -> dict[str, Any]:
        return {"row": row, "ids": list(self.p), "probabilities": list(self.p.values()), "other": self.other,
                "weight": self.weight}  # fmt: skip


def below(trie: Trie, target_row: TargetRow, path: Path) -> float:
    """Mass of the tokens whose spelling begins with the path, the path's own token included."""
    return math.fsum(target_row.p.get(t, 0.0) for t in trie.below(path))


def child_masses(trie: Trie, target_row: TargetRow, path: Path) -> dict[int, float]:
    """Mass below each child that leads to some listed token."""
    return {
        d: below(trie, target_row, (*path, d))
        for d in trie.children(path)
        if any(t in target_row.p for t in trie.below((*path, d)))
    }


def at_root(trie: Trie, target_row: TargetRow) -> DraftTargets | None:
    """The distribution *root*; None where there is no mass."""
    masses = child_masses(trie, target_row, ())
    total = math.fsum(masses.values()) + target_row.rest
    if total <= NOTHING:
        return None
    shares = {d: m / total for d, m in masses.items()}
    return DraftTargets(shares, target_row.rest / total, min(total, 1.0))


def inside(trie: Trie, target_row: TargetRow, path: Path) -> DraftTargets | None:
    """The distribution *inside* a node; None where there is no mass."""
    mass = below(trie, target_row, path)
    if mass <= NOTHING:
        return None
    ending = trie.ending(path)
    end = 0.0 if ending is None else target_row.p.get(ending, 0.0) / mass
    shares = {d: m / mass for d, m in child_masses(trie, target_row, path).items()}
    return DraftTargets(shares, end)


def after(
    trie: Trie, target_row: TargetRow, path: Path, following: DraftTargets | None
) -> DraftTargets | None:
    """The distribution *after* a token whose node has children; `following` is the next root distribution."""
    here = inside(trie, target_row, path)
    if here is None:
        return following
    if following is None:
        total = math.fsum(here.p.values())
        if total <= NOTHING:
            return None
        return DraftTargets({d: p / total for d, p in here.p.items()}, 0.0, total)
    others = {d: p for d, p in following.p.items() if d not in trie.children(path)}
    left = math.fsum(others.values()) + following.other
    ended = here.other * following.weight
    weight = 1.0 - here.other + ended
    if weight <= NOTHING:
        return None
    share = ended / (weight * left) if left > NOTHING else 0.0
    other = following.other * share if left > NOTHING else ended / weight
    shares = {d: p / weight for d, p in here.p.items()} | {d: p * share for d, p in others.items()}
    return DraftTargets(shares, other, weight)


@dataclass(frozen=True)
class Aligned:
    """A response as training positions.

    Attributes:
        trie: rows with their distributions, in ascending order; one row may have several.
    """

    vocab_map: VocabMap
    prompt: list[int]
    tokens: list[int]
    trie: list[tuple[int, DraftTargets]] = field(default_factory=list)

    @property
    def spellings(self) -> list[Path]:
        return [self.vocab_map.spelling(t) for t in self.tokens]

    @property
    def rows(self) -> list[int]:
        """The row at which each token begins."""
        return [sum(map(len, self.spellings[:i])) for i in range(len(self.tokens))]

    @property
    def pieces(self) -> list[int]:
        """The response in draft tokens."""
        return [d for spelling in self.spellings for d in spelling]

    def as_json(self) -> dict[str, Any]:
        return {
            "draft_ids": [*self.prompt, *self.pieces],
            "prompt_length": len(self.prompt),
            "tokens": self.tokens,
            "rows": self.rows,
            "trie": [targets.as_json(row) for row, targets in self.trie],
        }


def align(
    trie: Trie,
    prompt: Sequence[int],
    tokens: Sequence[int],
    target_rows: Sequence[TargetRow],
    *,
    max_length: int,
    keep: int = 64,
    roots: Sequence[DraftTargets | None] | None = None,
) -> Aligned:
    """A response as training positions; `roots` are recorded root distributions, where a trace has them."""
    vocab_map = trie.vocab_map
    roots = [at_root(trie, row) for row in target_rows] if roots is None else roots
    count, used = 0, len(prompt)
    while count < len(tokens) and used + len(vocab_map.spelling(tokens[count])) <= max_length:
        used += len(vocab_map.spelling(tokens[count]))
        count += 1
    aligned = Aligned(vocab_map, list(prompt), list(tokens[:count]))
    pairs = zip(aligned.spellings, aligned.tokens, strict=True)
    paths: list[Path] = [s if trie.ending(s) == t else () for s, t in pairs]
    for i, row in enumerate(aligned.rows):
        earlier = paths[i - 1] if i else ()
        first = roots[i]
        if earlier and trie.children(earlier):
            first = after(trie, target_rows[i - 1], earlier, roots[i])
        inner = [inside(trie, target_rows[i], paths[i][:n]) for n in range(1, len(paths[i]))]
        for depth, targets in enumerate([first, *inner]):
            if targets is not None:
                aligned.trie.append((row + depth, targets.top(keep)))
    return aligned


def of_trace(token: Token) -> tuple[TargetRow, DraftTargets | None]:
    """The distribution before a recorded token, and its root distribution over the whole trie.

    Both have the precision of the file: float16 probabilities, float32 masses.
    """

    def read(listed: trace.Listed) -> tuple[dict[int, float], float]:
        return {i: half(p) for i, p in zip(listed[0], listed[1], strict=True)}, single(listed[2])

    listed, rest = read(token.distribution)
    probability = math.exp(-single(token.surprisal))
    left = rest if token.id in listed else max(0.0, rest - probability)
    others = {t: p for t, p in listed.items() if t != token.id}
    total = math.fsum(others.values()) + left
    share = (1.0 - probability) / total if total > 1e-9 else 0.0
    p = {t: q * share for t, q in others.items()} | {token.id: probability}
    target_row = TargetRow(p, left * share if total > 1e-9 else 1.0 - probability)
    masses, mass_left = read(token.roots)
    whole = math.fsum(masses.values()) + mass_left
    if whole <= 1e-9:
        return target_row, None
    weight = max(0.0, 1.0 - single(token.unspelled))
    return target_row, DraftTargets({d: m / whole for d, m in masses.items()}, mass_left / whole, weight)


def responses(
    vocab_map: VocabMap,
    segments: Sequence[Segment],
    active: Sequence[int],
    *,
    start: Sequence[int],
    max_length: int,
) -> list[Aligned]:
    """The training positions of all generations of a trace."""
    trie, aligned = Trie(vocab_map, active), []
    all_active = len(active) == sum(len(vocab_map.spelling(t)) > 1 for t in vocab_map.leaves)
    for record, rounds in _generations(vocab_map, segments):
        tokens = [token for round_ in rounds for token in round_.tokens]
        spelled = sum(len(vocab_map.spelling(t.id)) for t in tokens)
        room = max(max_length - len(start) - spelled, max_length // 2 - len(start), 0)
        prompt = [*start, *record.context[max(0, len(record.context) - room) :]]
        first = vocab_map.spelling(tokens[0].id)
        if not prompt or len(prompt) + len(first) > max_length:
            continue
        rows, roots = zip(*(of_trace(token) for token in tokens), strict=True)
        ids = [token.id for token in tokens]
        recorded = roots if all_active else None
        aligned.append(align(trie, prompt, ids, rows, max_length=max_length, roots=recorded))
    return aligned


def _generations(vocab_map: VocabMap, segments: Sequence[Segment]) -> list[tuple[RecordStart, list[Round]]]:
    """Records that continue one another, as one generation each; the vectors have fewer than 8 at a time."""
    generations: list[tuple[RecordStart, list[Round]]] = []
    for segment in segments:
        for number in range(1 + max(record for record, _ in segment.entries)):
            entries = [entry for record, entry in segment.entries if record == number]
            start = next(entry for entry in entries if isinstance(entry, RecordStart))
            rounds = [entry for entry in entries if isinstance(entry, Round)]
            earlier = next((g for g in generations if _continues(vocab_map, *g, start)), None)
            if earlier is not None:
                earlier[1].extend(rounds)
            else:
                generations.append((start, rounds))
    return generations


def _continues(
    vocab_map: VocabMap, earlier: RecordStart, rounds: Sequence[Round], later: RecordStart
) -> bool:
    spelled = (d for each in rounds for token in each.tokens for d in vocab_map.spelling(token.id))
    text = [*earlier.context, *spelled]
    shared = min(len(text), len(later.context))
    return (
        bool(later.continues)
        and later.digests[1] == earlier.digests[1]
        and earlier.skipped + len(text) == later.skipped + len(later.context)
        and text[len(text) - shared :] == later.context[len(later.context) - shared :]
    )
