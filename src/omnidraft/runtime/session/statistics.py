"""Counts of a generation; everything else is computed from them."""

from dataclasses import asdict, dataclass, field

from omnidraft.runtime.decoding.speculate import Round, Seconds


@dataclass
class Statistics:
    """Counts of a generation; everything else is computed from them.

    Attributes:
        rounds: target passes after the prompt.
        drafted, evaluated, accepted_drafts: draft tokens drawn, verified and accepted.
        proposed, accepted: target tokens proposed, and accepted into the output.
        copied, accepted_copies: those of them that were copied from the context.
        emitted: target tokens of the output.
        unsound: rounds in which the drafter gave NaN or infinity, so that its draft ended there.
        learned: n-grams that are new in the cache.
        lengths: number of rounds without copies, by their draft tokens.
        copied_lengths: number of rounds with copies, by their copied tokens.
        seconds: by part of a round, see `Seconds`.
        read: tokens of prompts that the target read, without those that its KV cache held.
        first_token_seconds: from the first request for a piece to the first token; of several answers,
            that of the last one.
    """

    rounds: int = 0
    drafted: int = 0
    evaluated: int = 0
    accepted_drafts: int = 0
    proposed: int = 0
    accepted: int = 0
    copied: int = 0
    accepted_copies: int = 0
    emitted: int = 0
    learned: int = 0
    unsound: int = 0
    lengths: dict[int, int] = field(default_factory=dict)
    copied_lengths: dict[int, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(asdict(Seconds()), 0.0))
    read: int = 0
    read_seconds: float = 0.0
    first_token_seconds: float = 0.0

    def add(self, r: Round) -> None:
        """Count one round."""
        self.rounds += 1
        self.drafted += len(r.draft)
        self.evaluated += r.evaluated
        self.accepted_drafts += r.accepted_drafts
        self.proposed += len(r.proposed)
        self.accepted += r.accepted
        self.copied += len(r.proposed) if r.copied else 0
        self.accepted_copies += r.accepted if r.copied else 0
        self.emitted += len(r.emitted)
        self.learned += r.learned
        self.unsound += r.unsound
        lengths, length = (self.copied_lengths, len(r.proposed)) if r.copied else (self.lengths, len(r.draft))
        lengths[length] = lengths.get(length, 0) + 1
        for name, value in vars(r.seconds).items():
            self.seconds[name] += value
        self.read += r.read.tokens
        self.read_seconds += r.read.seconds

    def merge(self, later: "Statistics") -> None:
        """Count the rounds of another generation."""
        for name, value in vars(later).items():
            mine = getattr(self, name)
            if isinstance(value, dict):
                for key, count in value.items():
                    mine[key] = mine.get(key, 0) + count
            elif name != "first_token_seconds":
                setattr(self, name, mine + value)
        self.first_token_seconds = later.first_token_seconds or self.first_token_seconds

    @property
    def tokens_per_second(self) -> float:
        """Output tokens a second, without the time that reading the prompt took."""
        return self.emitted / self.total_seconds if self.total_seconds else 0.0

    @property
    def read_per_second(self) -> float:
        """Tokens of prompts that the target read a second; 0 where it read none."""
        return self.read / self.read_seconds if self.read_seconds else 0.0

    @property
    def tokens_per_target_pass(self) -> float:
        """Output tokens for each target pass; 1 is plain decoding."""
        return self.emitted / self.rounds if self.rounds else 0.0

    @property
    def acceptance_of_drafted(self) -> float:
        """Share of drawn draft tokens that were accepted."""
        return self.accepted_drafts / self.drafted if self.drafted else 0.0

    @property
    def acceptance_of_evaluated(self) -> float:
        """Share of verified draft tokens that were accepted."""
        return self.accepted_drafts / self.evaluated if self.evaluated else 0.0

    @property
    def total_seconds(self) -> float:
        """Seconds of all rounds; reading the prompt is not part of a round."""
        return sum(self.seconds.values())


@dataclass(frozen=True)
class SessionStatistics:
    """What a session generated since its conversation began, or since it was loaded.

    Attributes:
        answers: number of generations.
        totals: their counts together.
        peak_memory: the most bytes of memory that this process had resident; None where the system does not
            count them.
    """

    answers: int
    totals: Statistics
    peak_memory: int | None
