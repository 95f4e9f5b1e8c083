"""Write a trained model as a checkpoint for transformers and for `omnidraft export`."""

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.checkpoints.checkpoint import Checkpoint, quiet
from omnidraft.checkpoints.workplace import take_name, workplace

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# The files of a tokenizer; the model card and the logs of the old checkpoint are not copied.
_TOKENIZER = re.compile(
    r"(tokenizer|special_tokens_map|added_tokens|vocab|merges|chat_template|generation_config).*|.*\.model"
)


def write_checkpoint(model: "PreTrainedModel", origin: Checkpoint, out: Path) -> None:
    """Write a directory as transformers does, with the tokenizer of the original checkpoint."""
    with workplace(out) as work, quiet():
        model.save_pretrained(work)
        for file in sorted(origin.directory.iterdir()):
            if _TOKENIZER.fullmatch(file.name) and not (work / file.name).exists():
                shutil.copyfile(file, work / file.name)
        take_name(work, out, replaces=False)
