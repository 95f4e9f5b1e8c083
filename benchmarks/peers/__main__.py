"""The same pair, prompts and draft length in transformers, onnxruntime-genai and omnidraft.

    python -m benchmarks.peers [--prompts N] [--draws N] [--bundles DIR]
    python -m benchmarks.peers --speed          # times instead of counts, beside plain decoding
    python -m benchmarks.peers --table          # the tables of the results that are there

Both starter targets in fp32 with their drafter (fp32 in transformers, int8 in the bundle), untrained and
learned, on unseen prompts of four tasks. Counted are output tokens for each pass of the target, which
needs no clock; whether greedy text is that of plain decoding; and, at temperature 1, how far the first
two tokens are from the target's exact distribution. Each arm is a line of the results; an arm that has
one is not measured again.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.experiments.running.results import commit
from benchmarks.peers.arms import Arm, arms, plain_transformers
from benchmarks.peers.decoders import Answer, Decoder
from benchmarks.peers.distribution import distance, pairs
from benchmarks.peers.tables import tables
from benchmarks.starters import unseen
from benchmarks.support.task_data import require
from omnidraft.commands.starters import StarterPair, export_starters
from omnidraft.runtime.session.api import load

RESULTS = Path(__file__).resolve().parents[1] / "results" / "assisted.jsonl"
SPEEDS = RESULTS.with_name("assisted_speed.jsonl")
NEW_TOKENS = 96
DRAWN_TASKS = ("GSM8K", "MBPP")  # whose first prompts are drawn again and again
Prompts = dict[str, list[list[int]]]  # target ids by task
Key = tuple[str, str, float, bool]  # target, arm, temperature, whether the drafter has learned


def count(arm: Arm, prompts: Prompts, plain: dict[str, list[Answer]]) -> dict[str, Any]:
    """Tokens and passes of each prompt, and how many greedy texts are the plain decoder's."""
    decoder = arm.make()
    answers = {task: _answers(decoder, texts, arm.temperature) for task, texts in prompts.items()}
    counted: dict[str, Any] = {
        "emitted": {task: [len(a.tokens) for a in each] for task, each in answers.items()},
        "rounds": {task: [a.passes for a in each] for task, each in answers.items()},
    }
    if arm.temperature == 0.0:
        both = zip(_flat(answers), _flat(plain), strict=True)
        counted["same_text"] = sum(a.tokens == b.tokens for a, b in both)
    return counted


def _answers(decoder: Decoder, prompts: Sequence[list[int]], temperature: float) -> list[Answer]:
    return [decoder.generate(prompt, temperature, seed, NEW_TOKENS) for seed, prompt in enumerate(prompts)]


def _flat(answers: dict[str, list[Answer]]) -> list[Answer]:
    return [answer for each in answers.values() for answer in each]


def ratios(arm: Arm, prompts: Prompts) -> dict[str, list[float]]:
    """Tokens a second over those of the plain decoder right before and after, prompt by prompt."""
    decoder, plain = arm.make(), arm.plain()

    def speed(decoder: Decoder, prompt: list[int], seed: int) -> float:
        started = time.perf_counter()
        answer = decoder.generate(prompt, arm.temperature, seed, NEW_TOKENS)
        return len(answer.tokens) / (time.perf_counter() - started)

    def ratio(prompt: list[int], seed: int) -> float:
        before, fast, after = (speed(each, prompt, seed) for each in (plain, decoder, plain))
        return fast * (1 / before + 1 / after) / 2

    for seed, prompt in enumerate(next(iter(prompts.values()))[:2]):
        ratio(prompt, seed)  # warm up
    return {task: [ratio(p, seed) for seed, p in enumerate(each)] for task, each in prompts.items()}


def measure(pair: StarterPair, options: argparse.Namespace, done: list[Key]) -> Iterator[dict[str, Any]]:
    """A line for each arm that is not done."""
    encode = load(pair.untrained).encode
    prompts = {task: [encode(text) for text in texts] for task, texts in unseen(options.prompts).items()}
    target = plain_transformers(pair)
    drawn = [prompts[task][0] for task in DRAWN_TASKS]
    exact = [pairs(target, prompt, options.draws) for prompt in drawn]
    plain = dict[str, dict[str, list[Answer]]]()
    for arm in arms(pair):
        if (pair.name, arm.name, arm.temperature, arm.learned) in done:
            continue
        runtime = arm.name.split()[0]
        if runtime not in plain:
            decoder = arm.plain()
            plain[runtime] = {task: _answers(decoder, texts, 0.0) for task, texts in prompts.items()}
        started = time.monotonic()
        line: dict[str, Any] = {"target": pair.name, "arm": arm.name, "learned": arm.learned}
        line |= {"temperature": arm.temperature, "prompts": sum(map(len, prompts.values()))}
        if options.speed:
            line["ratios"] = ratios(arm, prompts)
        else:
            line |= count(arm, prompts, plain[runtime])
            if arm.temperature == 1.0:
                line |= {"draws": options.draws, **asdict(distance(arm.make(), drawn, exact, options.draws))}
        yield line | {"commit": commit(), "seconds": round(time.monotonic() - started, 1)}


def read(results: Path) -> list[dict[str, Any]]:
    """The lines of a file of results, if there is one."""
    text = results.read_text(encoding="utf-8") if results.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def key(line: dict[str, Any]) -> Key:
    """What tells arms apart."""
    return line["target"], line["arm"], line["temperature"], line["learned"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--prompts", type=int, default=8, help="prompts of each of the four tasks")
    parser.add_argument("--draws", type=int, default=300, help="texts drawn of a prompt at temperature 1")
    parser.add_argument("--bundles", type=Path, help="directory of exported starter pairs; it is kept")
    parser.add_argument("--results", type=Path, help="file to write")
    parser.add_argument("--speed", action="store_true", help="time the arms; takes an idle machine")
    parser.add_argument("--table", action="store_true", help="measure nothing and print the tables")
    options = parser.parse_args()
    options.results = options.results or (SPEEDS if options.speed else RESULTS)
    if not options.table:
        require("tasks")
        torch.set_num_threads(1)
        done = [key(line) for line in read(options.results)]
        with tempfile.TemporaryDirectory() as place, options.results.open("a", encoding="utf-8") as file:
            for pair in export_starters(options.bundles or Path(place), lambda *_: None):
                for line in measure(pair, options, done):
                    file.write(json.dumps(line) + "\n")
                    file.flush()
    print("\n".join(tables(read(options.results))))


if __name__ == "__main__":
    main()
