"""What the compilation of one grammar may cost."""

from dataclasses import dataclass

from omnidraft.errors import GrammarError

MOST_STATES = 1 << 16
MOST_WORK = 3_000_000  # edges looked at in one compilation: some seconds


class WorkError(GrammarError):
    """A grammar that takes more work to compile than it may."""


@dataclass
class Budget:
    """What one compilation may cost in all."""

    left: int = MOST_WORK

    def spend(self, work: int) -> None:
        """Count work.

        Raises:
            WorkError: it is more than one compilation may take.
        """
        self.left -= work
        if self.left < 0:
            raise WorkError(
                "the grammar takes too much work to compile", "ask for shorter texts or fewer alternatives"
            )


def check_size(states: int) -> None:
    """Refuse one more state than a grammar may have."""
    if states >= MOST_STATES:
        raise WorkError(
            f"the grammar has more than {MOST_STATES:,} states", "ask for shorter texts or fewer alternatives"
        )
