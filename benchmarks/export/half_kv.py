"""A bundle with float32 keys and values beside one with float16: memory, passes, and equal greedy texts.

    python -m benchmarks.export.half_kv FULL HALF [--prompts N] [--tokens N]

Both are exports of the same pair, one of them with `half_kv = true`. The bundles take turns prompt by prompt,
and pass by pass for the times; a round has 4 draft tokens. A ratio is that of medians. The quality of both is
what their exports measured, as `omnidraft inspect` shows it.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.session.api import TextSession, load_bundle
from omnidraft.runtime.session.modes import Mode
from omnidraft.sample_prompts import PROMPTS, word_problems

PASTS, WIDTHS, TURNS = (64, 512, 1900), (1, 2, 4, 8, 64), 15


def passes(models: Sequence[Model], past: int, width: int) -> float:
    """Seconds of a pass of the second model over those of the first."""
    seconds: list[list[float]] = [[], []]
    for model in models:
        model.rewind(0)
        model.score([7] * past, 1)
    for _ in range(TURNS):
        for model, taken in zip(models, seconds, strict=True):
            for _ in range(2):  # the first one wakes the threads
                model.rewind(past)
                started = time.perf_counter()
                model.score([7] * width)
            taken.append(time.perf_counter() - started)
    return median(seconds[1]) / median(seconds[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundles", nargs=2, type=Path)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    loaded = [load_bundle(path, measure="never") for path in options.bundles]
    for path, target in ((each.bundle.path, each.bundle.target) for each in loaded):
        print(f"{path}: {target.kv_bytes / 1e6:.1f} MB of {target.kv.type}")
    sessions = [TextSession(each) for each in loaded]
    prompts = [*PROMPTS, *word_problems(max(0, options.prompts - len(PROMPTS)))][: options.prompts]
    equal = 0
    modes: tuple[Mode, ...] = ("plain", "trie")
    rates: dict[Mode, list[list[float]]] = {mode: [[], []] for mode in modes}
    asked: dict[str, Any] = {"max_new_tokens": options.tokens, "num_draft_tokens": 4, "ignore_eos": True}
    for prompt in prompts:
        texts = []
        for mode, (number, session) in itertools.product(rates, enumerate(sessions)):
            session.reset_cache()
            begun = time.perf_counter()
            said = session.generate(prompt, mode=mode, **asked).finish()
            seconds = time.perf_counter() - begun
            rates[mode][number].append(len(said.token_ids) / seconds)
            texts += [said.token_ids] if mode == "plain" else []
        equal += texts[0] == texts[1]
    print(f"greedy texts of {options.tokens} tokens, equal: {equal} of {len(prompts)}")
    for mode, (full, half) in rates.items():
        print(f"{mode}: float16 has {median(half) / median(full):.2f}x of the tokens a second")
    models = [session.models.all[0] for session in sessions]
    print(f"| tokens before | {' | '.join(f'pass of {width}' for width in WIDTHS)} |")
    print("|---" * (1 + len(WIDTHS)) + "|")
    for past in (p for p in PASTS if p + max(WIDTHS) <= models[0].max_length):
        print(f"| {past} | {' | '.join(f'{passes(models, past, width):.2f}' for width in WIDTHS)} |")


if __name__ == "__main__":
    main()
