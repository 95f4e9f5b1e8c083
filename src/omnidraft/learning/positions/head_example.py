"""A response as training example of the adaptive head (method section 5.3); numpy only.

At every row of a response the current drafter draws a token, as at run time after an accepted prefix. The
label is the probability that this token is accepted. No draft of an earlier drafter is needed, so a response
can be used again while the drafter changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.positions.target_rows import Ids

KEEP = 16  # draft ids of a distribution; other ids count as accepted with probability 0
_STORED = {"next_ids": "said"}  # names in checkpoints, where they differ from the fields


@dataclass(frozen=True)
class HeadExample:
    """One response with N draws.

    Attributes:
        draft_ids: prompt and response in draft tokens, shape [L].
        positions: of the last token before each draw, shape [N].
        next_ids: the draft token that continues the response, shape [N]; -1 where the target's token is not
            active, so that no draft is correct.
        ids: draft ids with which the target may continue, shape [N, K]; -1 is padding.
        chances: their probabilities, shape [N, K]. The sum of a row is 1 or less; the remainder is other
            draft tokens and target tokens that no draft token writes.
        longer: draft ids that write the next two or more target tokens at once, shape [N, W]; -1 is padding.
    """

    draft_ids: Ids
    positions: Ids
    next_ids: Ids
    ids: Ids
    chances: npt.NDArray[np.float32]
    longer: Ids

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The fields by their names in checkpoints."""
        return {_STORED.get(field.name, field.name): getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> HeadExample:
        """Read back what `arrays` gave."""
        ids = {
            f.name: arrays[_STORED.get(f.name, f.name)].astype(np.int32)
            for f in fields(cls)
            if f.name != "chances"
        }
        return cls(**ids, chances=arrays["chances"].astype(np.float32))


def head_example(response: Aligned) -> HeadExample:
    """The example of one response, with a draw at each of its draft tokens that has a distribution.

    Where a target token without a spelling is between two draft tokens, the distribution of the second
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
    next_ids = np.where(
        _active(response)[response.owners[rows]],
        response.draft_ids[response.prompt_length + rows],
        -1,
    )
    return HeadExample(
        draft_ids=response.draft_ids.astype(np.int32),
        positions=(response.prompt_length - 1 + rows).astype(np.int32),
        next_ids=next_ids.astype(np.int32),
        ids=np.take_along_axis(ids, keep, axis=1).astype(np.int32),
        chances=np.take_along_axis(chances, keep, axis=1).astype(np.float32),
        longer=_longer(response)[rows],
    )


def _active(response: Aligned) -> npt.NDArray[np.bool_]:
    """Which target tokens are active in the aligner's trie: their spelling has a distribution inside."""
    tokens, known = response.tokens, np.zeros(response.num_rows + 1, dtype=np.bool_)
    known[response.trie_distributions.rows] = True
    inside = known[np.minimum(tokens.rows + 1, response.num_rows)]
    active: npt.NDArray[np.bool_] = np.where(tokens.lengths == 1, tokens.direct, inside)
    return active


def _longer(response: Aligned) -> Ids:
    """The draft tokens whose expansion is the next target tokens, by row, shape [rows, W]; -1 is padding."""
    vocab_map, emitted = response.vocab_map, [int(t) for t in response.tokens.ids]
    drafts_of: list[list[int]] = [[] for _ in range(response.num_rows)]
    for i, token in enumerate(emitted):
        for draft in vocab_map.longer_from.get(token, ()):
            expansion = vocab_map.expansions.row(draft).tolist()
            if emitted[i : i + len(expansion)] == expansion:
                drafts_of[int(response.tokens.rows[i])].append(draft)
    table = np.full((len(drafts_of), max(map(len, drafts_of))), -1, dtype=np.int32)
    for row, drafts in enumerate(drafts_of):
        table[row, : len(drafts)] = drafts
    return table
