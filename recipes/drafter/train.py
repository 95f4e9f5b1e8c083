"""Training of the drafter: cross-entropy, with a learning rate that can fall from any checkpoint.

The rate rises, stays, and falls to zero in `decay` steps. A training without decay steps can be continued
for ever; a decay begins from its checkpoint and writes another, so the training can go on from before it.
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from recipes.drafter.corpus import load_documents, token_stream
from recipes.drafter.tokenizer import CONTEXT

_LOG_STEPS = 25
_CHECKPOINT_SECONDS = 300.0


Loss = Callable[[torch.Tensor, int], torch.Tensor]


@dataclass(frozen=True)
class Shape:
    """The architecture; the defaults have 6.9M parameters, 13.8 MB in bf16."""

    width: int = 320
    inner: int = 864
    layers: int = 4
    heads: int = 5


@dataclass(frozen=True)
class Plan:
    """Settings of a training."""

    rows: int = 16
    length: int = 256  # of a row; longer in a decay, which trains all positions
    peak_lr: float = 4e-3
    warmup: int = 100
    steps: int = 100_000  # with the full rate, warmup included
    decay: int = 0  # steps behind `steps` in which the rate falls to zero
    round_steps: int = 200  # after which the samples are read again
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    bf16: bool = True
    compiled: bool = False

    def learning_rate(self, step: int) -> float:
        """The rate of a step."""
        rise = min(1.0, (step + 1) / self.warmup)
        fall = 1.0 if step < self.steps else (self.steps + self.decay - step) / self.decay
        return self.peak_lr * rise * fall

    def row_length(self, step: int) -> int:
        """Tokens of a row: twice as many in a decay, four times in its last third."""
        fallen = step - self.steps
        return self.length * (1 if fallen < 0 else 2 if 3 * fallen < 2 * self.decay else 4)


@dataclass(frozen=True)
class Places:
    """Folders and files of a training."""

    tokenizer: Path  # a folder with tokenizer.json
    samples: Path  # JSONL files of `sample`
    texts: Path  # texts.json of `texts`
    checkpoint: Path
    start: Path | None = None  # a checkpoint to begin from, where `checkpoint` does not exist
    published: Path | None = None  # a published drafter to begin from, where neither exists
    stop: Path | None = None  # while this file exists, the training waits


def new_model(tokenizer: PreTrainedTokenizerFast, shape: Shape) -> LlamaForCausalLM:
    """An untrained drafter."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=shape.width,
            intermediate_size=shape.inner,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.heads,
            max_position_embeddings=CONTEXT,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=None,
            tie_word_embeddings=True,
            rms_norm_eps=1e-6,
            initializer_range=0.02,
        )
    )


def train(places: Places, plan: Plan, shape: Shape, imitated: Sequence[Tokenizer] = ()) -> dict[str, Any]:
    """Train until the plan's last step, from the checkpoint if there is one; returns the log."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(places.tokenizer)
    torch.manual_seed(0)
    model = new_model(tokenizer, shape)
    model.train()
    optimizers = _optimizers(model, plan)
    log = _resume(places, model, optimizers)
    loss_of = _loss(model, plan)
    log["plan"], log["shape"] = asdict(plan), asdict(shape)
    saved = time.monotonic()
    recent: list[float] = []
    stream, stream_round = torch.empty(0), -1
    total = plan.rows * plan.length
    while log["steps"] < plan.steps + plan.decay:
        step = log["steps"]
        while places.stop is not None and places.stop.exists():
            time.sleep(5)
        number, place = divmod(step, plan.round_steps)
        if number != stream_round:
            stream, stream_round = _round(places, plan, tokenizer, imitated, number), number
        started = time.monotonic()
        loss = loss_of(stream[place * total : (place + 1) * total + 1], plan.row_length(step))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), plan.clip_norm)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = plan.learning_rate(step)
            optimizer.step()
            optimizer.zero_grad()
        recent.append(loss.item())
        log["steps"], log["tokens"] = step + 1, log["tokens"] + total
        log["seconds"] += time.monotonic() - started
        last = step + 1 == plan.steps + plan.decay
        if (step + 1) % _LOG_STEPS == 0 or last:
            log["losses"].append([step + 1, round(sum(recent) / len(recent), 4)])
            print(
                f"step, loss {log['losses'][-1]}, {log['tokens'] / log['seconds']:.0f} tokens/s", flush=True
            )
            recent.clear()
            if last or time.monotonic() - saved > _CHECKPOINT_SECONDS:
                _save(places.checkpoint, model, optimizers, log)
                saved = time.monotonic()
    return log


def _round(
    places: Places, plan: Plan, tokenizer: PreTrainedTokenizerFast, imitated: Sequence[Tokenizer], number: int
) -> torch.Tensor:
    """The ids of one round of steps, and one id more; what was sampled until now is in it."""
    documents = load_documents(places.samples, places.texts)
    length = plan.round_steps * plan.rows * plan.length + 1
    return token_stream(documents, tokenizer.backend_tokenizer, imitated, length=length, seed=number).long()


def _loss(model: LlamaForCausalLM, plan: Plan) -> Loss:
    """The mean cross-entropy in nats per token of ids [rows * length + 1] in rows of a length."""

    def loss_of(ids: torch.Tensor, length: int) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=plan.bf16):
            logits = model(input_ids=ids[:-1].view(-1, length), use_cache=False).logits
        return cross_entropy(logits.flatten(0, 1).float(), ids[1:])  # logits: [rows, length, vocabulary]

    compiled: Loss = torch.compile(loss_of, dynamic=False) if plan.compiled else loss_of
    return compiled


def _optimizers(model: LlamaForCausalLM, plan: Plan) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for the embedding and the gains, which do not decay.

    Muon learns from about half of the tokens that AdamW needs, for a hundredth of the time of a step.
    """
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.dim() == 2 and "embed" not in name]
    others = [p for name, p in named if p.dim() < 2 or "embed" in name]
    muon: Any = torch.optim.Muon
    return [
        muon(matrices, lr=plan.peak_lr, weight_decay=plan.weight_decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=plan.peak_lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]


def _save(
    path: Path, model: LlamaForCausalLM, optimizers: Sequence[torch.optim.Optimizer], log: dict[str, Any]
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    states = [optimizer.state_dict() for optimizer in optimizers]
    torch.save({"model": model.state_dict(), "optimizers": states, "log": log}, part)
    os.replace(part, path)


def _resume(
    places: Places, model: LlamaForCausalLM, optimizers: Sequence[torch.optim.Optimizer]
) -> dict[str, Any]:
    """Load the checkpoint, else the start, else the published weights; returns the log, or a new one."""
    path = next((p for p in (places.checkpoint, places.start) if p is not None and p.exists()), None)
    if path is None and places.published is not None:  # its optimizer was not kept
        begun: Any = LlamaForCausalLM.from_pretrained(places.published, dtype=torch.float32)
        model.load_state_dict(begun.state_dict())
        return dict(json.loads((places.published / "training_log.json").read_text("utf-8")))
    if path is None:
        parameters = sum(p.numel() for p in model.parameters())
        return {"parameters": parameters, "steps": 0, "tokens": 0, "seconds": 0.0, "losses": []}
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    log: dict[str, Any] = state["log"]
    return log
