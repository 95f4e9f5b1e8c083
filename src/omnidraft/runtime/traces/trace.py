"""What a recorded generation is, as values: its rounds, and at each token what the target would have said.

Training computes from these alone, without a second pass of the target (method section 5).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from omnidraft.errors import TraceFileError
from omnidraft.runtime.vocab.vocab_map import VocabMap

TOP = 64  # ids of a row that are kept at most
FLOOR = 2.0**-14  # the smallest normal float16: what is less probable has too few bits, and goes to the rest
WINDOW = 2048  # draft ids of the text before a record that it keeps at most


@dataclass(frozen=True)
class Vocabularies:
    """The pair of vocabularies that a trace's ids are of: fingerprints, and widths of the logits."""

    draft_fingerprint: str
    target_fingerprint: str
    draft_size: int
    target_size: int

    @classmethod
    def of(cls, vocab_map: VocabMap) -> "Vocabularies":
        """Those that a map stands between."""
        m = vocab_map
        return cls(m.draft_fingerprint, m.target_fingerprint, m.draft_size, m.target_size)

    def check(self, found: "Vocabularies") -> None:
        """Refuse a trace of other vocabularies than these.

        Raises:
            TraceFileError: `foreign_vocabulary`.
        """
        for who, ours, theirs in (
            ("drafter tokenizer", self.draft_fingerprint[:12], found.draft_fingerprint[:12]),
            ("target tokenizer", self.target_fingerprint[:12], found.target_fingerprint[:12]),
            ("number of draft ids", self.draft_size, found.draft_size),
            ("number of target ids", self.target_size, found.target_size),
        ):
            if ours != theirs:
                raise TraceFileError(
                    f"its {who} is {theirs}, that of these models is {ours}", fault="foreign_vocabulary"
                )


@dataclass(frozen=True, eq=False)
class Masses:
    """The largest probabilities of a distribution.

    Attributes:
        ids: ascending, `TOP` at most. probabilities: float16, none below `FLOOR`; shapes [n].
        rest: the mass of all other ids.
    """

    ids: npt.NDArray[np.integer]
    probabilities: npt.NDArray[np.float16]
    rest: float


@dataclass(frozen=True, eq=False)
class TracedToken:
    """An emitted target token, and the target's distribution before it at temperature 1, unpenalised and untruncated.

    Attributes:
        token_id: the target id. surprisal: -ln of its probability in that distribution, in nats.
        accepted: whether it was proposed. inside: whether it begins inside a draft token that writes more
            than one target token, where no draft position belongs to it.
        pieces: the draft ids that write it, which the draft context grows by; none where nothing spells it.
        distribution: over target ids.
        roots: over the first draft ids of all spellings, active or not: P at the root of the whole trie.
        unspelled: the mass of the target tokens without a spelling in the trie, in neither of the two.
    """

    token_id: int
    surprisal: float
    accepted: bool
    inside: bool
    pieces: tuple[int, ...]
    distribution: Masses
    roots: Masses
    unspelled: float


class Kind(IntEnum):
    """What was judged: the decisions of the trie walk (see `translator.Step`), or a whole target token."""

    BEGIN = 1
    GO_ON = 2
    END = 3
    DEAD_END = 4
    EXPAND = 5
    WHOLE = 6  # match, paper and greedy rules: all draft tokens since the judgement before


@dataclass(frozen=True)
class DecisionLabel:
    """A decision that was tested.

    Attributes:
        kind: what was decided. draft: index of the draft token that proposed it; with WHOLE the last one.
        label: the probability that it was accepted with, min(1, P/Q) of the distributions that the round went by.
    """

    kind: Kind
    draft: int
    label: float


@dataclass(frozen=True, eq=False)
class TracedRound:
    """One target pass.

    Attributes:
        position: draft ids of the text before it, those outside the record's window included.
        draft: draft ids; none where the context was copied from. tested, passed: how many of them.
        judged: in order. tokens: emitted, one at least.
    """

    position: int
    draft: tuple[int, ...]
    tested: int
    passed: int
    judged: tuple[DecisionLabel, ...]
    tokens: tuple[TracedToken, ...]

    @property
    def pieces(self) -> list[int]:
        """The draft ids that the round's text is written with."""
        return [d for token in self.tokens for d in token.pieces]


@dataclass(frozen=True)
class Start:
    """How a record begins.

    Attributes:
        drafter_adapter, target_adapter: digests of those in use, None for none.
        temperature: of the sampling. mode: one of `round.MODES`.
        continues: whether it goes on with a generation: after a pause, another adapter, or a full segment.
        skipped: draft ids of the text before `context`, which holds the latest `WINDOW`.
    """

    drafter_adapter: str | None
    target_adapter: str | None
    temperature: float
    mode: str
    continues: bool
    skipped: int
    context: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Traced:
    """A generation, or a part of one: what stood before it, and its rounds."""

    start: Start
    rounds: tuple[TracedRound, ...]

    @property
    def tokens(self) -> list[TracedToken]:
        """All emitted target tokens."""
        return [token for found in self.rounds for token in found.tokens]


def window(text: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """How many draft ids of a text a record leaves out, and those that it keeps."""
    skipped = max(0, len(text) - WINDOW)
    return skipped, tuple(text[skipped:])
