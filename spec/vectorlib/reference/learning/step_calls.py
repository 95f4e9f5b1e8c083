"""Responses as inputs of the training step: spec/13-learner.md, "A call of the step"."""

from collections.abc import Sequence
from math import fsum
from typing import Any

from vectorlib.reference.learning.alignment import Aligned, DraftTargets

FACTORS = {"trie-kl": {"trie": 1.0}, "omnidraft": {"direct": 1.0, "ngram": 0.2}}
TERMS = ("trie", "direct", "ngram")
Inputs = dict[str, Any]
Placed = tuple[int, DraftTargets]  # the row of a call, and the distribution at it


def calls(responses: Sequence[Aligned], objective: str, at_once: int) -> dict[str, Any]:
    """Inputs of each call of step.onnx by name, the scales, and the count that each term is divided by."""
    factors = FACTORS[objective]
    groups = [responses[i : i + at_once] for i in range(0, len(responses), at_once)]
    made = [_call(group, factors) for group in groups]
    counts = {term: max(1e-6, fsum(count[term] for _, count in made)) for term in factors}
    scales = [factors[t] / counts[t] if t in factors else 0.0 for t in TERMS]
    return {"calls": [inputs for inputs, _ in made], "counts": counts, "scales": scales}


def _call(group: Sequence[Aligned], factors: dict[str, float]) -> tuple[Inputs, dict[str, float]]:
    longest = max(len(r.prompt) + len(r.pieces) for r in group)
    ids, rows, ngram = list[list[int]](), list[int](), list[tuple[int, int]]()
    trie, direct = list[Placed](), list[Placed]()
    for b, response in enumerate(group):
        text, first = [*response.prompt, *response.pieces], len(rows)
        ids.append(text + [0] * (longest - len(text)))
        rows += [b * longest + at for at in range(len(response.prompt) - 1, len(text))]
        trie += [(first + row, targets) for row, targets in response.trie]
        direct += [
            (first + row, on_intersection(targets))
            for i, (row, targets) in enumerate(response.direct)
            if response.is_direct(i)
        ]
        for row, spelling in zip(response.rows, response.spellings, strict=True):
            if len(spelling) > 1:
                ngram += [(first + row + n, d) for n, d in enumerate(spelling)]
    trie = trie if "trie" in factors else []
    direct = direct if "direct" in factors else []
    ngram = ngram if "ngram" in factors else []
    inputs = {
        "input_ids": ids,
        "rows": rows,
        **_tables("trie", trie),
        "trie.weights": [targets.weight for _, targets in trie],
        **_tables("direct", direct),
        "ngram.rows": [row for row, _ in ngram],
        "ngram.ids": [d for _, d in ngram],
    }
    weight = fsum(targets.weight for _, targets in trie)
    return inputs, {"trie": weight, "direct": float(len(direct)), "ngram": float(len(ngram))}


def on_intersection(targets: DraftTargets) -> DraftTargets:
    """The mass outside the direct pairs moves to OTHER; the result has sum 1."""
    other = targets.other + max(1.0 - targets.weight, 0.0)
    total = fsum(targets.p.values()) + other
    if total <= 1e-8:
        return DraftTargets({}, 1.0)
    return DraftTargets({d: p / total for d, p in targets.p.items()}, other / total)


def _tables(name: str, places: Sequence[Placed]) -> Inputs:
    """Tables as wide as the widest distribution, at least 1; -1 fills up the ids."""
    width = max([1, *(len(targets.p) for _, targets in places)])
    return {
        f"{name}.rows": [row for row, _ in places],
        f"{name}.ids": [[*targets.p] + [-1] * (width - len(targets.p)) for _, targets in places],
        f"{name}.probabilities": [
            [*targets.p.values()] + [0.0] * (width - len(targets.p)) for _, targets in places
        ],
        f"{name}.other": [targets.other for _, targets in places],
    }
