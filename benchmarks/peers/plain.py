"""Plain decoding of this runtime beside onnxruntime-genai, on the same graph.

    python -m benchmarks.peers.plain BUNDLE... [--threads 1 2] [--prompts 12] [--tokens 64]
    python -m benchmarks.peers.plain --table

Prompt by prompt genai, this runtime and genai again decode the same tokens, each after a rest, because
genai's threads spin for some 30 ms after a text and would slow whatever runs next. A ratio is genai's mean
time of both runs over this runtime's, so above 1 this runtime is faster. The time to the first token is that
of a prompt of 500 tokens. The peak of memory is that of a process of its own that decodes one prompt; nine
such processes of each runtime, in turn, give a median, because equal processes differ by some MB. Both
runtimes have the same weights and kernels: genai reads the bundle's graph, with four nodes more. A bundle and
a number of threads are a line of the results; those that have a line are not measured again.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.progress import track

from benchmarks.peers.genai import INSTALLED, Genai, of_bundle
from benchmarks.peers.lines import RESULTS, Line, commit
from benchmarks.support.json_lines import append, read
from benchmarks.support.peak_memory import peak_of
from benchmarks.support.task_data import require
from benchmarks.support.task_prompts import unseen
from omnidraft.runtime.session.api import GenerationConfig, TextSession, load

PLAIN = GenerationConfig(mode="plain")
FILE = RESULTS / "peers_plain.jsonl"
WARM_UP = 2
LONG = 500  # tokens of the prompt whose first token is timed
RESAMPLES = 2000
PROCESSES = 9  # of each runtime, for the peak of memory
REST = 0.1  # seconds before a text
Timed = tuple[float, list[int]]  # seconds of a token, and the text


class Pair:
    """Both runtimes on a bundle."""

    def __init__(self, bundle: Path, folder: Path, threads: int) -> None:
        self.genai = Genai(of_bundle(bundle, folder, threads))
        self.ours: TextSession = load(bundle, threads=threads, drafter=False)

    def decode_genai(self, prompt: list[int], tokens: int) -> list[int]:
        return self.genai.generate(prompt, 0.0, 0, tokens).tokens

    def decode_ours(self, prompt: list[int], tokens: int) -> list[int]:
        return self.ours.generate(prompt, PLAIN, max_new_tokens=tokens).finish().token_ids

    def first_genai(self, prompt: list[int], _: int) -> list[int]:
        generator = self.genai.start(prompt, 0.0, 0, 1)
        generator.generate_next_token()
        return [int(token) for token in generator.get_next_tokens()]

    def first_ours(self, prompt: list[int], _: int) -> list[int]:
        return self.ours.generate(prompt, PLAIN, max_new_tokens=1).finish().token_ids


def timed(decode: Callable[[list[int], int], list[int]], prompt: list[int], tokens: int) -> Timed:
    """Seconds of one token, and the text."""
    time.sleep(REST)
    started = time.perf_counter()
    text = decode(prompt, tokens)
    return (time.perf_counter() - started) / len(text), text


def ratios(
    genai: Callable[[list[int], int], list[int]],
    ours: Callable[[list[int], int], list[int]],
    prompts: list[list[int]],
    tokens: int,
) -> tuple[list[float], int]:
    """genai's time over ours, prompt by prompt, and how many texts are the same."""
    values, same = list[float](), 0
    for number, prompt in enumerate([*prompts[:WARM_UP], *prompts]):
        before, own, after = (timed(each, prompt, tokens) for each in (genai, ours, genai))
        if number >= WARM_UP:
            values.append((before[0] + after[0]) / 2 / own[0])
            same += before[1] == own[1]
    return values, same


def with_interval(values: list[float]) -> tuple[float, float, float]:
    """The geometric mean, and its 95 % interval over prompts."""
    logs = np.log(values)
    means = np.exp(np.random.default_rng(0).choice(logs, (RESAMPLES, len(logs))).mean(axis=1))
    low, high = np.quantile(means, (0.025, 0.975))
    return float(np.exp(logs.mean())), float(low), float(high)


def peak(runtime: str, directory: Path, threads: int, tokens: int) -> int:
    """Bytes at the peak of a process that decodes one prompt."""
    return peak_of("benchmarks.peers.one_answer", runtime, str(directory), str(threads), str(tokens))[1]


def measure(bundle: Path, threads: int, count: int, tokens: int) -> Line:
    """All figures of a bundle at a number of threads."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "genai"
        pair = Pair(bundle, folder, threads)
        texts = [text for each in unseen(-(-count // 4)).values() for text in each][:count]
        prompts = [pair.ours.encode(text) for text in texts]
        long = [token for prompt in prompts for token in prompt]
        longs = [(long[at:] + long)[:LONG] for at in range(0, 4 * count, 4)]
        decoded, same = ratios(pair.decode_genai, pair.decode_ours, prompts, tokens)
        first, _ = ratios(pair.first_genai, pair.first_ours, longs, 1)
        runs = [
            [peak(name, path, threads, tokens) for name, path in (("ours", bundle), ("genai", folder))]
            for _ in range(PROCESSES)
        ]
    return {
        "bundle": bundle.name,
        "threads": threads,
        "prompts": count,
        "tokens": tokens,
        "speed": [round(each, 4) for each in with_interval(decoded)],
        "first_token": [round(each, 4) for each in with_interval(first)],
        "same_text": same,
        "peak_mb": [[round(each / 1e6, 1) for each in sorted(peaks)] for peaks in zip(*runs, strict=True)],
        "commit": commit(),
    }


def table(lines: Sequence[Line]) -> Iterator[str]:
    """The results in Markdown."""
    names = ["bundle", "threads", "speed", "first token", "peak MB, ours / genai", "same text", "commit"]
    yield f"| {' | '.join(names)} |\n{'|---' * len(names)}|"
    for line in lines:
        speed, first = (f"{m:.2f} ({a:.2f}-{b:.2f})" for m, a, b in (line["speed"], line["first_token"]))
        memory = (f"{peaks[len(peaks) // 2]:g} ({peaks[0]:g}-{peaks[-1]:g})" for peaks in line["peak_mb"])
        cells = [line["bundle"], str(line["threads"]), speed, first, " / ".join(memory)]
        cells += [f"{line['same_text']} of {line['prompts']}", line["commit"]]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundles", nargs="*", type=Path, metavar="BUNDLE")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--table", action="store_true", help="measure nothing and print the table")
    options = parser.parse_args()
    if not options.table:
        if not INSTALLED:
            raise SystemExit("onnxruntime-genai is not installed here; run make bench-peers")
        require("tasks")
        left = [(bundle, threads) for bundle in options.bundles for threads in options.threads]
        done = {(line["bundle"], line["threads"]) for line in read(FILE)}
        for bundle, threads in track([each for each in left if (each[0].name, each[1]) not in done]):
            append(FILE, measure(bundle, threads, options.prompts, options.tokens))
    print("\n".join(table(read(FILE))))


if __name__ == "__main__":
    main()
