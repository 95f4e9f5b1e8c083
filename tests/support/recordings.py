"""Answers of a bundle, recorded as a trace."""

from collections.abc import Sequence
from pathlib import Path

LEARNED = [f"Tom buys {n} books for ${m} each. How much does he pay?" for n in (3, 4, 5) for m in (7, 9)]


def record(bundle: Path, place: Path, prompts: Sequence[str], max_new_tokens: int) -> Path:
    """Answer prompts with a bundle and record the answers in a new directory, which is returned."""
    from omnidraft.runtime.session.api import load

    session = load(bundle, trace=place)
    for prompt in prompts:
        session.generate(prompt, max_new_tokens=max_new_tokens, num_draft_tokens=3).finish()
    assert session.trace is not None
    session.trace.close()
    return place
