"""The losses on one pair: tokens a target pass before and after a short training with each.

    python -m benchmarks.objectives TARGET DRAFTER [--objectives trie-kl dskd] [--answers 448] [--seeds 0 1 2]
    python -m benchmarks.objectives examples/starters/a examples/starters/drafter

TARGET and DRAFTER are checkpoints or GGUF files. The target answers training prompts greedily, and a copy of
the drafter learns from the first of these answers with each loss: those of the product and those of
benchmarks/losses. Each drafter is measured with the runtime's loop (k = 4, an n-gram cache that starts empty)
on prompts that none has seen, against the target's recorded greedy answers.

Answers are kept in `--labels`, and with `--out` each result is a line of a file: a run that ended goes on.
The table has the mean over seeds and each seed, and the ratio to trie-kl with its interval over prompts.
"""

import argparse
import copy
import json
import os
import time
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from benchmarks.losses.chunks import Labelled
from benchmarks.losses.table import LOSSES
from benchmarks.losses.trainer import trainer_for
from benchmarks.support.labelled import labelled
from benchmarks.support.recorded_target import RecordedTarget
from benchmarks.support.responses import Response
from benchmarks.support.task_data import require
from benchmarks.support.task_prompts import seen, unseen
from benchmarks.support.torch_model import TorchModel
from omnidraft.checkpoints.checkpoint import load_model, read_checkpoint
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.learning.positions.alignment import Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.training.trainer_options import TrainerOptions

NUM_DRAFT_TOKENS, MAX_NEW_TOKENS, MAX_PROMPT = 4, 64, 448
TRAINING_PROMPTS = 4000  # of each task, of which the short ones are taken
TASKS = ("GSM8K", "MBPP", "HumanEval", "SciTLDR")
UNTRAINED, USUAL = "none", "trie-kl"
Prompt = tuple[list[int], list[int]]  # in target ids, and in draft ids without their start
Row = dict[str, Any]


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

    def prompts(self, tasks: dict[str, list[str]], names: Sequence[str], longest: int) -> list[Prompt]:
        """The prompts of some tasks of at most `longest` tokens, one of each task in turn."""
        target, drafter = self._tokenizers
        in_turn = zip_longest(*(tasks[name] for name in names if name in tasks))
        texts = [f"Question: {text}\nAnswer:" for text in chain.from_iterable(in_turn) if text is not None]
        both = [(self._target_start + target.encode(text), drafter.encode(text)) for text in texts]
        return [prompt for prompt in both if max(map(len, prompt)) <= longest]

    def answered(self, prompts: Sequence[Prompt], tokens: int, place: Path) -> list[Response]:
        """The target's greedy answers of at most `tokens` tokens."""
        return labelled(self.target, [ids for ids, _ in prompts], self.eos_ids, tokens, place)

    def aligned(self, prompts: Sequence[Prompt], responses: Sequence[Response]) -> list[Labelled]:
        """The answers as training positions."""
        aligner = Aligner(full_trie(self.vocab_map), max_length=2 * MAX_PROMPT)
        return [
            Labelled(
                aligner.align(self.start + draft, response.tokens, response.rows), response.hidden, ids[-1]
            )
            for response, (ids, draft) in zip(responses, prompts, strict=True)
        ]

    def measured(
        self, drafter: PreTrainedModel, prompts: Sequence[Prompt], responses: Sequence[Response]
    ) -> Row:
        """Tokens and target passes of each answer, and the acceptance of drafted tokens."""
        model, cache = Drafter(TorchModel(drafter), self.start), NgramCache(self.vocab_map)
        whole, counts = Statistics(), []
        for (ids, draft), response in zip(prompts, responses, strict=True):
            recorded = RecordedTarget([*ids, *response.tokens], self.target.config.vocab_size)
            decoder = DecoderModels(recorded, model, cache)
            config = GenerationConfig(len(response.tokens), mode="trie")
            length, own = FixedLength(NUM_DRAFT_TOKENS), Statistics()
            for each in decode_prompt(decoder, ids, draft, config, length, SplitMix64(0), set(self.eos_ids)):
                own.add(each)
                whole.add(each)
            counts.append((own.emitted, own.rounds))
        acceptance = round(whole.acceptance_of_drafted, 4)
        return {"tokens_a_pass": round(whole.tokens_per_target_pass, 4), "acceptance": acceptance,
                "counts": counts}  # fmt: skip


def trained(
    pair: CheckpointPair, answers: Sequence[Labelled], name: str, seed: int, options: argparse.Namespace
) -> tuple[PreTrainedModel, Row]:
    """A copy of the drafter after `passes` over the answers with one loss, in an order of the seed."""
    drafter = copy.deepcopy(pair.drafter)
    settings = TrainerOptions(learning_rate=options.rate, lora_rank=options.rank, seed=seed, objective=(
        name if name in LOSSES[: LOSSES.index("likelihood")] else TrainerOptions.objective
    ))  # fmt: skip
    trainer = trainer_for(name, drafter, pair.target, settings)
    random, started = torch.Generator().manual_seed(seed), time.monotonic()
    for _ in range(options.passes):
        order = torch.randperm(len(answers), generator=random).tolist()
        for at in range(0, len(order), 8):
            trainer.learn([answers[i] for i in order[at : at + 8]])
    seconds = round(time.monotonic() - started, 1)
    return drafter, {"steps": trainer.steps, "skipped": trainer.skipped, "seconds": seconds}


def rows_of(options: argparse.Namespace) -> Iterator[Row]:
    """The figures of the untrained drafter, and of each loss, number of answers and seed."""
    done = [] if options.out is None or not options.out.exists() else _lines(options.out)
    yield from done
    pair = CheckpointPair(options.target, options.drafter)
    tests = pair.prompts(unseen(options.unseen), options.tasks, MAX_PROMPT)
    recorded = pair.answered(tests, MAX_NEW_TOKENS, options.labels)
    if UNTRAINED not in {row["objective"] for row in done}:
        figures = pair.measured(pair.drafter, tests, recorded)
        yield _kept({"objective": UNTRAINED, "answers": 0, "seed": 0, **figures}, options.out)
    most = max(options.answers)
    prompts = pair.prompts(seen(TRAINING_PROMPTS), options.tasks, options.longest)[:most]
    answers = pair.aligned(prompts, pair.answered(prompts, options.tokens, options.labels))
    found = {(row["objective"], row["answers"], row["seed"]) for row in done}
    for count in options.answers:
        for seed in options.seeds:
            for name in options.objectives:
                if (name, count, seed) in found:
                    continue
                drafter, figures = trained(pair, answers[:count], name, seed, options)
                figures |= pair.measured(drafter, tests, recorded)
                yield _kept({"objective": name, "answers": count, "seed": seed, **figures}, options.out)


def _lines(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _kept(row: Row, file: Path | None) -> Row:
    if file is not None:
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
    return row


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Tokens a pass of each loss by number of answers."""
    counts = sorted({row["answers"] for row in rows if row["answers"]})
    titles = [f"{count} answers (seeds) | beside {USUAL}" for count in counts]
    yield f"| objective | {' | '.join(titles)} | acceptance | seconds a step |"
    yield "|---|" + "---|" * (2 * len(counts) + 2)
    for name in dict.fromkeys(row["objective"] for row in rows):
        own = [row for row in rows if row["objective"] == name]
        cells = []
        for count in counts:
            wanted = 0 if name == UNTRAINED else count
            found = {row["seed"]: row for row in own if row["answers"] == wanted}
            usual = {r["seed"]: r for r in rows if r["objective"] == USUAL and r["answers"] == count}
            each = [row["tokens_a_pass"] for row in found.values()]
            spread = f" ({', '.join(f'{x:.2f}' for x in each)})" if len(each) > 1 else ""
            cells.append(f"{np.mean(each):.3f}{spread}" if each else "")
            cells.append(beside(found, usual))
        acceptance = np.mean([row["acceptance"] for row in own])
        steps = sum(row.get("steps", 0) for row in own)
        cost = f"{sum(row['seconds'] for row in own if 'steps' in row) / steps:.2f}" if steps else ""
        yield f"| {name} | {' | '.join(cells)} | {acceptance:.3f} | {cost} |"


def beside(found: dict[int, Row], usual: dict[int, Row], draws: int = 2000) -> str:
    """The ratio of tokens a pass to those of the usual loss, over the seeds of both.

    The 95 % interval is by bootstrap over prompts; an untrained drafter stands beside every seed.
    """
    seeds = sorted(usual) if set(found) == {0} and not found[0]["answers"] else sorted({*found} & {*usual})
    if not seeds:
        return ""
    own = np.sum([found.get(seed, found[min(found)])["counts"] for seed in seeds], axis=0)  # [prompts, 2]
    other = np.sum([usual[seed]["counts"] for seed in seeds], axis=0)

    def ratio(at: Any) -> Any:
        (a, b), (c, d) = (x[at].sum(axis=-2).T for x in (own, other))
        return a / b / (c / d)

    drawn = np.random.default_rng(0).integers(len(own), size=(draws, len(own)))
    low, high = np.quantile(ratio(drawn), [0.025, 0.975])
    return f"{ratio(np.arange(len(own))):.2f} ({low:.2f}-{high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("target", help="a checkpoint directory or a GGUF file")
    parser.add_argument("drafter", help="a checkpoint directory")
    parser.add_argument("--objectives", nargs="+", choices=LOSSES, default=list(LOSSES), metavar="NAME")
    parser.add_argument("--answers", type=int, nargs="+", default=[240], help="to learn from")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of order and of added matrices")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK")
    parser.add_argument("--unseen", type=int, default=8, help="test prompts of each task")
    parser.add_argument("--tokens", type=int, default=64, help="of a training answer at most")
    parser.add_argument("--longest", type=int, default=MAX_PROMPT, help="tokens of a training prompt")
    parser.add_argument("--passes", type=int, default=1, help="over the answers")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--rank", type=int, help="train LoRA of this rank in place of every weight")
    parser.add_argument("--labels", type=Path, default=Path("labels"), help="folder that keeps the answers")
    parser.add_argument("--out", type=Path, help="lines of JSON; results that it has are not made again")
    options = parser.parse_args()
    require("tasks")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    rows = []
    for row in rows_of(options):
        rows.append(row)
        figures = f"{row['tokens_a_pass']:.3f} tokens a pass, acceptance {row['acceptance']:.3f}"
        print(f"{row['objective']}, {row['answers']} answers, seed {row['seed']}: {figures}", flush=True)
    print("\n".join(["", *table(rows)]))


if __name__ == "__main__":
    main()
