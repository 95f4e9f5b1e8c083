"""Responses as inputs of the training step: spec/13-learner.md, "A call of the step"."""

from collections.abc import Sequence
from math import fsum
from typing import Any

from vectorlib.reference.learning.alignment import Aligned


def calls(responses: Sequence[Aligned], at_once: int) -> dict[str, Any]:
    """Inputs of each call of step.onnx by name, and the scale of the step."""
    groups = [responses[i : i + at_once] for i in range(0, len(responses), at_once)]
    weight = fsum(targets.weight for response in responses for _, targets in response.trie)
    return {"calls": [_call(group) for group in groups], "scale": 1.0 / max(1e-6, weight)}


def _call(group: Sequence[Aligned]) -> dict[str, Any]:
    """Tables are as wide as the widest distribution, at least 1; -1 fills up the ids."""
    longest = max(len(r.prompt) + len(r.pieces) for r in group)
    ids, rows, places = list[list[int]](), list[int](), []
    for b, response in enumerate(group):
        text, first = [*response.prompt, *response.pieces], len(rows)
        ids.append(text + [0] * (longest - len(text)))
        rows += [b * longest + at for at in range(len(response.prompt) - 1, len(text))]
        places += [(first + row, targets) for row, targets in response.trie]
    width = max([1, *(len(targets.p) for _, targets in places)])
    return {
        "input_ids": ids,
        "rows": rows,
        "trie.rows": [row for row, _ in places],
        "trie.ids": [[*targets.p] + [-1] * (width - len(targets.p)) for _, targets in places],
        "trie.probabilities": [
            [*targets.p.values()] + [0.0] * (width - len(targets.p)) for _, targets in places
        ],
        "trie.other": [targets.other for _, targets in places],
        "trie.weights": [targets.weight for _, targets in places],
    }
