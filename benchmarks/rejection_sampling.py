"""What one attempt of rejection sampling saves when a decision is resampled: host time with it and without.

    python -m benchmarks.rejection_sampling [--repeats N] [--json]

Both arms take turns in one process, at temperature 1 and a target vocabulary of 151,936 (see host_overhead).
The attempt is part of the rule (spec/04-speculation.md): it saves more than 15 % of a round's host time.
"""

import argparse
import json
from collections import defaultdict
from statistics import median
from typing import Any

from benchmarks.host_overhead import TARGET_WIDTH, measure
from benchmarks.support.task_data import require
from omnidraft.checkpoints.patched import patched
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.runtime.decoding import decision
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.vocab_map import VocabMap


class _NoAttempt(decision._Beginning):
    """A decision between many options that are always computed in full."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.wide = None


def compare(vocab_map: VocabMap, repeats: int) -> dict[str, dict[str, float]]:
    """Median milliseconds of a round's host work in both arms, and the ratio with / without."""
    taken: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    kinds = {"with": decision._Beginning, "without": _NoAttempt}
    cases = [(a, v, full) for a in (0.0, 0.7) for v in ("token", "block") for full in (False, True)]
    for _ in range(repeats):
        for agreement, verification, prefilled in cases:
            rows, filled = "agreeing" if agreement else "random", "full" if prefilled else "cold"
            name = f"{rows} rows, {verification}, {filled} cache"
            for arm, kind in kinds.items():
                with patched(decision, "_Beginning", kind):
                    figures = measure(vocab_map, agreement, 1.0, prefilled, verification)  # type: ignore[arg-type]
                taken[name][arm].append(figures["host"])
    medians = {name: {arm: median(times) for arm, times in arms.items()} for name, arms in taken.items()}
    return {name: {**arms, "ratio": arms["with"] / arms["without"]} for name, arms in medians.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="turns of each arm")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    folder = require("tokenizers")
    drafter = LibraryTokenizer.from_file(folder / "llama2")
    target = LibraryTokenizer.from_file(folder / "qwen2")
    figures = compare(build_vocab_map(drafter, target, target_size=TARGET_WIDTH), options.repeats)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{'milliseconds of host work a round':40}{'with':>9}{'without':>9}{'ratio':>9}")
    for name, row in figures.items():
        print(f"{name:40}{row['with']:9.2f}{row['without']:9.2f}{row['ratio']:9.2f}")


if __name__ == "__main__":
    main()
