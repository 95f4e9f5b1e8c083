"""Responses as inputs of the training graphs: spec/learner.md, a call of the step; spec/train-step.md."""

from collections.abc import Sequence
from math import fsum
from typing import Any

from vectorlib.reference.alignment import Over, Places
from vectorlib.reference.vocab_map import Words

FACTORS = {"trie-kl": {"trie": 1.0}, "omnidraft": {"direct": 1.0, "ngram": 0.2}}
TERMS = ("trie", "direct", "ngram")
Tables = dict[str, Any]


def calls(responses: Sequence[Places], objective: str, at_once: int) -> dict[str, Any]:
    """Inputs of each call of step.onnx by name, the scales, and what each term is divided by."""
    factors = FACTORS[objective]
    groups = [responses[i : i + at_once] for i in range(0, len(responses), at_once)]
    found = [_call(group, factors) for group in groups]
    counts = {term: max(1e-6, fsum(count[term] for _, count in found)) for term in factors}
    scales = [factors[t] / counts[t] if t in factors else 0.0 for t in TERMS]
    return {"calls": [inputs for inputs, _ in found], "counts": counts, "scales": scales}


def _call(group: Sequence[Places], factors: dict[str, float]) -> tuple[Tables, dict[str, float]]:
    longest = max(len(r.prompt) + len(r.said) for r in group)
    ids, rows, ngram = list[list[int]](), list[int](), list[tuple[int, int]]()
    trie, direct = list[tuple[int, Over]](), list[tuple[int, Over]]()
    for b, response in enumerate(group):
        text, first = [*response.prompt, *response.said], len(rows)
        ids.append(text + [0] * (longest - len(text)))
        rows += [b * longest + at for at in range(len(response.prompt) - 1, len(text))]
        trie += [(first + row, distribution) for row, distribution in response.trie]
        direct += [(first + row, on_intersection(distribution)) for i, (row, distribution) in enumerate(response.direct)
                   if response.is_direct(i)]  # fmt: skip
        for row, spelling in zip(response.rows, response.spellings, strict=True):
            if len(spelling) > 1:
                ngram += [(first + row + n, d) for n, d in enumerate(spelling)]
    trie = trie if "trie" in factors else []
    direct = direct if "direct" in factors else []
    ngram = ngram if "ngram" in factors else []
    inputs = {
        "input_ids": ids,
        "rows": rows,
        **_distributions("trie", trie),
        "trie.weights": [distribution.weight for _, distribution in trie],
        **_distributions("direct", direct),
        "ngram.rows": [row for row, _ in ngram],
        "ngram.ids": [d for _, d in ngram],
    }
    counts = {"trie": fsum(distribution.weight for _, distribution in trie), "direct": float(len(direct)),
              "ngram": float(len(ngram))}  # fmt: skip
    return inputs, counts


def on_intersection(distribution: Over) -> Over:
    """What is outside the direct pairs in OTHER, and all of it a distribution."""
    other = distribution.other + max(1.0 - distribution.weight, 0.0)
    total = fsum(distribution.p.values()) + other
    return (
        Over({d: p / total for d, p in distribution.p.items()}, other / total)
        if total > 1e-8
        else Over({}, 1.0)
    )


def _distributions(name: str, places: Sequence[tuple[int, Over]]) -> Tables:
    """Tables as wide as the widest distribution, 1 at least; -1 fills up."""
    width = max([1, *(len(distribution.p) for _, distribution in places)])
    return {
        f"{name}.rows": [row for row, _ in places],
        f"{name}.ids": [
            [*distribution.p] + [-1] * (width - len(distribution.p)) for _, distribution in places
        ],
        f"{name}.probabilities": [
            [*distribution.p.values()] + [0.0] * (width - len(distribution.p)) for _, distribution in places
        ],
        f"{name}.other": [distribution.other for _, distribution in places],
    }


def head_call(group: Sequence[Places]) -> Tables:
    """Inputs of head.onnx by name, for one call with all of the responses."""
    draws = [_draws(response) for response in group]
    most = max([1, *map(len, draws)])
    wide = max([1, *(len(longer) for found in draws for _, _, longer in found)])
    longest = max(len(r.prompt) + len(r.said) for r in group)
    texts = [[*r.prompt, *r.said] for r in group]
    blank: tuple[int, int, list[int]] = (0, -1, [])
    filled = [[*found, *[blank] * (most - len(found))] for found in draws]
    return {
        "input_ids": [text + [0] * (longest - len(text)) for text in texts],
        "positions": [[at for at, _, _ in found] for found in filled],
        "known": [[i < len(found) for i in range(most)] for found in draws],
        "said": [[said for _, said, _ in found] for found in filled],
        "longer": [[longer + [-1] * (wide - len(longer)) for _, _, longer in found] for found in filled],
    }


def _draws(response: Places) -> list[tuple[int, int, list[int]]]:
    """Position, what is said there, and longer draft tokens that say it too."""
    known, said = {row for row, _ in response.trie}, response.said
    owners = [i for i, spelling in enumerate(response.spellings) for _ in spelling]
    found = []
    for row in sorted(known & set(range(len(said)))):
        i = owners[row]
        right = response.is_direct(i) if len(response.spellings[i]) == 1 else response.rows[i] + 1 in known
        found.append((len(response.prompt) - 1 + row, said[row] if right else -1, _longer(response, row)))
    return found


def _longer(response: Places, row: int) -> list[int]:
    words: Words = response.words
    begun = {words.spelling(t)[0] for t in words.leaves}
    found = []
    for i, first in enumerate(response.rows):
        for d in range(len(words.draft)):
            wanted = words.expansion(d)
            if first == row and d not in begun and wanted and response.tokens[i:][: len(wanted)] == wanted:
                found.append(d)
    return found
