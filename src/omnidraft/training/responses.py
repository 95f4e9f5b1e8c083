"""Responses of a torch target with its rows, and how well a drafter does on prompts; both greedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from omnidraft.runtime.draft_length import FixedLength
from omnidraft.runtime.drafter import Drafter
from omnidraft.runtime.learner.target_rows import TargetRows, top_rows
from omnidraft.runtime.ngram_cache import NgramCache
from omnidraft.runtime.rng import SplitMix64
from omnidraft.runtime.round import Mode, Pair, Settings, rule_for, speculate
from omnidraft.runtime.sampler import Sampling
from omnidraft.runtime.statistics import Statistics
from omnidraft.runtime.vocab_map import VocabMap
from omnidraft.training.torch_model import TorchModel


@dataclass(frozen=True)
class Response:
    """What a target said to a prompt of target ids, with its laws at temperature 1.

    Attributes:
        hidden: the last hidden states behind the rows, shape [n, target width], where they were asked for.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    rows: TargetRows
    hidden: npt.NDArray[np.float32] | None = None


def respond(
    target: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int = 128,
    eos_ids: Sequence[int] = (),
    top: int = 64,
    batch_size: int = 16,
    hidden: bool = False,
) -> Iterator[Response]:
    """Greedy responses, each with the rows that they were chosen by: no second pass over the target.

    Args:
        target: a transformers decoder.
        prompts: in target ids.
        max_new_tokens: of a response.
        eos_ids: end a response, and are part of it.
        top: ids that are kept of a row.
        batch_size: prompts at once; their whole rows are in memory together.
        hidden: also keep hidden states.
    """
    pad = eos_ids[0] if eos_ids else 0
    for at in range(0, len(prompts), batch_size):
        some = prompts[at : at + batch_size]
        longest = max(map(len, some))
        ids = torch.tensor([[pad] * (longest - len(p)) + list(p) for p in some], device=target.device)
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in some], device=target.device)
        generate: Any = target.generate  # untyped in transformers
        out = generate(
            ids, attention_mask=mask, do_sample=False, max_new_tokens=max_new_tokens, pad_token_id=pad,
            eos_token_id=list(eos_ids) or None, output_logits=True, return_dict_in_generate=True,
            output_hidden_states=hidden,
        )  # fmt: skip
        rows = torch.stack(out.logits, dim=1).float().softmax(dim=-1).cpu().numpy()  # [B, n, vocab]
        states = None
        if hidden:  # of each step the last position, of that the last layer
            states = torch.stack([step[-1][:, -1] for step in out.hidden_states], dim=1).float().cpu().numpy()
        for b, said in enumerate(out.sequences[:, longest:].tolist()):
            count = next((i + 1 for i, t in enumerate(said) if t in eos_ids), len(said))
            kept = top_rows(rows[b, :count], said[:count], top)
            of_it = None if states is None else states[b, :count]
            yield Response(tuple(some[b]), tuple(said[:count]), kept, of_it)


def measure_drafter(
    target: PreTrainedModel,
    drafter: PreTrainedModel,
    vocab_map: VocabMap,
    prompts: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    start: Sequence[int] = (),
    eos_ids: Sequence[int] = (),
    num_draft_tokens: int = 4,
    max_new_tokens: int = 96,
    mode: Mode = "trie",
    on_prompt: Callable[[], None] | None = None,
) -> Statistics:
    """Greedy speculation on prompts by the runtime's own loop, with a cache that is empty at first.

    Args:
        target, drafter: transformers decoders.
        vocab_map: of the pair.
        prompts: each in target ids and in draft ids.
        start: ids that every draft context begins with (bos).
        eos_ids: the target's ends.
        num_draft_tokens, max_new_tokens, mode: see `Request`.
        on_prompt: called after each.
    """
    found = Statistics()
    pair = Pair(TorchModel(target), Drafter(TorchModel(drafter), start), NgramCache(vocab_map))
    settings = Settings(rule_for(mode, 0.0), Sampling(0.0), max_new_tokens, set(eos_ids))
    for prompt, draft_prompt in prompts:
        length = FixedLength(num_draft_tokens)
        for each in speculate(pair, prompt, draft_prompt, settings, length, SplitMix64(0)):
            found.add(each)
        if on_prompt is not None:
            on_prompt()
    return found
