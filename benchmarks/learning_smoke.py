"""Whether a drafter learns: acceptance of a starter pair before and after training, objective by objective.

    python -m benchmarks.learning_smoke [--target a] [--prompts 40] [--passes 4] [--objectives trie-kl
    omnidraft]

The target answers the first GSM8K training prompts greedily, and the drafter learns from these answers and
their rows. The untrained and the trained drafter are measured with the runtime's loop, k = 4, greedy, on
GSM8K test prompts that neither model has seen. `direct` is the intersection of the vocabularies, `cold` the
trie with an n-gram cache that starts empty.
"""

import argparse
import copy
import json
import os
import time
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from benchmarks.support.responses import respond
from benchmarks.support.task_data import require, rows
from benchmarks.support.torch_model import TorchModel
from omnidraft.commands.starters import starter
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
from omnidraft.training.objectives import OBJECTIVES, objective
from omnidraft.training.trainer import Trainer
from omnidraft.training.trainer_options import TrainerOptions

NUM_DRAFT_TOKENS, MAX_NEW_TOKENS = 4, 96  # of the measurement
MODES: dict[str, Mode] = {"direct": "direct", "cold": "trie"}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in OBJECTIVES},
    "trie-kl-reverse": ("trie-kl", {"direction": "reverse"}),
    "omnidraft-dm": ("omnidraft", {"factor": 0.0}),
    "omnidraft-p": ("omnidraft", {"factor": 1.0, "ngram": "probability"}),
    "omnidraft-renormalised": ("omnidraft", {"intersection": "renormalise"}),
}
Prompt = tuple[list[int], list[int]]  # in target ids, and in draft ids without their start


class StarterPair:
    """A starter target, its drafter, and prompts in the ids of both."""

    def __init__(self, target: str) -> None:
        self.target, self.drafter = _model(target), _model("drafter")
        tokenizers = [LibraryTokenizer.from_file(starter(name)) for name in (target, "drafter")]
        self._tokenizers = tokenizers[0], tokenizers[1]
        config = self.target.config
        self.vocab_map = build_vocab_map(
            self._tokenizers[1], self._tokenizers[0], target_size=config.vocab_size,
            draft_size=self.drafter.config.vocab_size,
        )  # fmt: skip
        eos = config.eos_token_id
        self.eos_ids = list(eos) if isinstance(eos, list) else [eos]
        bos, target_bos = self.drafter.config.bos_token_id, config.bos_token_id
        self.start, self._target_start = ([] if b is None else [b] for b in (bos, target_bos))

    def prompts(self, file: str, count: int) -> list[Prompt]:
        """The first questions of a task file."""
        target, drafter = self._tokenizers
        texts = [f"Question: {row['question']}\nAnswer:" for row in rows(file)[:count]]
        return [(self._target_start + target.encode(t), drafter.encode(t)) for t in texts]

    def aligned(self, count: int, max_new_tokens: int, hidden: bool) -> list[Aligned]:
        """The target's answers to the first `count` training prompts, as training positions."""
        prompts = self.prompts("gsm8k/train", count)
        aligner = Aligner(full_trie(self.vocab_map), max_length=512)
        responses = respond(
            self.target, [prompt for prompt, _ in prompts], max_new_tokens=max_new_tokens,
            eos_ids=self.eos_ids, hidden=hidden,
        )  # fmt: skip
        return [
            aligner.align(self.start + draft, r.tokens, r.rows, before=r.prompt[-1], target_hidden=r.hidden)
            for r, (_, draft) in zip(responses, prompts, strict=True)
        ]

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


def learn(
    pair: StarterPair, responses: list[Aligned], name: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Train a copy of the drafter with one objective, and measure it."""
    drafter = copy.deepcopy(pair.drafter)
    kind, settings = ARMS[name]
    if kind == "dskd":
        settings = _embeddings_and_heads(drafter, pair.target)
    trainer = Trainer(
        drafter,
        TrainerOptions(objective=kind, learning_rate=options.rate, lora_rank=options.rank, seed=options.seed),
        objective=objective(kind, **settings),
    )
    started, reports = time.monotonic(), []
    for _ in range(options.passes):
        for at in range(0, len(responses), 8):
            reports.append(trainer.step(responses[at : at + 8]))
    unseen = pair.prompts("gsm8k/test", options.unseen)
    return {
        "objective": name,
        "seconds": round(time.monotonic() - started, 1),
        "steps": trainer.steps,
        "skipped": trainer.skipped,
        "loss": [round(reports[0].loss, 4), round(reports[-1].loss, 4)],
        **pair.measured(drafter, unseen),
    }


def _embeddings_and_heads(drafter: Any, target: Any) -> dict[str, Any]:
    """The settings of dskd."""
    return {
        "draft_embeddings": drafter.get_input_embeddings(),
        "draft_head": drafter.get_output_embeddings(),
        "target_embeddings": target.get_input_embeddings().weight,
        "target_head": target.get_output_embeddings().weight,
    }


def _model(name: str) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(starter(name), dtype=torch.float32)
    return model


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--target", choices=("a", "b"), default="a")
    parser.add_argument("--objectives", nargs="+", choices=ARMS, default=["trie-kl", "omnidraft"])
    parser.add_argument("--prompts", type=int, default=40, help="number of training prompts")
    parser.add_argument("--unseen", type=int, default=16, help="number of test prompts")
    parser.add_argument(
        "--passes", type=int, default=4, help="over the answers; the paper makes one over thousands"
    )
    parser.add_argument("--tokens", type=int, default=128, help="maximum length of an answer")
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate")
    parser.add_argument("--rank", type=int, help="train LoRA of this rank in place of every weight")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def main() -> None:
    options = _parser().parse_args()
    require("tasks")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    pair = StarterPair(options.target)
    started = time.monotonic()
    responses = pair.aligned(options.prompts, options.tokens, "dskd" in options.objectives)
    summary = {
        "target": f"starter-{options.target}",
        "answers": len(responses),
        "target tokens": sum(len(r.tokens.ids) for r in responses),
        "n-grams": sum(int((r.tokens.lengths > 1).sum()) for r in responses),
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(summary), flush=True)
    unseen = pair.prompts("gsm8k/test", options.unseen)
    print(json.dumps({"objective": "none", **pair.measured(pair.drafter, unseen)}), flush=True)
    for name in options.objectives:
        print(json.dumps(learn(pair, responses, name, options)), flush=True)


if __name__ == "__main__":
    main()
