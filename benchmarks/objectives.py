"""The training objectives on one pair: tokens a target pass and acceptance before and after a short training.

    python -m benchmarks.objectives TARGET DRAFTER [--objectives trie-kl omnidraft] [--rank 32] [--json]
    python -m benchmarks.objectives examples/starters/a examples/starters/drafter

TARGET and DRAFTER are checkpoints or GGUF files. The target answers training prompts of GSM8K, MBPP and
SciTLDR greedily, and a copy of the drafter learns from these answers and their rows, objective by objective.
Each drafter is measured with the runtime's loop on prompts of these tasks and HumanEval that none has seen:
`direct` is the intersection of the vocabularies, `cold` the trie with an n-gram cache that starts empty.
"""

import argparse
import copy
import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from benchmarks.support.responses import respond
from benchmarks.support.task_data import require
from benchmarks.support.task_prompts import seen, unseen
from benchmarks.support.torch_model import TorchModel
from omnidraft.checkpoints.checkpoint import load_model, read_checkpoint
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.learning.positions.alignment import Aligned, Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.modes import Mode
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.training.objectives import OBJECTIVES
from omnidraft.training.trainer import Trainer
from omnidraft.training.trainer_options import TrainerOptions

NUM_DRAFT_TOKENS, MAX_NEW_TOKENS, MAX_PROMPT = 4, 96, 448
MODES: dict[str, Mode] = {"direct": "direct", "cold": "trie"}
Prompt = tuple[list[int], list[int]]  # in target ids, and in draft ids without their start


class CheckpointPair:
    """A target, a drafter, and prompts in the ids of both."""

    def __init__(self, target: str, drafter: str) -> None:
        read = read_checkpoint(target), read_checkpoint(drafter)
        self.target, self.drafter = map(load_model, read)
        self._tokenizers = [LibraryTokenizer.from_file(each.directory) for each in read]
        self.vocab_map = build_vocab_map(
            self._tokenizers[1], self._tokenizers[0], target_size=self.target.config.vocab_size,
            draft_size=self.drafter.config.vocab_size,
        )  # fmt: skip
        eos = self.target.generation_config.eos_token_id if self.target.generation_config else None
        eos = self.target.config.eos_token_id if eos is None else eos
        self.eos_ids: list[int] = list(eos) if isinstance(eos, list) else [eos]
        bos = self.drafter.config.bos_token_id, self.target.config.bos_token_id
        self.start, self._target_start = ([] if b is None else [b] for b in bos)

    def prompts(self, tasks: dict[str, list[str]]) -> list[Prompt]:
        """All prompts of the tasks that are short enough."""
        target, drafter = self._tokenizers
        texts = [f"Question: {text}\nAnswer:" for of_task in tasks.values() for text in of_task]
        both = [(self._target_start + target.encode(text), drafter.encode(text)) for text in texts]
        return [prompt for prompt in both if max(map(len, prompt)) <= MAX_PROMPT]

    def answered(self, prompts: Sequence[Prompt]) -> Iterator[Aligned]:
        """The target's answers as training positions."""
        aligner = Aligner(full_trie(self.vocab_map), max_length=MAX_PROMPT + 4 * MAX_NEW_TOKENS)
        ids = [prompt for prompt, _ in prompts]
        responses = respond(self.target, ids, max_new_tokens=MAX_NEW_TOKENS, eos_ids=self.eos_ids)
        for response, (_, draft) in zip(responses, prompts, strict=True):
            yield aligner.align(self.start + draft, response.tokens, response.rows)

    def measured(self, drafter: PreTrainedModel, prompts: Sequence[Prompt]) -> dict[str, float]:
        """Tokens per target pass and acceptance, in both modes."""
        figures = {}
        for name, mode in MODES.items():
            statistics = self._speculated(drafter, prompts, mode)
            figures[name] = round(statistics.tokens_per_target_pass, 3)
            figures[f"{name} acceptance"] = round(statistics.acceptance_of_drafted, 3)
        return figures

    def _speculated(self, drafter: PreTrainedModel, prompts: Sequence[Prompt], mode: Mode) -> Statistics:
        """Greedy speculation by the runtime's loop, with a cache that is empty at first."""
        statistics = Statistics()
        models = TorchModel(self.target), Drafter(TorchModel(drafter), self.start)
        decoder = DecoderModels(*models, NgramCache(self.vocab_map))
        config = GenerationConfig(MAX_NEW_TOKENS, mode=mode)
        for prompt, draft_prompt in prompts:
            length = FixedLength(NUM_DRAFT_TOKENS)
            random, eos_ids = SplitMix64(0), set(self.eos_ids)
            for each in decode_prompt(decoder, prompt, draft_prompt, config, length, random, eos_ids):
                statistics.add(each)
        return statistics


def trained(
    pair: CheckpointPair, responses: Sequence[Aligned], name: str, options: argparse.Namespace
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A copy of the drafter after `passes` over the responses with one objective."""
    drafter = copy.deepcopy(pair.drafter)
    settings = {"learning_rate": options.rate, "lora_rank": options.rank, "seed": options.seed}
    trainer = Trainer(drafter, TrainerOptions(objective=name, **settings))
    started = time.monotonic()
    for _ in range(options.passes):
        for at in range(0, len(responses), 8):
            trainer.step(list(responses[at : at + 8]))
    figures = {"steps": trainer.steps, "seconds": round(time.monotonic() - started, 1)}
    return drafter, figures


def rows_of(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The untrained drafter's figures, and those of each objective."""
    pair = CheckpointPair(options.target, options.drafter)
    tests = pair.prompts(unseen(options.unseen))
    yield {"objective": "none", **pair.measured(pair.drafter, tests)}
    responses = list(pair.answered(pair.prompts(seen(options.prompts))))
    for name in options.objectives:
        drafter, figures = trained(pair, responses, name, options)
        yield {"objective": name, "answers": len(responses), **figures, **pair.measured(drafter, tests)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("target", help="a checkpoint directory or a GGUF file")
    parser.add_argument("drafter", help="a checkpoint directory")
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--prompts", type=int, default=80, help="training prompts of each of three tasks")
    parser.add_argument("--unseen", type=int, default=8, help="test prompts of each of four tasks")
    parser.add_argument("--passes", type=int, default=1, help="over the answers")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--rank", type=int, help="train LoRA of this rank in place of every weight")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each objective")
    options = parser.parse_args()
    require("tasks")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if not options.json:
        print("| objective | tokens a pass, direct | cold cache | acceptance, direct | cold cache |")
        print("|---|---|---|---|---|")
    for row in rows_of(options):
        if options.json:
            print(json.dumps(row), flush=True)
        else:
            figures = [row[name] for name in (*MODES, *(f"{mode} acceptance" for mode in MODES))]
            print(f"| {row['objective']} | {' | '.join(map(str, figures))} |", flush=True)


if __name__ == "__main__":
    main()
