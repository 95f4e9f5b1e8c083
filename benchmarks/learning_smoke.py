"""Does a drafter learn? A starter pair on a few prompts: acceptance before and after training, objective by
objective.

    python -m benchmarks.learning_smoke [--target a] [--prompts 40] [--passes 4] [--objectives trie-kl
    omnidraft]

The target answers the first GSM8K training prompts greedily, the drafter learns from its answers and the
rows behind them, and both are measured with k = 4, greedy, on GSM8K test prompts that neither has seen, by
the runtime's own loop. `direct` is the intersection of the vocabularies, `cold` the trie with an n-gram
cache that starts empty.
"""

import argparse
import copy
import json
import os
import time
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from benchmarks.starters import DATA, rows
from benchmarks.support.responses import measure_drafter, respond
from omnidraft.commands.demo import starter
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.learning.positions.alignment import Aligned, Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.training.objectives import OBJECTIVES, objective
from omnidraft.training.trainer import Trainer
from omnidraft.training.trainer_options import TrainerOptions

ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in OBJECTIVES},
    "trie-kl-reverse": ("trie-kl", {"direction": "reverse"}),
    "omnidraft-dm": ("omnidraft", {"factor": 0.0}),
    "omnidraft-p": ("omnidraft", {"factor": 1.0, "ngram": "probability"}),
    "omnidraft-renormalised": ("omnidraft", {"intersection": "renormalise"}),
}


class Pair:
    """A starter target, its drafter, and prompts in the ids of both."""

    def __init__(self, target: str) -> None:
        self.target, self.drafter = _model(target), _model("drafter")
        self._tokenizers = Tokenizer.from_file(starter(target)), Tokenizer.from_file(starter("drafter"))
        config = self.target.config
        self.vocab_map = build_vocab_map(
            self._tokenizers[1], self._tokenizers[0], target_size=config.vocab_size,
            draft_size=self.drafter.config.vocab_size,
        )  # fmt: skip
        eos = config.eos_token_id
        self.eos_ids = list(eos) if isinstance(eos, list) else [eos]
        bos, target_bos = self.drafter.config.bos_token_id, config.bos_token_id
        self.start, self._target_start = ([] if b is None else [b] for b in (bos, target_bos))

    def prompts(self, file: str, count: int) -> list[tuple[list[int], list[int]]]:
        """The first questions of a file, in target ids and in draft ids without their start."""
        target, drafter = self._tokenizers
        texts = [f"Question: {row['question']}\nAnswer:" for row in rows(file)[:count]]
        return [(self._target_start + target.encode(t), drafter.encode(t)) for t in texts]

    def aligned(self, count: int, max_new_tokens: int, hidden: bool) -> list[Aligned]:
        """The target's answers to so many training prompts, ready to learn from."""
        prompts = self.prompts("gsm8k/train.jsonl.gz", count)
        aligner = Aligner(full_trie(self.vocab_map), max_length=512)
        said = respond(
            self.target,
            [p for p, _ in prompts],
            max_new_tokens=max_new_tokens,
            eos_ids=self.eos_ids,
            hidden=hidden,
        )
        return [
            aligner.align(self.start + draft, r.tokens, r.rows, before=r.prompt[-1], target_hidden=r.hidden)
            for r, (_, draft) in zip(said, prompts, strict=True)
        ]

    def tokens_per_pass(self, drafter: PreTrainedModel, prompts: list[Any]) -> dict[str, float]:
        """Tokens per target pass of both modes."""
        found = {}
        for name, mode in (("direct", "direct"), ("cold", "trie")):
            counts = measure_drafter(
                self.target, drafter, self.vocab_map, prompts, start=self.start, eos_ids=self.eos_ids,
                mode="direct" if mode == "direct" else "trie",
            )  # fmt: skip
            found[name] = round(counts.tokens_per_target_pass, 3)
            found[f"{name} acceptance"] = round(counts.acceptance_of_drafted, 3)
        return found


def learn(pair: Pair, responses: list[Aligned], name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train a copy of the drafter with one objective, and measure it."""
    drafter = copy.deepcopy(pair.drafter)
    kind, settings = ARMS[name]
    if kind == "dskd":
        target: Any = pair.target  # untyped in transformers
        untyped: Any = drafter
        settings = {
            "draft_embeddings": drafter.get_input_embeddings(),
            "draft_head": untyped.get_output_embeddings(),
            "target_embeddings": _weight(target.get_input_embeddings()),
            "target_head": _weight(target.get_output_embeddings()),
        }
    trainer = Trainer(
        drafter,
        TrainerOptions(objective=kind, learning_rate=options.rate, lora_rank=options.rank, seed=options.seed),
        objective=objective(kind, **settings),
    )
    started, reports = time.monotonic(), []
    for _ in range(options.passes):
        for at in range(0, len(responses), 8):
            reports.append(trainer.step(responses[at : at + 8]))
    unseen = pair.prompts("gsm8k/test.jsonl.gz", options.unseen)
    return {
        "objective": name,
        "seconds": round(time.monotonic() - started, 1),
        "steps": trainer.steps,
        "skipped": trainer.skipped,
        "loss": [round(reports[0].loss, 4), round(reports[-1].loss, 4)],
        **pair.tokens_per_pass(drafter, unseen),
    }


def _weight(module: Any) -> torch.Tensor:
    found: torch.Tensor = module.weight
    return found


def _model(name: str) -> PreTrainedModel:
    found: PreTrainedModel = AutoModelForCausalLM.from_pretrained(starter(name), dtype=torch.float32)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--target", choices=("a", "b"), default="a")
    parser.add_argument("--objectives", nargs="+", choices=ARMS, default=["trie-kl", "omnidraft"])
    parser.add_argument("--prompts", type=int, default=40, help="of the training rows")
    parser.add_argument("--unseen", type=int, default=16, help="of the test rows")
    parser.add_argument(
        "--passes", type=int, default=4, help="over the answers; the paper makes one over thousands"
    )
    parser.add_argument("--tokens", type=int, default=128, help="of an answer")
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate")
    parser.add_argument("--rank", type=int, help="LoRA of this rank in place of every weight")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not (DATA / "tasks").is_dir():
        raise SystemExit(f"no task data at {DATA}; set OMNIDRAFT_DATA to the folder that holds tasks/")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    pair = Pair(options.target)
    started = time.monotonic()
    responses = pair.aligned(options.prompts, options.tokens, "dskd" in options.objectives)
    told = {
        "target": f"starter-{options.target}",
        "answers": len(responses),
        "target tokens": sum(len(r.tokens.ids) for r in responses),
        "n-grams": sum(int((r.tokens.lengths > 1).sum()) for r in responses),
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(told), flush=True)
    unseen = pair.prompts("gsm8k/test.jsonl.gz", options.unseen)
    print(json.dumps({"objective": "none", **pair.tokens_per_pass(pair.drafter, unseen)}), flush=True)
    for name in options.objectives:
        print(json.dumps(learn(pair, responses, name, options)), flush=True)


if __name__ == "__main__":
    main()
