"""Speed and tokens a pass of real models: unseen prompts of five tasks, plain decoding beside the default.

    python -m benchmarks.real_models BUNDLE ... [--prompts N] [--temperatures 0 0.7] [--json FILE]
        [--picture PNG]

N prompts of each task (default 8, at most 40): GSM8K test, MBPP after the row that training may read,
HumanEval, SciTLDR dev, and open chat and stories from the package's own lists. The bundles have the same
target and other names and drafters. Each prompt is answered plainly, plainly again, by copies alone, and by
the default of each bundle, in an order that is shuffled, at most 96 tokens; sampled texts have top-p 0.9.
*Plain again* is what the machine's noise does. *Limit* is the speed that the rounds would have if they took
only the passes and draft tokens that were timed before; *slower by limit* are the texts whose limit, with the
drafter's reading of the prompt, is below plain. *Drafting* is the share of the time in which copies were
looked for and drafts made. Needs OMNIDRAFT_DATA, and an idle machine.
"""

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.support.task_data import require
from benchmarks.support.task_prompts import unseen
from omnidraft.commands.bench import BenchLine
from omnidraft.commands.demo.show_demo import draw_bars
from omnidraft.mixed_prompts import CHAT, story_prompts
from omnidraft.pair_verdict import Speed, estimated_speed, seconds_of, speed_of
from omnidraft.runtime.decoding.draft_length import MOST_UNREAD, READ
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.session.api import GenerationConfig, TextSession, load
from omnidraft.runtime.session.modes import Mode
from omnidraft.runtime.session.statistics import Statistics

TOKENS = 96
PARTS = ("tokens a pass", "copies", "drafts", "drafting", "slower, worst", "slower by limit, worst")
TOP_P = 0.9  # of sampled texts
COPIES, AGAIN = "copies alone", "plain again"


def prompts(count: int) -> dict[str, list[str]]:
    """`count` prompts of each task."""
    open_chat = [text for pair in zip(CHAT, story_prompts(), strict=True) for text in pair]
    return {**unseen(count), "chat": open_chat[:count]}


def opened(bundles: Sequence[Path], first: str) -> dict[str, TextSession]:
    """A session of each bundle by its name, and one without a drafter, timed on this machine.

    All have the target passes that were timed first.
    """
    sessions = {bundle.name: load(bundle, measure="never") for bundle in bundles}
    sessions[COPIES] = load(bundles[0], measure="never", drafter=False)
    targets = {(s.bundle.target.fingerprint, s.bundle.target.quantization) for s in sessions.values()}
    assert len(targets) == 1, f"the bundles have {len(targets)} different targets"
    passes = next(iter(sessions.values())).measure(first).target
    for name, session in sessions.items():
        session.text.costs = costs = replace(session.measure(first), target=passes)
        told = ", ".join(f"{1e3 * seconds:.1f}" for seconds in (*passes[:5], costs.draft, costs.host))
        print(f"{name}: 1 to 5 tokens, a draft token, host work: {told} ms")
    return sessions


def answer(
    session: TextSession, text: str, mode: Mode, config: GenerationConfig
) -> tuple[list[int], Statistics]:
    """The ids and the counts of an answer."""
    session.forget_context()
    done = session.generate(text, config, mode=mode).finish()
    return done.token_ids, done.statistics


def measured(
    sessions: Mapping[str, TextSession], texts: Sequence[str], temperature: float, tokens: int
) -> Iterator[dict[str, BenchLine]]:
    """The figures of each prompt by bundle; a session's cache learns from text to text as a user's does."""
    plain_of = next(iter(sessions.values()))
    # Without a seed, as users sample: with one, each text would begin with a new draft length.
    config = GenerationConfig(
        max_new_tokens=tokens, temperature=temperature, top_p=TOP_P if temperature else 1.0
    )
    for number, text in enumerate(texts):
        arms: list[tuple[str, TextSession, Mode]] = [("", plain_of, "plain")]
        arms += [(name, session, "trie") for name, session in sessions.items()]
        arms += [(AGAIN, plain_of, "plain")]
        random.Random(number).shuffle(arms)
        answers = {name: answer(s, text, mode, config) for name, s, mode in arms}
        ids, counts = answers.pop("")
        plain = counts.emitted / counts.total_seconds
        yield {
            name: BenchLine(text, plain, c.emitted / c.total_seconds, c, ids == other)
            for name, (other, c) in answers.items()
        }


def row(name: str, bundle: str, lines: Sequence[BenchLine], costs: Costs) -> str:
    """A line of the table."""
    counts = [line.statistics for line in lines]
    speed = speed_of(counts, [line.ratio for line in lines])
    plain = len(lines) / sum(1.0 / line.plain for line in lines)
    low, high = speed.interval
    limit = estimated_speed(counts, costs).ratio
    limits = [limit_with_reading(each, costs) for each in counts]
    passes = 1.0 + speed.copies + speed.drafts
    slower = sum(line.ratio < 1.0 for line in lines)
    drafting = sum(each.seconds["draft"] for each in counts) / sum(each.total_seconds for each in counts)
    figures = f"{speed.ratio:.2f}x ({low:.2f}-{high:.2f}) | {limit:.2f}x"
    return (
        f"| {name} | {bundle} | {plain:.0f} | {figures} | {passes:.2f} | "
        f"+{speed.copies:.2f} | +{speed.drafts:.2f} | {drafting:.1%} | {slower} of {len(lines)}, "
        f"{min(line.ratio for line in lines):.2f}x | "
        f"{sum(each < 1.0 for each in limits)} of {len(lines)}, {min(limits):.2f}x |"
    )


def limit_with_reading(counts: Statistics, costs: Costs) -> float:
    """The limit of a text, where a drafter that drafted has read `MOST_UNREAD` tokens of the prompt first."""
    drafted = any(length and n for length, n in counts.lengths.items())
    reading = MOST_UNREAD * READ * costs.draft if drafted else 0.0
    return counts.emitted * costs.round_seconds(0) / (seconds_of(counts, costs) + reading)


Row = tuple[str, list[tuple[str, Speed]]]  # task, bundle and its speed: a bar of the picture


def bar(name: str, bundle: str, lines: Sequence[BenchLine]) -> Row:
    """The bar of a row of the table."""
    speed = speed_of([line.statistics for line in lines], [line.ratio for line in lines])
    return name, [(bundle, speed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.7])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path, help="PNG of the first temperature")
    options = parser.parse_args()
    require("tasks")
    tasks = prompts(options.prompts)
    sessions = opened(options.bundles, tasks["chat"][0])
    costs = {name: session.costs for name, session in sessions.items()}
    costs[AGAIN] = costs[options.bundles[0].name]
    found: list[dict[str, Any]] = []
    bars: list[Row] = []
    for temperature in options.temperatures:
        print(f"\nT = {temperature:g}, at most {options.tokens} tokens\n")
        names = ("task", "bundle", "plain tok/s", "speed (95 %)", "limit", *PARTS)
        print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)
        every: dict[str, list[BenchLine]] = {name: [] for name in costs}
        first = temperature == options.temperatures[0]
        for task, texts in tasks.items():
            lines = list(measured(sessions, texts, temperature, options.tokens))
            for name in every:
                own = [line[name] for line in lines]
                every[name] += own
                print(row(task, name, own, costs[name]), flush=True)
                bars += [bar(task, name, own)] * (first and name != AGAIN)
                found += [
                    {"task": task, "bundle": name, "temperature": temperature, "ratio": line.ratio,
                     "plain": line.plain, "same": line.same_text,
                     "tokens_per_target_pass": line.statistics.tokens_per_target_pass,
                     "accepted": line.statistics.accepted, "copies": line.statistics.accepted_copies}
                    for line in own
                ]  # fmt: skip
        for name, own in every.items():
            print(row("all", name, own, costs[name]), flush=True)
            bars += [bar("all", name, own)] * (first and name != AGAIN)
    if options.picture:
        draw_bars(bars, "the target", options.picture)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
