"""Collect the rounds as a trace would keep them."""

from omnidraft.runtime.decoding.proposer import Outcome, Proposer
from omnidraft.runtime.decoding.sampling import TargetProbs
from omnidraft.runtime.traces.trace import TracedRound
from omnidraft.runtime.traces.tracer import Tracer
from omnidraft.runtime.vocab.vocab_map import VocabMap


class Collector:
    """A recorder that keeps the traced rounds of one generation in memory.

    Attributes:
        traced: one `TracedRound` for each round.
        proposer: of the generation.
    """

    def __init__(self, vocab_map: VocabMap) -> None:
        self.traced: list[TracedRound] = []
        self.proposer: Proposer | None = None
        self._tracer = Tracer(vocab_map, lambda: True)

    def of(self, proposer: Proposer) -> "Collector":
        """This collector, for `decode`."""
        self.proposer = proposer
        return self

    def __call__(self, outcome: Outcome, probs: TargetProbs) -> None:
        assert self.proposer is not None
        traced = self._tracer(self.proposer, outcome, probs)
        assert traced is not None
        self.traced.append(traced)

    def close(self) -> None:
        """Nothing reaches a disk."""
