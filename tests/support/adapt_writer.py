"""A process that adapts until it is killed or done; `test_adapt_crash.py` kills it.

    python adapt_writer.py BUNDLE PLACE ANSWERS

For each line of standard input it forks an adaptation, which continues from the checkpoint in PLACE, and
prints its process id; the fork prints `answered NUMBER` after every answer and `done` at the end. Forking
saves the imports after each kill.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from omnidraft.commands.learn.while_answering import Learning
from omnidraft.learning.online.adapted_target import AdaptOptions
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.language_model import load_bundle
from support.adapting import PROMPTS, begin

OPTIONS = AdaptOptions(interval=2, passes=1, replayed=1, memory=5)
# Sampled text is stricter: it also depends on the random source.
REQUEST = GenerationConfig(max_new_tokens=8, num_draft_tokens=3, seed=0, temperature=0.7)


def adapt(bundle: Path, place: Path, answers: int) -> None:
    """Adapt to the end, from the checkpoint in the place."""
    adaptation = begin(place, load_bundle(bundle), OPTIONS, Learning().make)
    while adaptation.position < answers:
        line = adaptation.answer(PROMPTS[adaptation.position % len(PROMPTS)], REQUEST)
        os.write(1, f"answered {line.answer}\n".encode())
    adaptation.write()
    adaptation.close()
    os.write(1, b"done\n")


def main() -> None:
    bundle, place, answers = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            adapt(bundle, place, answers)
            os._exit(0)
        os.write(1, f"{child}\n".encode())
        os.waitpid(child, 0)
        os.write(1, b"gone\n")


if __name__ == "__main__":
    main()
