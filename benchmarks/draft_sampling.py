"""How q should be sampled: tokens a pass for temperatures and truncations of q, token and block.

    python -m benchmarks.draft_sampling BUNDLE [--prompts N] [--tokens N] [--settings 0.7:0.9 1:1]

Texts are sampled plainly from the target. Along each the drafter reads the spelling, and the chance that a
round accepts m tokens of the text is computed from P and Q of their decisions: given the text it is the
product of min(1, Q / P) for token verification, and the least product of Q / P of a beginning for block
verification, times the chance of the splits (docs/method.md, section 4.2). So nothing is drawn but the texts,
no clock is read, and all rows of a table are of the same texts. Expansions are left out.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.real_models import prompts
from benchmarks.support.task_data import require
from omnidraft.runtime.decoding.sampling import SamplingConfig, target_distribution
from omnidraft.runtime.session.api import GenerationConfig, TextSession, load
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.trie import ActiveTrie

Array = npt.NDArray[Any]
LENGTHS = (1, 2, 3, 4)  # draft tokens of a round
TINY = 1e-300


@dataclass(frozen=True)
class Proposed:
    """P of the decisions that propose a target token of the text; `pieces` is empty where nothing can."""

    row: int  # the drafter's row before its first piece
    pieces: Sequence[int]
    begins: Array  # draft ids that begin a spelling
    begin: float = 0.0
    inside: Sequence[float] = ()
    goes_on: Array | None = None  # ids that would go on after the last piece, where some do
    end: float = 1.0


@dataclass(frozen=True)
class Ratios:
    """Of a token: the chance of the split and Q / P at its beginning, alone and after an END; inside; END."""

    alone: tuple[float, float]
    after: tuple[float, float] | None
    inside: Sequence[float]
    end: float | None


def proposed(token: int, row: int, logits: Array, sampling: SamplingConfig, trie: ActiveTrie) -> Proposed:
    begins, leaf = np.flatnonzero(trie.root_mask), int(trie.map.leaf_of[token])
    if leaf < 0 or not trie.active[leaf]:
        return Proposed(row, (), begins)
    pieces, p = trie.map.spell(token), target_distribution(logits, sampling)
    node = trie.root(pieces[0])
    assert node is not None
    begin, inside = p.mass(trie.targets(node)), []
    for piece in pieces[1:]:
        below = trie.child(node, piece)
        assert below is not None
        inside.append(p.mass(trie.targets(below)) / p.mass(trie.targets(node)))
        node = below
    if not trie.active[node.low + 1 : node.high].any():
        return Proposed(row, pieces, begins, begin, inside)
    end = float(p.probability(np.array([token]))[0]) / p.mass(trie.targets(node))
    return Proposed(row, pieces, begins, begin, inside, trie.children(node)[0], end)


def beginning(token: Proposed, q: Array, excluded: Array | None) -> tuple[float, float]:
    row = q[token.row]
    outside = 0.0 if excluded is None else float(row[excluded].sum())
    possible = float(row[token.begins].sum()) - outside
    if possible <= 0.0 or outside >= 1.0 or (excluded is not None and token.pieces[0] in excluded):
        return 0.0, 0.0
    ratio = float(row[token.pieces[0]]) / possible / max(token.begin, TINY)
    return min(1.0, possible / (1.0 - outside)), ratio


def ratios(tokens: Sequence[Proposed], q: Array) -> list[Ratios | None]:
    """Of each token of a text; None where nothing can propose it."""
    found: list[Ratios | None] = []
    for before, token in zip([None, *tokens[:-1]], tokens, strict=True):
        if not token.pieces:
            found.append(None)
            continue
        excluded = None if before is None else before.goes_on
        after = None if excluded is None else beginning(token, q, excluded)
        rows = range(token.row + 1, token.row + len(token.pieces))
        inside = [
            float(q[r, piece]) / max(p, TINY)
            for r, piece, p in zip(rows, token.pieces[1:], token.inside, strict=True)
        ]
        end = None
        if token.goes_on is not None:
            last = token.row + len(token.pieces)
            end = max(0.0, 1.0 - float(q[last, token.goes_on].sum())) / max(token.end, TINY)
        found.append(Ratios(beginning(token, q, None), after, inside, end))
    return found


def chances(tokens: Sequence[Ratios | None], count: int, block: bool) -> list[float]:
    """The chance that a round of `count` draft tokens accepts at least 1, 2, ... of these tokens."""
    splits = one_by_one = chain = least = 1.0
    used, after_end, accepted = 0, False, []
    for token in tokens:
        if token is None or used + 1 + len(token.inside) + (token.end is not None) > count:
            break
        split, first = token.after if after_end and token.after is not None else token.alone
        used += 1 + len(token.inside)
        for ratio in [first, *token.inside, *([] if token.end is None else [token.end])]:
            chain *= ratio
            one_by_one, least = one_by_one * min(1.0, ratio), min(least, chain)
        splits, after_end = splits * split, token.end is not None
        accepted.append(splits * (least if block else one_by_one))
    return accepted


def passes(tokens: Sequence[Ratios | None], count: int, block: bool) -> float:
    """Expected target passes of a text."""
    needed = [0.0] * (len(tokens) + count + 2)
    for i in reversed(range(len(tokens))):
        reached = [1.0, *chances(tokens[i : i + count], count, block), 0.0]
        needed[i] = 1.0 + sum((a - b) * needed[i + m + 1] for m, (a, b) in enumerate(pairwise(reached)))
    return needed[0]


def q_of(rows: Array, banned: Array, temperature: float, top_p: float) -> Array:
    logits = rows.astype(np.float64)
    logits[:, banned] = -np.inf
    logits -= logits.max(axis=1, keepdims=True)
    if temperature == 0.0:
        return (np.arange(rows.shape[1]) == logits.argmax(axis=1)[:, None]).astype(np.float64)
    weights = np.exp(logits / temperature)
    if top_p < 1.0:
        order = np.argsort(-weights, axis=1, kind="stable")
        ranked = np.take_along_axis(weights, order, 1)
        ranked[np.cumsum(ranked, axis=1) - ranked >= top_p * ranked.sum(axis=1, keepdims=True)] = 0.0
        np.put_along_axis(weights, order, ranked, 1)
    return weights / weights.sum(axis=1, keepdims=True)


def texts(
    session: TextSession, asked: Sequence[str], config: GenerationConfig
) -> Iterator[tuple[list[int], Array, Array]]:
    """The ids of each answer, the target's rows before them, and the drafter's rows along their spelling."""
    target, drafter, rows = session.models.target, session.models.drafter, list[Array]()
    score = target.score

    def kept(tokens: Sequence[int], num_logits: int | None = None) -> Array:
        logits = score(tokens, num_logits)
        if num_logits is None:  # a round's pass, not one that reads the prompt
            rows.append(logits[-1].copy())
        return logits

    target.score = kept  # type: ignore[method-assign]
    for number, text in enumerate(asked):
        seed = 1000 + number % (len(asked) // 5)  # the place in its task
        session.forget_context()
        rows.clear()
        done = session.generate(text, config, mode="plain", seed=seed).finish()
        context = [*drafter.start, *session.loaded.draft_prompt(done.prompt_ids)]
        spelled = [*context, *(d for t in done.token_ids for d in session.loaded.vocab_map.spell(t))]
        drafter.model.rewind(0)
        read = [drafter.model.score(spelled[at : at + 64]).copy() for at in range(0, len(spelled), 64)]
        yield done.token_ids, np.stack(rows), np.concatenate(read)[len(context) - 1 :]
        drafter.forget()


def table(session: TextSession, asked: Sequence[str], temperature: float, top_p: float, tokens: int) -> None:
    """Print a row for each q."""
    kinds = {f"T = {t:g}": (t, 1.0) for t in (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.0)}
    kinds |= {f"T = {t:g}, top-p 0.9": (t, 0.9) for t in (1.0, 0.7, 0.5)}
    config = GenerationConfig(max_new_tokens=tokens, temperature=temperature, top_p=top_p)
    sampling = SamplingConfig(temperature, top_p=top_p)
    vocab_map, length = session.loaded.vocab_map, 0
    cache, banned = NgramCache(vocab_map), np.flatnonzero(~vocab_map.draft_allowed)
    sums = {(kind, block, k): 0.0 for kind in kinds for block in (False, True) for k in LENGTHS}
    for ids, rows, drafted in texts(session, asked, config):
        found, row = list[Proposed](), 0
        for token, logits in zip(ids, rows, strict=True):
            found.append(proposed(token, row, logits, sampling, cache.trie))
            row += len(vocab_map.spell(token))
            cache.learn([token], 0)
        length += len(ids)
        for kind, (warmth, share) in kinds.items():
            decided = ratios(found, q_of(drafted, banned, warmth, share))
            for block in (False, True):
                for k in LENGTHS:
                    sums[kind, block, k] += passes(decided, k, block)
    print(f"\nTarget at T = {temperature:g}, top-p {top_p:g}: {len(asked)} texts, {length} tokens\n")
    names = [f"{rule}, k = {k}" for rule in ("token", "block") for k in LENGTHS]
    print(f"| q | {' | '.join(names)} |\n|{'---|' * (1 + len(names))}")
    for kind in kinds:
        cells = [f"{length / sums[kind, block, k]:.3f}" for block in (False, True) for k in LENGTHS]
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--prompts", type=int, default=5, help="of each of five tasks")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--settings", nargs="+", default=["0.7:0.9", "1:1"], help="temperature:top-p")
    options = parser.parse_args()
    require("tasks")
    session = load(options.bundle, measure="never")
    asked = [text for task in prompts(options.prompts).values() for text in task]
    for setting in options.settings:
        temperature, top_p = map(float, setting.split(":"))
        table(session, asked, temperature, top_p, options.tokens)


if __name__ == "__main__":
    main()
