"""Write a trained model as a checkpoint that transformers, and `omnidraft export`, read."""

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.checkpoints.checkpoint import Checkpoint, quiet
from omnidraft.checkpoints.workplace import take_name, workplace

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# What belongs to a tokenizer; a checkpoint's own page and logs are not of what was trained.
_TOKENIZER = re.compile(
    r"(tokenizer|special_tokens_map|added_tokens|vocab|merges|chat_template|generation_config).*|.*\.model"
)


def write_checkpoint(model: "PreTrainedModel", origin: Checkpoint, out: Path) -> None:
    """A directory as transformers writes it, with the tokenizer of the checkpoint that the model began as.

    Raises:
        ExportError: it cannot be written; nothing is left behind then.
    """
    with workplace(out) as work, quiet():
        model.save_pretrained(work)
        for file in sorted(origin.directory.iterdir()):
            if _TOKENIZER.fullmatch(file.name) and not (work / file.name).exists():
                shutil.copyfile(file, work / file.name)
        take_name(work, out)
