"""A recorded generation as values: its rounds, and at each token the distribution of the target.

Training computes from these alone, without a second pass of the target (method section 5).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft import defaults
from omnidraft.errors import TraceFileError
from omnidraft.runtime.vocab.vocab_map import VocabMap

TOP = defaults.TRACE_TOP  # ids that are kept of a distribution, at most
FLOOR = defaults.TRACE_FLOOR  # the smallest normal float16; smaller probabilities go to the rest
WINDOW = defaults.TRACE_WINDOW  # draft ids that a record keeps of the text before it, at most


@dataclass(frozen=True)
class Vocabularies:
    """The pair of vocabularies of the ids of a trace: fingerprints, and widths of the logits."""

    draft_fingerprint: str
    target_fingerprint: str
    draft_size: int
    target_size: int

    @classmethod
    def of(cls, vocab_map: VocabMap) -> "Vocabularies":
        """The vocabularies of a map."""
        m = vocab_map
        return cls(m.draft_fingerprint, m.target_fingerprint, m.draft_size, m.target_size)

    def check(self, vocabularies: "Vocabularies") -> None:
        """Refuse a trace of other vocabularies."""
        for who, ours, theirs in (
            ("drafter tokenizer", self.draft_fingerprint, vocabularies.draft_fingerprint),
            ("target tokenizer", self.target_fingerprint, vocabularies.target_fingerprint),
            ("number of draft ids", self.draft_size, vocabularies.draft_size),
            ("number of target ids", self.target_size, vocabularies.target_size),
        ):
            if ours != theirs:
                raise TraceFileError(
                    f"its {who} is {str(theirs)[:12]}, that of these models is {str(ours)[:12]}",
                    fault="foreign_vocabulary",
                )


@dataclass(frozen=True, eq=False)
class Masses:
    """The largest probabilities of a distribution.

    Attributes:
        ids: ascending, `TOP` at most, shape [n].
        probabilities: float16, none below `FLOOR`, shape [n].
    """

    ids: npt.NDArray[np.integer]
    probabilities: npt.NDArray[np.float16]
    rest: float


@dataclass(frozen=True, eq=False)
class TracedToken:
    """An emitted target token, and the target's distribution before it.

    The distribution is at temperature 1, without penalty and truncation.

    Attributes:
        surprisal: -ln of its probability in the distribution, in nats.
        accepted: whether it was proposed.
        roots: over the first draft ids of all spellings, active or not: P at the root of the whole trie.
        unspelled: the mass of the target tokens without a spelling in the trie; `roots` does not hold it.
    """

    token_id: int
    surprisal: float
    accepted: bool
    distribution: Masses
    roots: Masses
    unspelled: float


@dataclass(frozen=True, eq=False)
class TracedRound:
    """The tokens that one target pass emitted, one at least."""

    tokens: tuple[TracedToken, ...]


@dataclass(frozen=True)
class Start:
    """How a record begins.

    Attributes:
        drafter_adapter, target_adapter: digests of the adapters in use; None for none.
        continues: whether it continues a generation, after a pause, another adapter or a full segment.
        skipped: number of draft ids of the text before `context`.
        context: the latest draft ids of the text, `WINDOW` at most. Emitted tokens have their spelling in the
            vocabulary map.
    """

    drafter_adapter: str | None
    target_adapter: str | None
    mode: str
    continues: bool
    skipped: int
    context: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Traced:
    """A generation, or a part of one: the text before it, and its rounds."""

    start: Start
    rounds: tuple[TracedRound, ...]

    @property
    def tokens(self) -> list[TracedToken]:
        """All emitted target tokens."""
        return [token for each in self.rounds for token in each.tokens]


def window(text: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """The number of draft ids of a text that a record leaves out, and the ids that it keeps."""
    skipped = max(0, len(text) - WINDOW)
    return skipped, tuple(text[skipped:])
