"""Expected tokens per target pass of a torch drafter, on texts that the target sampled; see expected.py."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from benchmarks.experiments.running.expected import Floats, Passage, expected_rounds, passage
from benchmarks.experiments.running.measure import NUM_DRAFT_TOKENS, learned
from benchmarks.experiments.running.pairs import load_pair, torch_model
from benchmarks.experiments.running.sampled_answers import Pool, Sampled
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.trie import ActiveTrie

WAYS = ("direct", "warm")  # the direct map; the trie of a cache that learned training answers
LEARNED = 1024  # training answers that the cache learned


def expected(
    work: Path, target: str, task: str, temperature: float, model: PreTrainedModel, count: int
) -> dict[str, dict[str, Any]]:
    """Expected rounds of each test text, and its tokens, for each way; as `measure.counts` lists them.

    Args:
        work: the work directory.
        target, task: whose answers are drafted.
        temperature: of target and drafter.
        model: the drafter.
        count: of test texts.
    """
    vocab_map = load_pair(work, target).vocab_map
    training = model.training
    model.train(False)
    measured: dict[str, dict[str, Any]] = {}
    texts = {way: passages(work, target, task, temperature, count, way) for way in WAYS}
    barred = {
        "direct": torch.from_numpy(vocab_map.direct < 0),
        "warm": torch.from_numpy(~vocab_map.draft_allowed),
    }
    rounds: dict[str, list[float]] = {way: [] for way in WAYS}
    for several in zip(*(texts[way] for way in WAYS), strict=True):
        rows = logits(model, several[0].draft_ids.tolist(), several[0].first)
        for way, text in zip(WAYS, several, strict=True):
            q = distributions(rows.masked_fill(barred[way], -torch.inf), temperature)
            mask = trie_of(work, target, task, way).root_mask
            rounds[way].append(round(expected_rounds(text, q, mask, NUM_DRAFT_TOKENS), 3))
    for way in WAYS:
        measured[way] = {"rounds": rounds[way], "emitted": [len(text.steps) for text in texts[way]]}
    model.train(training)
    return measured


@lru_cache(maxsize=32)
def passages(work: Path, target: str, task: str, temperature: float, count: int, way: str) -> list[Passage]:
    """The decisions of the test texts that a target samples at a temperature."""
    bos = load_pair(work, target).bundle.drafter.bos_id
    trie = trie_of(work, target, task, way)
    return [
        passage([*([] if bos is None else [bos]), *text.draft_prompt], text.tokens, p, trie, way != "direct")
        for text, p in zip(
            test_texts(work, target, task, temperature, count),
            _rows(work, target, task, temperature, count),
            strict=True,
        )
    ]


@lru_cache(maxsize=2)
def _rows(work: Path, target: str, task: str, temperature: float, count: int) -> list[Floats]:
    model = torch_model(target).train(False)
    return [
        distributions(logits(model, [*text.prompt, *text.tokens[:-1]], len(text.prompt) - 1), temperature)
        for text in test_texts(work, target, task, temperature, count)
    ]


def test_texts(work: Path, target: str, task: str, temperature: float, count: int) -> list[Sampled]:
    """Answers to test prompts, spread over the rows of the task."""
    return list(Pool(target, task, "test", (temperature,)).answers(work, count))


@lru_cache(maxsize=16)
def trie_of(work: Path, target: str, task: str, way: str) -> ActiveTrie:
    """The trie of direct pairs, or with the n-grams of the first training answers."""
    if way == "direct":
        return ActiveTrie(load_pair(work, target).vocab_map)
    return learned_cache(work, target, task).trie


def learned_cache(work: Path, target: str, task: str) -> NgramCache:
    """A new cache that learned the first training answers."""
    return learned(load_pair(work, target).vocab_map, Pool(target, task).answers(work, LEARNED))


@torch.inference_mode()
def logits(model: Any, ids: list[int], first: int) -> Tensor:
    """Logits from a position on, [rows, vocab]."""
    out = model(input_ids=torch.tensor([ids]), use_cache=False, logits_to_keep=len(ids) - first)
    rows: Tensor = out.logits[0].float()
    return rows


def distributions(rows: Tensor, temperature: float) -> Floats:
    """Logits as distributions; certain ones at temperature 0."""
    if temperature == 0.0:
        certain: Floats = np.zeros(tuple(rows.shape))
        certain[np.arange(len(certain)), rows.argmax(dim=1).numpy()] = 1.0
        return certain
    warm: Floats = (rows / temperature).softmax(dim=1).double().numpy()
    return warm
