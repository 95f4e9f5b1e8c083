"""A process that adapts until it is killed or done; `test_adapt_crash.py` kills it.

    python adapt_writer.py BUNDLE PLACE ANSWERS

Each fork continues from the checkpoint in PLACE; it prints `answered NUMBER` after every answer and `done` at
the end.
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
from support.kills import fork_for_each_line

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


if __name__ == "__main__":
    bundle, place, answers = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    fork_for_each_line(lambda: adapt(bundle, place, answers))
