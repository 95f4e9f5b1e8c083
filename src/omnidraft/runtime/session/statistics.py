"""Counts of a generation; everything else is computed from them."""

from dataclasses import asdict, dataclass, field

from omnidraft.runtime.decoding.speculate import Round, Seconds


@dataclass
class Statistics:
    """Counts of a generation; everything else is computed from them.

    Attributes:
        rounds: target passes after the prompt.
        drafted: draft tokens drawn. tested, passed: those judged, those accepted.
        proposed, accepted: target tokens proposed, and accepted into the output.
        emitted: target tokens of the output.
        learned: n-grams new in the cache.
        lengths: how many rounds had so many draft tokens.
    """

    rounds: int = 0
    drafted: int = 0
    tested: int = 0
    passed: int = 0
    proposed: int = 0
    accepted: int = 0
    emitted: int = 0
    learned: int = 0
    lengths: dict[int, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(asdict(Seconds()), 0.0))

    def add(self, r: Round) -> None:
        """Count one round."""
        self.rounds += 1
        self.drafted += len(r.draft)
        self.tested += r.tested
        self.passed += r.passed
        self.proposed += len(r.proposed)
        self.accepted += r.accepted
        self.emitted += len(r.emitted)
        self.learned += r.learned
        self.lengths[len(r.draft)] = self.lengths.get(len(r.draft), 0) + 1
        for name, value in asdict(r.seconds).items():
            self.seconds[name] += value

    @property
    def tokens_per_target_pass(self) -> float:
        """Output tokens for each target pass; 1 is plain decoding."""
        return self.emitted / self.rounds if self.rounds else 0.0

    @property
    def acceptance_of_drafted(self) -> float:
        """Share of drawn draft tokens that were accepted."""
        return self.passed / self.drafted if self.drafted else 0.0

    @property
    def acceptance_of_tested(self) -> float:
        """Share of judged draft tokens that were accepted."""
        return self.passed / self.tested if self.tested else 0.0

    @property
    def total_seconds(self) -> float:
        """Seconds of all rounds."""
        return sum(self.seconds.values())
