"""A lint for English that stops a reader: CONTRIBUTING.md says what to write instead."""

from __future__ import annotations

import re
import subprocess

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


def texts() -> list[str]:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--", *PATHS], capture_output=True, text=True, check=True
    ).stdout.split()
    kept = [name for name in listed if name.endswith(TEXTS) and name != OURSELVES]
    return [name for name in kept if (ROOT / name).is_file() and not name.startswith("spec/vectors/")]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the list of files comes from git")
@pytest.mark.parametrize("pattern", WORST)
def test_the_worst_words_are_not_used(pattern: str) -> None:
    names = texts()
    assert len(names) > 400
    found = []
    for name in names:
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        found += [
            f"{name}:{n}" for n, line in enumerate(lines, 1) if re.search(rf"\b({pattern})\b", line, re.I)
        ]
    assert not found, f"say {WORST[pattern]} instead: {', '.join(found[:20])} ({len(found)} lines)"
