"""Train the toy drafter on nine responses, in as many processes as were launched; the argument is a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from omnidraft.training import Trainer, TrainerOptions
from support.toy_training import tiny_drafter, toy_responses


def learn(state: Path, accelerator: Any = None) -> None:
    """Train one pass; writes the state, and the log beside it."""
    options = TrainerOptions(objective="omnidraft", learning_rate=3e-3, batch_size=4)
    trainer = Trainer(tiny_drafter(), options, accelerator=accelerator)
    trainer.train(toy_responses(9), log=state.with_suffix(".jsonl"), checkpoint=state)


def main() -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    learn(Path(sys.argv[1]), accelerator)
    if accelerator.is_main_process:
        print(f"processes {accelerator.num_processes}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
