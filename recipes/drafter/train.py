"""Training of the drafter: cross-entropy, with a learning rate that can fall from any checkpoint.

The rate rises, stays, and falls to zero in `decay` steps. A training without decay steps can be continued
for ever; a decay begins from its checkpoint and writes another, so the training can go on from before it.
"""

import json
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
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
    device: str = "cpu"
    workers: int = 0  # processes that make the streams of the next rounds

    def on_gpu(self, workers: int) -> "Plan":
        """These settings with a GPU's batches, of which a step takes about as long as one of a CPU core."""
        return replace(
            self,
            device="cuda",
            workers=workers,
            rows=128,
            length=512,
            peak_lr=6e-3,
            warmup=200,
            round_steps=64,
            compiled=True,
        )

    def learning_rate(self, step: int) -> float:
        """The rate of a step."""
        rise = min(1.0, (step + 1) / self.warmup)
        fall = 1.0 if step < self.steps else (self.steps + self.decay - step) / self.decay
        return self.peak_lr * rise * fall

    def row_length(self, step: int) -> int:
        """Tokens of a row: more in a decay, up to all positions in its last third."""
        fallen = step - self.steps
        return min(CONTEXT, self.length * (1 if fallen < 0 else 2 if 3 * fallen < 2 * self.decay else 4))


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
    torch.nn.Module.to(model, plan.device)
    model.train()
    optimizers = _optimizers(model, plan)
    log = _resume(places, model, optimizers, plan.device)
    loss_of = _loss(model, plan)
    log["plan"], log["shape"] = asdict(plan), asdict(shape)
    saved = started = time.monotonic()
    recent: list[torch.Tensor] = []
    total = plan.rows * plan.length
    for ids in _batches(places, plan, tokenizer, imitated, log["steps"]):
        step = log["steps"]
        while places.stop is not None and places.stop.exists():
            time.sleep(5)
        loss = loss_of(ids, plan.row_length(step))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), plan.clip_norm)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = plan.learning_rate(step)
            optimizer.step()
            optimizer.zero_grad()
        recent.append(loss.detach())
        log["steps"], log["tokens"] = step + 1, log["tokens"] + total
        last = step + 1 == plan.steps + plan.decay
        if (step + 1) % _LOG_STEPS == 0 or last:
            log["losses"].append([step + 1, round(torch.stack(recent).mean().item(), 4)])
            log["seconds"], started = log["seconds"] + time.monotonic() - started, time.monotonic()
            print(f"step, loss {log['losses'][-1]}, {log['tokens']} tokens", flush=True)
            recent.clear()
            if last or time.monotonic() - saved > _CHECKPOINT_SECONDS:
                _save(places.checkpoint, model, optimizers, log)
                saved = time.monotonic()
    return log


def _batches(
    places: Places, plan: Plan, tokenizer: PreTrainedTokenizerFast, imitated: Sequence[Tokenizer], first: int
) -> Iterator[torch.Tensor]:
    """Ids [rows * length + 1] of each step from the first one, on the device."""
    total, end = plan.rows * plan.length, plan.steps + plan.decay
    step = first
    for stream in _rounds(places, plan, tokenizer, imitated, first // plan.round_steps):
        on_device = stream.to(plan.device).long()
        while True:
            if step == end:
                return
            place = step % plan.round_steps
            yield on_device[place * total : (place + 1) * total + 1]
            step += 1
            if step % plan.round_steps == 0:
                break


def _rounds(
    places: Places, plan: Plan, tokenizer: PreTrainedTokenizerFast, imitated: Sequence[Tokenizer], number: int
) -> Iterator[torch.Tensor]:
    """The ids of each round from `number` on, and one id more; workers read the documents once."""
    numbers = deque(range(number, (plan.steps + plan.decay - 1) // plan.round_steps + 1))
    length = plan.round_steps * plan.rows * plan.length + 1
    if not plan.workers:
        for n in numbers:
            streams = Streams(places, tokenizer.backend_tokenizer, imitated)
            yield torch.from_numpy(streams.make(length, n))
        return
    given = (places, tokenizer.backend_tokenizer, imitated)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(plan.workers, context, initializer=_begin, initargs=given) as pool:
        coming: deque[Future[Any]] = deque()
        while numbers or coming:
            while numbers and len(coming) < 2 * plan.workers:
                coming.append(pool.submit(_stream, length, numbers.popleft()))
            yield torch.from_numpy(coming.popleft().result())


class Streams:
    """The documents of a training, of which it makes streams of ids."""

    def __init__(self, places: Places, tokenizer: Tokenizer, imitated: Sequence[Tokenizer]) -> None:
        self.documents = load_documents(places.samples, places.texts)
        self.tokenizer, self.imitated = tokenizer, imitated

    def make(self, length: int, seed: int) -> Any:
        """A stream of `length` ids, int32, as an array."""
        ids = token_stream(self.documents, self.tokenizer, self.imitated, length=length, seed=seed)
        return ids.numpy()


_streams: list[Streams] = []  # of this process, if it is a worker


def _begin(places: Places, tokenizer: Tokenizer, imitated: Sequence[Tokenizer]) -> None:
    _streams.append(Streams(places, tokenizer, imitated))


def _stream(length: int, seed: int) -> Any:
    return _streams[0].make(length, seed)


def _loss(model: LlamaForCausalLM, plan: Plan) -> Loss:
    """The mean cross-entropy in nats per token of ids [rows * length + 1] in rows of a length."""

    def loss_of(ids: torch.Tensor, length: int) -> torch.Tensor:
        with torch.autocast(plan.device, torch.bfloat16, enabled=plan.bf16):
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
    places: Places, model: LlamaForCausalLM, optimizers: Sequence[torch.optim.Optimizer], device: str
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
    state = torch.load(path, weights_only=True, map_location=device)
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    log: dict[str, Any] = state["log"]
    return log
