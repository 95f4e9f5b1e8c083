"""The n-grams that a Llama-2 drafter has to learn for the real vocabularies of Qwen2 and Llama-3.

The runtime's cache learns each task's reference answers, round by round; the curve is its size.
"""

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.experiments.running.measure import ROUND, size_of
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.tasks import TASKS
from benchmarks.support.task_data import DATA
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.vocab_map import VocabMap

WIDTHS = {"qwen2": 151_936, "llama3": 128_256}
POINTS = 40  # of the curve


def arms() -> Iterator[Arm]:
    """Every target and task."""
    for target in WIDTHS:
        for task in TASKS:
            settings = {"drafter": "llama2", "target": target, "task": task, "width": WIDTHS[target]}
            yield Arm("cache_growth", "growth", settings, partial(_measure, target, task))


def _measure(target: str, task: str, _: Path) -> dict[str, Any]:
    tokenizer, vocab_map = _pair(target)
    answers = TASKS[task].answers()
    learned = NgramCache(vocab_map)
    curve, tokens = list[list[int]](), 0
    every = max(1, len(answers) // POINTS)
    for i, text in enumerate(answers):
        ids = tokenizer.encode(text)
        tokens += len(ids)
        for at in range(0, len(ids), ROUND):
            learned.learn(ids[at : at + ROUND], 0)
        if (i + 1) % every == 0 or i + 1 == len(answers):
            curve.append([i + 1, len(learned)])
    return {"answers": len(answers), "tokens": tokens, "cache": size_of(learned), "curve": curve}


@cache
def _pair(target: str) -> tuple[Tokenizer, VocabMap]:
    drafter = LibraryTokenizer.from_file(DATA / "tokenizers/llama2")
    tokenizer = LibraryTokenizer.from_file(DATA / "tokenizers" / target)
    return tokenizer, build_vocab_map(drafter, tokenizer, target_size=WIDTHS[target])
