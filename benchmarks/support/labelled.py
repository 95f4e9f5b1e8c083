"""A target's greedy answers with their rows and hidden states, kept in a folder: each is computed once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from benchmarks.support.responses import Response, respond
from omnidraft.learning.positions.target_rows import TargetRows

CHUNK, BATCH = 64, 32  # answers in a file; prompts of similar length in a pass
_FIELDS = ("ids", "probabilities", "rest", "hidden")
Prompts = Sequence[Sequence[int]]


def labelled(
    target: PreTrainedModel, prompts: Prompts, eos_ids: Sequence[int], max_new_tokens: int, place: Path
) -> list[Response]:
    """The answers to all prompts; those that the folder has are read from it.

    A file is named after some weights of its model, its prompts and its settings, so a stale one is not read.
    """
    some = next(iter(target.parameters())).detach()[:64].float().cpu().numpy().tobytes()
    weights = hashlib.sha256(some).hexdigest()
    place.mkdir(parents=True, exist_ok=True)
    responses: list[Response] = []
    for at in range(0, len(prompts), CHUNK):
        chunk = [list(map(int, prompt)) for prompt in prompts[at : at + CHUNK]]
        settings = [weights, list(eos_ids), max_new_tokens, chunk]
        name = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]
        file = place / f"{name}.npz"
        if not file.exists():
            _write(file, _answered(target, chunk, eos_ids, max_new_tokens))
            print(f"{at + len(chunk)} of {len(prompts)} answers", flush=True)
        responses += _read(file, chunk)
    return responses


def _answered(
    target: PreTrainedModel, prompts: Prompts, eos_ids: Sequence[int], max_new_tokens: int
) -> list[Response]:
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    answers = respond(
        target, [prompts[i] for i in order], max_new_tokens=max_new_tokens, eos_ids=eos_ids, batch_size=BATCH
    )
    placed = dict(zip(order, answers, strict=True))
    return [placed[i] for i in range(len(prompts))]


def _write(file: Path, responses: Sequence[Response]) -> None:
    rows = [response.rows for response in responses]
    arrays = {
        "lengths": np.array([len(response.tokens) for response in responses]),
        "tokens": np.concatenate([response.tokens for response in responses]),
        "ids": np.concatenate([each.ids for each in rows]),
        "probabilities": np.concatenate([each.probabilities for each in rows]).astype(np.float32),
        "rest": np.concatenate([each.rest for each in rows]),
        "hidden": np.concatenate([response.hidden for response in responses]),
    }
    part = file.with_suffix(".part")
    with part.open("wb") as out:
        np.savez(out, **arrays)  # type: ignore[arg-type]
    part.replace(file)


def _read(file: Path, prompts: Prompts) -> list[Response]:
    with np.load(file) as stored:
        ends = np.cumsum(stored["lengths"])[:-1]
        tokens, *parts = (np.split(stored[name], ends) for name in ("tokens", *_FIELDS))
    return [
        Response(tuple(prompt), tuple(map(int, own)), TargetRows(ids, p.astype(np.float64), rest), hidden)
        for prompt, own, ids, p, rest, hidden in zip(prompts, tokens, *parts, strict=True)
    ]
