"""The toy language with a target that a drafter can learn: its next token depends only on the last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.support.torch_model import TorchModel
from omnidraft.learning.positions.alignment import Aligned, Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.statistics import Statistics
from support.aligning import dense_rows
from support.configs import config_of
from support.toy import DRAFT, TARGET, softmax, toy_cache, toy_map

START = DRAFT.index("#")
MAP = toy_map()


class ChainTarget:
    """A runtime model whose logits are a table, indexed by the last token."""

    vocab_size, max_length = len(TARGET), 256

    def __init__(self, seed: int = 0) -> None:
        self.table = np.random.default_rng(seed).normal(size=(len(TARGET), len(TARGET))) * 2.5
        self.length = 0

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> npt.NDArray[np.float64]:
        self.length += len(tokens)
        logits: npt.NDArray[np.float64] = self.table[list(tokens)][-(num_logits or len(tokens)) :]
        return logits

    def rewind(self, length: int) -> None:
        self.length = length


def tiny_drafter(seed: int = 0) -> Any:
    """A one-layer Llama over the toy's draft tokens."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(DRAFT), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def toy_responses(count: int, length: int = 24, seed: int = 1) -> list[Aligned]:
    """Responses of the chain target, drawn at temperature 1 after a prompt of one token."""
    target, rng, responses = ChainTarget(), np.random.default_rng(seed), []
    aligner = Aligner(full_trie(MAP), max_length=200)
    for i in range(count):
        first = i % 5  # a token with a direct partner
        tokens, p = [first], []
        for _ in range(length):
            p.append(softmax(target.table[tokens[-1]], 1.0))
            tokens.append(int(rng.choice(len(TARGET), p=p[-1])))
        prompt = [START, *MAP.spell(first)]
        responses.append(aligner.align(prompt, tokens[1:], dense_rows(np.array(p))))
    return responses


def accepted(drafter: Any, *, rounds: int = 30, temperature: float = 1.0) -> float:
    """Tokens per target pass with drafts of 4 tokens, in the runtime's loop, with every n-gram cached."""
    cache = toy_cache(MAP, ["FLAKE", "FO", "FLAS", "LAKE"])
    models = DecoderModels(ChainTarget(), Drafter(TorchModel(drafter), [START]), cache)
    config = config_of("trie", SamplingConfig(temperature), 120)
    statistics = Statistics()
    for first in range(5):
        decoded = decode_prompt(models, [first], MAP.spell(first), config, FixedLength(4), SplitMix64(first))
        for each in decoded:
            statistics.add(each)
            if statistics.rounds >= rounds * (first + 1):
                break
    return statistics.tokens_per_target_pass
