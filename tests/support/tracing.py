"""Collect the rounds as a trace would keep them."""

from omnidraft.runtime.decoding.proposer import Outcome
from omnidraft.runtime.decoding.sampling import TargetProbs
from omnidraft.runtime.traces.trace import TracedRound
from omnidraft.runtime.traces.tracer import Tracer
from omnidraft.runtime.vocab.vocab_map import VocabMap


class Collector:
    """A recorder that keeps the traced rounds of one generation in memory.

    Attributes:
        traced: one `TracedRound` for each round.
    """

    def __init__(self, vocab_map: VocabMap) -> None:
        self.traced: list[TracedRound] = []
        self._tracer = Tracer(vocab_map)

    def __call__(self, outcome: Outcome, probs: TargetProbs) -> None:
        traced = self._tracer(outcome, probs)
        assert traced is not None
        self.traced.append(traced)
