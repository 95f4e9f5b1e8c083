"""Block against token-level verification: tokens per target pass, and host time of each.

    python -m benchmarks.block_verification [BUNDLE ...] [--prompts FILE] [--json]

For each bundle both verifications sample the same prompts with the same seeds; the gain is the geometric
mean of the prompts' ratios. Then the host work of a round is timed at a target vocabulary of 151,936, as in
benchmarks.host_overhead. Host times are CPU time of the thread, which other processes do not lengthen.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.host_overhead import TARGET_WIDTH, measure
from benchmarks.support.task_data import require
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.runtime.session.api import Session, Statistics, load
from omnidraft.runtime.session.modes import VERIFICATIONS, Verification
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.sample_prompts import PROMPTS

TEMPERATURES = (0.7, 1.0)
Line = dict[str, float | str]


def sampled(
    session: Session,
    prompts: Sequence[str],
    verification: Verification,
    temperature: float,
    *,
    seeds: int,
    drafted: int,
    tokens: int,
) -> tuple[Line, list[float]]:
    """Tokens per target pass: over all prompts and seeds with its standard error, and of each prompt."""
    each: list[Statistics] = []
    session.reset_cache()
    for prompt in prompts:
        statistics_of_prompt = Statistics()
        for seed in range(seeds):
            for piece in session.generate(
                prompt,
                max_new_tokens=tokens,
                temperature=temperature,
                seed=seed,
                num_draft_tokens=drafted,
                verification=verification,
                ignore_eos=True,
            ):
                if piece.round is not None:
                    statistics_of_prompt.add(piece.round)
        each.append(statistics_of_prompt)
    rounds = sum(s.rounds for s in each)
    mean = sum(s.emitted for s in each) / rounds
    errors = [s.emitted - mean * s.rounds for s in each]  # of a ratio of sums
    host = sum(s.seconds[part] for s in each for part in ("translate", "verify", "learn"))
    line: Line = {
        "verification": verification,
        "temperature": temperature,
        "tokens_per_target_pass": mean,
        "standard_error": math.sqrt(sum(e * e for e in errors)) / rounds,
        "host_ms_a_round": 1e3 * host / rounds,
        "verify_ms_a_round": 1e3 * sum(s.seconds["verify"] for s in each) / rounds,
        "rounds": rounds,
    }
    return line, [s.tokens_per_target_pass for s in each]


def of_bundle(path: Path, prompts: Sequence[str], *, seeds: int, drafted: int, tokens: int) -> list[Line]:
    """Both verifications on a bundle, at each temperature."""
    session = load(path, threads=1)
    session.models.clock = time.thread_time
    lines: list[Line] = []
    for t in TEMPERATURES:
        sets = [
            sampled(session, prompts, verification, t, seeds=seeds, drafted=drafted, tokens=tokens)
            for verification in VERIFICATIONS
        ]
        (token, by_token), (block, by_block) = sets
        gains = [math.log(y / x) for x, y in zip(by_token, by_block, strict=True)]
        block["gain"] = math.exp(statistics.mean(gains)) - 1.0
        block["gain_error"] = statistics.stdev(gains) / math.sqrt(len(gains))
        token["where"] = block["where"] = path.name
        lines += [token, block]
    return lines


def at_large_vocabularies() -> list[Line]:
    """Host work at 151,936 target tokens, with rows that always reject and rows that accept 7 of 10."""
    folder = require("tokenizers")
    drafter = LibraryTokenizer.from_file(folder / "llama2")
    target = LibraryTokenizer.from_file(folder / "qwen2")
    vocab_map = build_vocab_map(drafter, target, target_size=TARGET_WIDTH)
    lines: list[Line] = []
    for name, agreement in (("random", 0.0), ("agreeing", 0.7)):
        for verification in VERIFICATIONS:
            cost = measure(vocab_map, agreement, 1.0, True, verification, time.thread_time)
            lines.append(
                {
                    "where": f"{name} rows, {TARGET_WIDTH:,}",
                    "verification": verification,
                    "temperature": 1.0,
                    "tokens_per_target_pass": cost["emitted"],
                    "host_ms_a_round": cost["host"],
                    "verify_ms_a_round": cost["verify_and_rewind"],
                }
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundles", nargs="*", type=Path, metavar="BUNDLE", help="made by `omnidraft export`")
    parser.add_argument("--prompts", type=Path, help="a text file with a prompt on each line")
    parser.add_argument("--seeds", type=int, default=3, help="samples of each prompt")
    parser.add_argument("--tokens", type=int, default=64, help="output tokens of each sample")
    parser.add_argument("--drafted", type=int, default=4, help="draft tokens in each round")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    prompts = PROMPTS if options.prompts is None else options.prompts.read_text("utf-8").split("\n")
    prompts = [prompt for prompt in prompts if prompt.strip()]
    lines: list[Line] = []
    for path in options.bundles:
        lines += of_bundle(path, prompts, seeds=options.seeds, drafted=options.drafted, tokens=options.tokens)
    lines += at_large_vocabularies()
    if options.json:
        print(json.dumps(lines, indent=2))
        return
    print(f"{options.drafted} draft tokens a round, {len(prompts)} prompts x {options.seeds} seeds")
    print(f"{'':26}{'T':>5} {'by':8}{'tokens a pass':>18}{'verify ms':>12}{'host ms':>10}{'gain':>18}")
    for line in lines:
        error = f" +- {line['standard_error']:.3f}" if "standard_error" in line else ""
        figure = f"{line['tokens_per_target_pass']:.3f}{error}"
        gain = f"{line['gain']:+.1%} +- {line['gain_error']:.1%}" if "gain" in line else ""
        print(
            f"{line['where']:26}{line['temperature']:>5} {line['verification']:8}{figure:>18}"
            f"{line['verify_ms_a_round']:12.3f}{line['host_ms_a_round']:10.3f}{gain:>18}"
        )


if __name__ == "__main__":
    main()
