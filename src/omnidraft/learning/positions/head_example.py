"""A response as the adaptive head learns from it (method section 5.3); numpy only.

At every row of a response the current drafter draws a token, as it does at run time after an accepted prefix,
and the label is how likely that very token is to be accepted. Nothing of an older drafter is needed, so a
response can be used again and again while the drafter changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.positions.target_rows import Ids

KEEP = 16  # draft ids of a distribution; what is not among them is accepted with a chance of 0 here


@dataclass(frozen=True)
class HeadExample:
    """One response.

    Attributes:
        draft_ids: prompt and response in draft tokens, shape [L].
        positions: of the last token before each of N draws, shape [N].
        said: the draft token that the response goes on with; -1 where the target's token is not active, so
            that no draft is right. Shape [N].
        ids, chances: draft ids that the target may go on with, and how likely, shape [N, K]; -1 fills up.
            The chances of a row sum to 1 at most: the rest are other draft tokens, and what none can write.
        longer: draft ids that write the next two or more target tokens at once, shape [N, W]; -1 fills up.
    """

    draft_ids: Ids
    positions: Ids
    said: Ids
    ids: Ids
    chances: npt.NDArray[np.float32]
    longer: Ids

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Its fields by name, as checkpoints keep them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> HeadExample:
        """What `arrays` gave."""
        ids = {f.name: arrays[f.name].astype(np.int32) for f in fields(cls) if f.name != "chances"}
        return cls(**ids, chances=arrays["chances"].astype(np.float32))


def head_example(response: Aligned) -> HeadExample:
    """The draws of one response: one at each of its draft tokens that has a distribution.

    Where a target token that nothing spells stands between two draft tokens, the distribution of the latter
    counts.
    """
    distributions, count = response.trie_distributions, len(response.owners)
    last = {int(row): n for n, row in enumerate(distributions.rows) if row < count}
    rows = np.array(sorted(last), dtype=np.int64)
    chosen = np.array([last[int(row)] for row in rows], dtype=np.int64)
    ids, chances = (
        distributions.ids[chosen],
        distributions.probabilities[chosen] * distributions.weights[chosen, None],
    )
    keep = np.argsort(-chances, axis=1, kind="stable")[:, :KEEP]
    said = np.where(
        _active(response)[response.owners[rows]],
        response.draft_ids[response.prompt_length + rows],
        -1,
    )
    return HeadExample(
        draft_ids=response.draft_ids.astype(np.int32),
        positions=(response.prompt_length - 1 + rows).astype(np.int32),
        said=said.astype(np.int32),
        ids=np.take_along_axis(ids, keep, axis=1).astype(np.int32),
        chances=np.take_along_axis(chances, keep, axis=1).astype(np.float32),
        longer=_longer(response)[rows],
    )


def _active(response: Aligned) -> npt.NDArray[np.bool_]:
    """Which target tokens the trie of the alignment has: inside their spelling there is a distribution."""
    tokens, known = response.tokens, np.zeros(response.num_rows + 1, dtype=np.bool_)
    known[response.trie_distributions.rows] = True
    inside = known[np.minimum(tokens.rows + 1, response.num_rows)]
    active: npt.NDArray[np.bool_] = np.where(tokens.lengths == 1, tokens.direct, inside)
    return active


def _longer(response: Aligned) -> Ids:
    """Draft tokens whose expansion is what the target says next, by row; -1 fills up."""
    vocab_map, said = response.vocab_map, [int(t) for t in response.tokens.ids]
    found: list[list[int]] = [[] for _ in range(response.num_rows)]
    for i, token in enumerate(said):
        for draft in vocab_map.longer_from.get(token, ()):
            expansion = vocab_map.expansions.row(draft).tolist()
            if said[i : i + len(expansion)] == expansion:
                found[int(response.tokens.rows[i])].append(draft)
    table = np.full((len(found), max(map(len, found))), -1, dtype=np.int32)
    for row, drafts in enumerate(found):
        table[row, : len(drafts)] = drafts
    return table
