"""A lint for English that stops a reader: CONTRIBUTING.md says what to write instead."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import pytest

from support.places import ROOT

# Each with what to say; the boundaries are those of words.
WORST = {
    r"whoever": "name who",
    r"anew": "again",
    r"dear(er|est)?": "costly, expensive",
    r"be it": "also, or",
    r"of no account|of account": "does not matter",
    r"for want of": "because there is no",
    r"as one likes": "any",
    r"so many (tokens|rounds|bytes|times|entries|files|steps|prompts|answers)": "that many, or the number",
    r"(?<!there )(is|are|was|were) no (file|trace|bundle|session|cache|number|text|list|token)": "is not a",
    r"laws?\b(?! of large)": "distribution",
}
PATHS = ["src", "tests", "benchmarks", "recipes", "spec", "docs", "README.md", "CONTRIBUTING.md"]
TEXTS = (".py", ".md")
OURSELVES = "tests/project/test_words.py"


@cache
def texts() -> dict[str, str]:
    """The text of every file, by its name."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--", *PATHS], capture_output=True, text=True, check=True
    ).stdout.split()
    kept = [name for name in listed if name.endswith(TEXTS) and name != OURSELVES]
    found = [name for name in kept if (ROOT / name).is_file() and not name.startswith("spec/vectors/")]
    assert len(found) > 400
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in found}


def line_of(text: str, at: int) -> int:
    """The number of the line of a character."""
    return text.count("\n", 0, at) + 1


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the list of files comes from git")
@pytest.mark.parametrize("pattern", WORST)
def test_the_worst_words_are_not_used(pattern: str) -> None:
    worst, found = re.compile(rf"\b({pattern})\b", re.IGNORECASE), []
    for name, text in texts().items():
        found += [f"{name}:{line_of(text, each.start())}" for each in worst.finditer(text)]
    assert not found, f"say {WORST[pattern]} instead: {', '.join(found[:20])} ({len(found)} lines)"
