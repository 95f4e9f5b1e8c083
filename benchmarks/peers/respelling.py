"""Tokens per target pass when the drafter reads the text in its own best spelling.

    python -m benchmarks.peers.respelling [--prompts N] [--temperature T] [--json]

The drafter's context is free: whatever it reads, the output keeps the target's distribution. This runtime
goes on from the pieces that were drafted and emitted; transformers' UAG tokenizes the whole text in each
round. Three ways are compared on unseen prompts, k = 4, untrained and learned: the pieces as they are, the
whole text respelled, and the text respelled up to the last piece that begins with a blank.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.starters import unseen
from benchmarks.support.task_data import require
from omnidraft.commands.starters import StarterPair, export_starters
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.session.api import GenerationConfig, load
from omnidraft.runtime.vocab.tokenizer import Tokenizer

TASKS = ("GSM8K", "MBPP", "HumanEval")
CONFIG = GenerationConfig(num_draft_tokens=4, max_new_tokens=96)
Spelling = Callable[[Tokenizer, list[int]], list[int]]


def pieces(_: Tokenizer, ids: list[int]) -> list[int]:
    """The pieces as they were drafted and emitted."""
    return ids


def whole(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """The best spelling of all bytes; the pieces themselves where the drafter cannot spell the bytes."""
    spelled = tokenizer.spell(tokenizer.text_of(ids))
    return ids if spelled is None else spelled


def words(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """The best spelling up to the last piece that begins with a blank, and the pieces from it on."""
    for start in range(len(ids) - 1, 0, -1):
        if tokenizer.text_of([ids[start]])[:1] in (b" ", b"\n", b"\t"):
            return [*whole(tokenizer, ids[:start]), *ids[start:]]
    return ids


def count(bundle: Path, prompts: Sequence[str], spelling: Spelling, temperature: float) -> float:
    """Tokens per target pass of an empty cache that is kept from prompt to prompt."""
    session = load(bundle, threads=1)
    tokenizer = session.loaded.drafter_tokenizer
    assert tokenizer is not None
    expected = Drafter._expected
    emitted = rounds = 0
    with patch.object(
        Drafter, "_expected", lambda self, context: expected(self, spelling(tokenizer, list(context)))
    ):
        for seed, prompt in enumerate(prompts):
            counted = session.generate(prompt, CONFIG, temperature=temperature, seed=seed).finish().statistics
            emitted, rounds = emitted + counted.emitted, rounds + counted.rounds
    return emitted / rounds


def measure(pair: StarterPair, number: int, temperature: float) -> Iterator[dict[str, Any]]:
    """A line for each spelling and drafter of a target."""
    prompts = unseen(number)
    for drafter, bundle in (("untrained", pair.untrained), ("learned", pair.learned)):
        for spelling in (pieces, whole, words):
            figures = {task: count(bundle, prompts[task], spelling, temperature) for task in TASKS}
            yield {"target": pair.name, "drafter": drafter, "reads": spelling.__name__, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--prompts", type=int, default=8, help="prompts of each task")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--bundles", type=Path, help="directory of exported starter pairs; it is kept")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    require("tasks")
    if not options.json:
        print(f"| target | drafter | reads | {' | '.join(TASKS)} |\n|---|---|---|{'---|' * len(TASKS)}")
    with tempfile.TemporaryDirectory() as place:
        for pair in export_starters(options.bundles or Path(place), lambda *_: None):
            for line in measure(pair, options.prompts, options.temperature):
                cells = [f"{each:.2f}" if isinstance(each, float) else each for each in line.values()]
                print(json.dumps(line) if options.json else f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
