"""The expected rounds of a sampled text, exactly, from one pass of each model: no round is drawn.

Given the text that the target emitted, each decision of a round was accepted with probability
min(1, Q / P) of the option that the text took, independently of the others (speculative sampling: an option
is proposed and accepted with min(P, Q), and emitted with P). So the number of rounds has an expectation that
a recursion over the text gives, for token verification. It has no noise but that of the texts, which are the
same for all drafters. A test compares it with the runtime's loop.

The cache does not learn while a text is decoded, unlike in the loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.draft_targets import has_children, node_of
from omnidraft.runtime.vocab.trie import ActiveTrie

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.floating]
Children = npt.NDArray[np.int32]


@dataclass(frozen=True)
class TokenSteps:
    """The decisions that write one target token, with the target's probability of what the text takes.

    Attributes:
        row: of the drafter's distributions, where the spelling begins.
        spelling: draft tokens; empty where the token has no active spelling.
        begin: P at the root.
        go_on: P of each later draft token of the spelling, inside it.
        end: P of ending there, and the children that the node has; None where the node has none.
        expansions: draft tokens that write this and the next target tokens: the token, how many target
            tokens of it the text repeats, and how many it has.
    """

    row: int
    spelling: tuple[int, ...]
    begin: float
    go_on: tuple[float, ...]
    end: tuple[float, Children] | None
    expansions: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Passage:
    """A sampled text.

    Attributes:
        draft_ids: prompt and answer in draft tokens.
        first: the row of the first distribution that is needed: the last draft token of the prompt.
        steps: of each target token.
    """

    draft_ids: npt.NDArray[np.int64]
    first: int
    steps: tuple[TokenSteps, ...]


def passage(
    draft_prompt: Sequence[int], tokens: Sequence[int], p: npt.NDArray[Any], trie: ActiveTrie, expands: bool
) -> Passage:
    """The decisions of a text.

    Args:
        draft_prompt: with the start token.
        tokens: the answer, n target ids.
        p: the target's distribution at each token, at the temperature of sampling, [n, target vocab].
        trie: active spellings.
        expands: whether draft tokens longer than a target token are proposed.
    """
    row, steps, draft_ids = 0, list[TokenSteps](), list(draft_prompt)
    for i, token in enumerate(tokens):
        spelling = trie.map.spell(token)
        steps.append(_steps(trie, tokens, i, row, np.asarray(p[i], dtype=np.float64), expands))
        row += len(spelling)
        draft_ids += spelling
    return Passage(np.array(draft_ids, dtype=np.int64), len(draft_prompt) - 1, tuple(steps))


def _steps(trie: ActiveTrie, tokens: Sequence[int], i: int, row: int, p: Floats, expands: bool) -> TokenSteps:
    expansions = []
    for draft in trie.map.longer_from.get(tokens[i], ()) if expands else ():
        written = trie.map.expansions.row(draft).tolist()
        same = next(
            (m for m, t in enumerate(written) if list(tokens[i + m : i + m + 1]) != [t]), len(written)
        )
        expansions.append((draft, same, len(written)))
    leaf = int(trie.map.leaf_of[tokens[i]])
    if leaf < 0 or not trie.active[leaf]:
        return TokenSteps(row, (), 0.0, (), None, tuple(expansions))
    spelling = tuple(trie.map.spell(tokens[i]))
    nodes = [node_of(trie, np.array(spelling[:depth])) for depth in range(1, len(spelling) + 1)]
    masses = [float(p[trie.targets(node)].sum()) for node in nodes if node is not None]
    assert len(masses) == len(spelling), "an active spelling is in the trie"
    go_on = tuple(below / above for above, below in pairwise(masses))
    last, end = nodes[-1], None
    if last is not None and has_children(trie, last):
        end = float(p[tokens[i]]) / masses[-1], trie.children(last)[0]
    return TokenSteps(row, spelling, masses[0], go_on, end, tuple(expansions))


def expected_rounds(text: Passage, q: Floats, root_mask: Mask, num_draft_tokens: int) -> float:
    """The expected rounds that emit a text.

    Args:
        text: the passage.
        q: the drafter's distributions from row `text.first` on, [rows, draft vocab], without what it may not
            propose, at the temperature of sampling.
        root_mask: of the trie.
        num_draft_tokens: drafted in each round.
    """
    begins = (q * root_mask).sum(axis=1)
    count = len(text.steps)
    chances = [_Chances(text.steps, q, begins, root_mask, i) for i in range(count)]
    rounds = np.zeros(count + 1)
    for start in range(count - 1, -1, -1):
        lengths = _round(chances, start, num_draft_tokens)
        rounds[start] = 1.0 + sum(chance * rounds[min(start + n, count)] for n, chance in lengths.items())
    return float(rounds[0])


class _Chances:
    """The probabilities, given the text, that the drafter's decisions at one token are accepted.

    Attributes:
        begin: that the token is begun; the second value after a node of the token before has ended.
        go_on: that each later draft token is accepted.
        end: that the token ends where it could go on; None without that decision.
        expansions: chance, target tokens that the text repeats, and target tokens of each long draft token.
        share: of the draft tokens that may follow the end of the token before.
    """

    def __init__(
        self, steps: Sequence[TokenSteps], q: Floats, begins: Floats, root_mask: Mask, i: int
    ) -> None:
        step = steps[i]
        row, before = q[step.row], steps[i - 1].end if i else None
        first = float(row[step.spelling[0]]) if step.spelling else 0.0
        plain = min(float(begins[step.row]), first / step.begin) if step.begin > 0.0 else 0.0
        self.begin, self.share = (plain, plain), 1.0
        if before is not None:
            children = before[1]
            self.share = max(1.0 - float(row[children].sum()), 1e-12)
            possible = (float(begins[step.row]) - float((row * root_mask)[children].sum())) / self.share
            outside = not step.spelling or step.spelling[0] not in children
            after = min(possible, first / self.share / step.begin) if step.begin > 0.0 and outside else 0.0
            self.begin = plain, max(after, 0.0)
        self.go_on = [
            min(1.0, float(q[step.row + depth, step.spelling[depth]]) / max(p, 1e-300))
            for depth, p in enumerate(step.go_on, 1)
        ]
        self.end: float | None = None
        if step.end is not None:
            p, children = step.end
            ends = max(0.0, 1.0 - float(q[step.row + len(step.spelling)][children].sum()))
            self.end = min(1.0, ends / max(p, 1e-300))
        self.expansions = [(float(row[draft]), same, length) for draft, same, length in step.expansions]


def _round(chances: Sequence[_Chances], start: int, num_draft_tokens: int) -> dict[int, float]:
    """The probabilities of the numbers of target tokens that a round emits from a token on."""
    lengths: dict[int, float] = {}
    # Probability of each state: the token, the draft tokens left, and whether the token before has ended by
    # a decision, whose draft token begins this one.
    states: dict[tuple[int, int, bool], float] = {(start, num_draft_tokens, False): 1.0}

    def emit(token: int, chance: float) -> None:
        lengths[token - start] = lengths.get(token - start, 0.0) + chance

    while states:
        (at, left, after), chance = min(states.items())
        del states[at, left, after]
        if at >= len(chances) or (left == 0 and not after):
            emit(min(at + 1, len(chances)), chance)
            continue
        here, left = chances[at], left - (not after)
        rest = 1.0
        for q, same, length in here.expansions:
            taken = q / (here.share if after else 1.0)
            rest -= taken
            if same == length:
                states[at + same, left, False] = states.get((at + same, left, False), 0.0) + chance * taken
            else:
                emit(at + same + 1, chance * taken)
        through = here.begin[after]
        emit(at + 1, chance * max(rest - through, 0.0))
        chance *= through
        decisions = [*here.go_on, *([] if here.end is None else [here.end])]
        for accepted in decisions:
            if left == 0:
                break
            emit(at + 1, chance * (1.0 - accepted))
            chance, left = chance * accepted, left - 1
        else:
            ended = here.end is not None
            states[at + 1, left, ended] = states.get((at + 1, left, ended), 0.0) + chance
            continue
        emit(at + 1, chance)  # the draft ends inside the token, which the bonus completes
    return lengths
