"""A drafter that has the target's vocabulary, for a runtime that maps no vocabularies.

It is the target's embeddings, its first layers and its last norm, trained on the target's own greedy answers
to training prompts until its distributions are near the target's (forward Kullback-Leibler divergence). Each
target needs one of its own. The drafter that this project maps to both targets is trained once.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from benchmarks.support.responses import respond
from benchmarks.support.task_prompts import seen
from omnidraft.checkpoints.checkpoint import load_model, read_checkpoint
from omnidraft.runtime.session.api import TextSession

LAYERS = 2
PROMPTS = 128  # of each source
LONGEST = 448  # tokens of a prompt; longer ones are left out
NEW_TOKENS = 96
BATCH, EPOCHS, RATE, WARM_UP = 8, 3, 1e-3, 10
_COPIED = ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja")
Answered = tuple[list[int], int]  # prompt and answer in ids, and the length of the prompt


def make(session: TextSession, checkpoint: Path, out: Path) -> Path:
    """Write the drafter's checkpoint; one that is there is kept.

    Args:
        session: of a bundle with the target, for its tokenizer and template.
        checkpoint: of the target.
        out: directory to write.
    """
    if out.exists():
        return out
    torch.manual_seed(0)
    target: Any = load_model(read_checkpoint(str(checkpoint)))
    drafter = _first_layers(target)
    _train(drafter, target, _answers(session, target))
    unfinished = out.with_name(f"{out.name}.unfinished")
    drafter.save_pretrained(unfinished)
    for name in _COPIED:
        if (checkpoint / name).exists():
            shutil.copy(checkpoint / name, unfinished / name)
    return unfinished.rename(out)


def _first_layers(target: Any) -> Any:
    values = target.config.to_dict() | {"num_hidden_layers": LAYERS}
    if values.get("layer_types"):
        values["layer_types"] = values["layer_types"][:LAYERS]
    config = type(target.config).from_dict(values)
    untyped: Any = AutoModelForCausalLM
    drafter = untyped.from_config(config, dtype=torch.float32)
    weights = target.state_dict()
    drafter.load_state_dict({name: weights[name] for name in drafter.state_dict()})
    return drafter


def _answers(session: TextSession, target: Any) -> list[Answered]:
    """The target's greedy answers, those to short prompts first."""
    texts = [text for of_task in seen(PROMPTS).values() for text in of_task]
    prompts = sorted((session.encode(text) for text in texts), key=len)
    fitting = [prompt for prompt in prompts if len(prompt) <= LONGEST]
    eos_ids = session.bundle.target.eos_ids
    answers = respond(target, fitting, max_new_tokens=NEW_TOKENS, eos_ids=eos_ids, top=1, batch_size=64)
    return [([*each.prompt, *each.tokens], len(each.prompt)) for each in answers]


def _train(drafter: Any, target: Any, answers: Sequence[Answered]) -> None:
    """Batches of similar lengths in a random order; the rate falls to 0."""
    batches = [answers[at : at + BATCH] for at in range(0, len(answers), BATCH)]
    order = [batches[i] for _ in range(EPOCHS) for i in torch.randperm(len(batches)).tolist()]
    optimizer = torch.optim.AdamW(drafter.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARM_UP, 1 - step / len(order))
    )
    drafter.train()
    for batch in order:
        loss = _divergence(drafter, target, batch)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    drafter.eval()


def _divergence(drafter: Any, target: Any, batch: Sequence[Answered]) -> torch.Tensor:
    """Mean over the positions that an answer's tokens are drawn at."""
    longest = max(len(ids) for ids, _ in batch)
    ids = torch.tensor([text + [0] * (longest - len(text)) for text, _ in batch])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text, _ in batch])
    counted = torch.tensor(
        [[prompt - 1 <= at < len(text) - 1 for at in range(longest)] for text, prompt in batch]
    )
    with torch.no_grad():
        wanted = target(input_ids=ids, attention_mask=mask).logits[counted].log_softmax(-1)
    drafted = drafter(input_ids=ids, attention_mask=mask).logits[counted].log_softmax(-1)
    return torch.nn.functional.kl_div(drafted, wanted, log_target=True, reduction="batchmean")
