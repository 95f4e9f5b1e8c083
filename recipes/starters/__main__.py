"""The recipe of the starter models in examples/starters: two small targets and one drafter.

    python -m recipes.starters tokenizers
    python -m recipes.starters train NAME --work DIR
    python -m recipes.starters evaluate NAME

NAME is `drafter`, `a` or `b`. A training is a fixed number of steps over a seeded order of documents;
a training that was stopped continues from the checkpoint in DIR.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress, TimeElapsedColumn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from recipes.starters import data, models, tokenizers
from recipes.starters.evaluate import evaluate, model_card
from recipes.starters.models import Recipe

STARTERS = Path(__file__).resolve().parents[2] / "examples/starters"
NAMES = ("drafter", "a", "b")

_TASKS_FIRST = {
    "gsm8k": 4,
    "mbpp": 6,
    "scitldr": 1,
    "abstracts": 1,
    "frankenstein": 1,
    "shakespeare": 1,
    "wagahai": 1,
}
_EVEN = {**_TASKS_FIRST, "gsm8k": 1, "mbpp": 1}

# The bends in the targets' learning rates are the places where the trainings were shortened, because other
# work took half of the machine. They stay, so that the same trainings can be repeated.
RECIPES = {
    "drafter": Recipe(
        steps=2000,
        tokens_per_step=2048,
        peak_lr=2e-3,
        rate=((0, 0.01), (99, 1.0), (1400, 1.0), (2000, 0.0)),
        lengths=((0, 256), (1200, 512), (1800, 1024)),
        weight_decay=0.1,
        clip_norm=1.0,
        seed=1,
        copies=_EVEN,
    ),
    "a": Recipe(
        steps=3300,
        tokens_per_step=2048,
        peak_lr=2e-3,
        rate=(
            (0, 0.01),
            (99, 1.0),
            (756, 1.0),
            (1100, 0.744),
            (1800, 0.0),
            (1900, 0.75),
            (2050, 0.7083),
            (3300, 0.0),
        ),
        lengths=((0, 256), (1100, 512), (1680, 1024), (1800, 512), (3100, 1024)),
        weight_decay=0.1,
        clip_norm=1.0,
        seed=2,
        copies=_TASKS_FIRST,
    ),
    "b": Recipe(
        steps=3100,
        tokens_per_step=2048,
        peak_lr=2e-3,
        rate=(
            (0, 0.01),
            (99, 1.0),
            (703, 1.0),
            (1050, 0.7101),
            (1600, 0.0),
            (1700, 0.75),
            (1900, 0.6944),
            (3100, 0.0),
        ),
        lengths=((0, 256), (1050, 512), (1490, 1024), (1600, 512), (2900, 1024)),
        weight_decay=0.1,
        clip_norm=1.0,
        seed=3,
        copies=_TASKS_FIRST,
    ),
}

_BUILDERS = {
    "drafter": tokenizers.build_drafter,
    "a": tokenizers.build_a,
    "b": tokenizers.build_b,
}
_LOG_STEPS = 50
_CHECKPOINT_SECONDS = 300.0


def documents_for(name: str) -> dict[str, list[str]]:
    """The documents that `name` learns from: all training rows, or a tenth of each task for the drafter."""
    share = data.DRAFTER_TASK_SHARE if name == "drafter" else 1.0
    return data.training_documents(data.data_folder(), task_share=share)


def build_tokenizers() -> None:
    """Learn the three tokenizers, each from the documents of its model."""
    for name, build in _BUILDERS.items():
        documents = documents_for(name)
        tokenizer = build([text for texts in documents.values() for text in texts])
        tokenizers.save_tokenizer(tokenizer, STARTERS / name)
        print(f"{name}: {len(tokenizer)} ids")


def train(name: str, work: Path, *, threads: int, bf16: bool, compiled: bool) -> None:
    """Train `name`; publish it about every five minutes and at the end.

    Args:
        name: a key of `RECIPES`.
        work: directory of the checkpoint.
        threads: of torch.
        bf16: compute the forward pass in bfloat16.
        compiled: compile the loss.
    """
    torch.set_num_threads(threads)
    recipe = RECIPES[name]
    # Not AutoTokenizer, which rewrites the files for some families.
    tokenizer = PreTrainedTokenizerFast.from_pretrained(STARTERS / name)
    stream = _stream(name, tokenizer, recipe)
    torch.manual_seed(recipe.seed)
    model = models.new_model(name, tokenizer)
    model.train()
    optimizer = _optimizer(model, recipe)
    log = _resume(work / f"{name}.pt", model, optimizer) or _new_log(name, recipe, model, bf16=bf16)
    log["recipe"] = recipe.settings()  # of the run that finishes the training
    loss_of = _loss(model, bf16=bf16)
    if compiled:
        loss_of = torch.compile(loss_of, dynamic=False)
    saved = time.monotonic()
    recent: list[float] = []
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn()) as progress:
        task = progress.add_task(f"training {name}", total=recipe.steps, completed=log["steps_done"])
        for step in range(log["steps_done"], recipe.steps):
            started = time.monotonic()
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate(step)
            loss = loss_of(*_batch(stream, recipe, step))
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
            recent.append(loss.item())
            log["steps_done"] = step + 1
            log["seconds"] += time.monotonic() - started
            progress.advance(task)
            last = step + 1 == recipe.steps
            if (step + 1) % _LOG_STEPS == 0 or last:
                progress.console.print(_note(log, recipe, recent))
                recent.clear()
                # Only after the losses were logged, so that a resumed training has the same log.
                if last or time.monotonic() - saved > _CHECKPOINT_SECONDS:
                    _save(work / f"{name}.pt", model, optimizer, log)
                    models.publish(STARTERS / name, model, log, model_card(name, log))
                    saved = time.monotonic()


def _stream(name: str, tokenizer: PreTrainedTokenizerFast, recipe: Recipe) -> torch.Tensor:
    """All inputs of the training as one stream of ids, and one id more: the target of the last input."""
    return data.token_stream(
        tokenizer.backend_tokenizer,
        documents_for(name),
        recipe.copies,
        eos_id=tokenizer.eos_token_id,
        length=recipe.steps * recipe.tokens_per_step + 1,
        seed=recipe.seed,
    ).long()


def _note(log: dict[str, Any], recipe: Recipe, recent: list[float]) -> str:
    """Append the mean of the recent losses and the speed to the log; returns them as a line of text."""
    loss = round(sum(recent) / len(recent), 4)
    log["losses"].append([log["steps_done"], loss])
    log["tokens_per_second"] = round(log["steps_done"] * recipe.tokens_per_step / log["seconds"])
    return f"{log['name']} step {log['steps_done']}: loss {loss}, {log['tokens_per_second']} tokens/s"


def _batch(stream: torch.Tensor, recipe: Recipe, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and next-token targets of one step, [rows, sequence length] each."""
    start, count = step * recipe.tokens_per_step, recipe.tokens_per_step
    length = recipe.sequence_length(step)
    inputs = stream[start : start + count].view(-1, length)
    targets = stream[start + 1 : start + count + 1].view(-1, length)
    return inputs, targets


def _loss(model: PreTrainedModel, *, bf16: bool) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A function, which torch can compile: the mean cross-entropy of inputs and targets [rows, length]."""
    untyped: Any = model
    backbone, head = untyped.get_decoder(), untyped.get_output_embeddings()

    def loss_of(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            hidden = backbone(input_ids=inputs, use_cache=False).last_hidden_state
            logits = head(hidden)  # [rows, length, vocabulary]
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    return loss_of


def _optimizer(model: PreTrainedModel, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW; one-dimensional parameters (gains and biases) have no weight decay."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.peak_lr, betas=(0.9, 0.95), fused=True)


def _new_log(name: str, recipe: Recipe, model: PreTrainedModel, *, bf16: bool) -> dict[str, Any]:
    return {
        "name": name,
        "recipe": recipe.settings(),
        "precision": "bf16 autocast" if bf16 else "fp32",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabulary": model.config.vocab_size,
        "steps_done": 0,
        "seconds": 0.0,
        "tokens_per_second": 0,
        "losses": [],
    }


def _save(path: Path, model: PreTrainedModel, optimizer: torch.optim.Optimizer, log: dict[str, Any]) -> None:
    """Write the fp32 training state; a rename replaces the old file, which survives an interruption."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "log": log}, part)
    os.replace(part, path)


def _resume(path: Path, model: PreTrainedModel, optimizer: torch.optim.Optimizer) -> dict[str, Any] | None:
    """Load the training state of a stopped training; returns its log, or None without a file."""
    if not path.exists():
        return None
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    log: dict[str, Any] = state["log"]
    return log


def main() -> None:
    """The command line of the recipe."""
    parser = argparse.ArgumentParser(
        prog="python -m recipes.starters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tokenizers", help="learn the three tokenizers")
    training = commands.add_parser("train", help="train one model, or continue its training")
    training.add_argument("name", choices=NAMES)
    training.add_argument(
        "--work", type=Path, required=True, help="directory for checkpoints, outside the repository"
    )
    training.add_argument("--threads", type=int, default=1)
    training.add_argument(
        "--bf16", action="store_true", help="autocast; faster only on a CPU with bf16 instructions"
    )
    training.add_argument(
        "--compile", action="store_true", help="compile the loss: a fifth faster; needs a C++ compiler"
    )
    evaluation = commands.add_parser("evaluate", help="measure one model on unseen rows")
    evaluation.add_argument("name", choices=NAMES)
    arguments = parser.parse_args()
    if arguments.command == "tokenizers":
        build_tokenizers()
        return
    if arguments.command == "train":
        train(
            arguments.name,
            arguments.work,
            threads=arguments.threads,
            bf16=arguments.bf16,
            compiled=arguments.compile,
        )
    evaluate(STARTERS / arguments.name)


if __name__ == "__main__":
    main()
