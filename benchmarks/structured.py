"""Speed of text in a grammar: extraction and tool calls, beside plain decoding in the same grammar.

    python -m benchmarks.structured BUNDLE [--prompts N] [--temperatures 0 0.7 1] [--any-spelling]

N prompts (default 8) of each task: a word problem of GSM8K whose numbers and people are to be extracted, and
an abstract of SciTLDR for which a tool is to be called. Each is answered plainly and by the default, in an
order that turns; the masks of both are warm. With `--any-spelling` fixed bytes may be written with any
tokens, as by a mask that knows no spelling, and are not proposed. Needs OMNIDRAFT_DATA, and an idle machine.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.support.task_data import require, rows
from omnidraft.commands.bench import BenchLine
from omnidraft.pair_verdict import speed_of
from omnidraft.runtime.session.api import GenerationConfig, TextSession, load
from omnidraft.runtime.session.modes import Mode
from omnidraft.runtime.session.statistics import Statistics

NUMBERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "people": {"type": "array", "items": {"type": "string", "maxLength": 16}, "maxItems": 3},
        "numbers": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": 9999},
            "maxItems": 6,
        },
        "operation": {"enum": ["addition", "subtraction", "multiplication", "division", "several"]},
        "unit": {"type": "string", "maxLength": 12},
    },
    "required": ["people", "numbers", "operation", "unit"],
}
CALL: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"const": "save_paper"},
        "arguments": {
            "type": "object",
            "properties": {
                "title": {"type": "string", "maxLength": 60},
                "field": {"enum": ["vision", "language", "reinforcement learning", "theory", "other"]},
                "keywords": {"items": {"type": "string", "maxLength": 20}, "minItems": 2, "maxItems": 4},
                "has_experiments": {"type": "boolean"},
            },
            "required": ["title", "field", "keywords", "has_experiments"],
        },
    },
    "required": ["name", "arguments"],
}  # fmt: skip
TOKENS = 160


def tasks(count: int) -> dict[str, tuple[list[str], Mapping[str, Any]]]:
    """Prompts and the schema of each task."""
    problems = [row["question"] for row in rows("gsm8k/test")[:count]]
    papers = [" ".join(row["source"])[:1200] for row in rows("scitldr/dev")[:count]]
    return {
        "extraction": ([f"Extract the facts as JSON: {text}" for text in problems], NUMBERS),
        "tool call": (
            [f"Call the tool save_paper with JSON for this paper: {text}" for text in papers],
            CALL,
        ),
    }


def answer(
    session: TextSession, text: str, schema: Mapping[str, Any], mode: Mode, config: GenerationConfig
) -> tuple[list[int], Statistics]:
    """The ids and the counts of an answer."""
    session.forget_context()
    done = session.generate(text, config, mode=mode, grammar=schema).finish()
    assert isinstance(done.parsed, dict)
    return done.token_ids, done.statistics


def measured(
    session: TextSession, texts: Sequence[str], schema: Mapping[str, Any], temperature: float
) -> list[BenchLine]:
    """The figures of each prompt."""
    lines = []
    for number, text in enumerate(texts):
        config = GenerationConfig(max_new_tokens=TOKENS, temperature=temperature, seed=number)
        modes: list[Mode] = ["plain", "trie"] if number % 2 else ["trie", "plain"]
        answers = {mode: answer(session, text, schema, mode, config) for mode in modes}
        (plain_ids, plain), (ids, counts) = answers["plain"], answers["trie"]
        slow, fast = (each.emitted / each.total_seconds for each in (plain, counts))
        lines.append(BenchLine(text, slow, fast, counts, ids == plain_ids))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.7, 1.0])
    parser.add_argument("--any-spelling", action="store_true")
    options = parser.parse_args()
    require("tasks")
    session = load(options.bundle, measure="never")
    if options.any_spelling:
        vars(session.target_tokenizer)["spell"] = lambda _: None
    session.measure("How many legs do 3 cats have?")
    chosen = tasks(options.prompts)
    for texts, schema in chosen.values():  # masks, graphs and tokenizers are warm
        measured(session, texts[:2], schema, 0.0)
    names = (
        "task",
        "T",
        "plain tok/s",
        "tokens an answer",
        "speed (95 %)",
        "tokens a pass",
        "fixed, copied",
        "drafted",
        "slower, worst",
    )
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)
    for temperature in options.temperatures:
        found = {
            task: measured(session, texts, schema, temperature) for task, (texts, schema) in chosen.items()
        }
        for task, lines in found.items():
            print(table_row(task, temperature, lines), flush=True)
        both = [line for lines in found.values() for line in lines]
        print(table_row("both", temperature, both), flush=True)


def table_row(task: str, temperature: float, lines: Sequence[BenchLine]) -> str:
    """A row of the table."""
    speed = speed_of([line.statistics for line in lines], [line.ratio for line in lines])
    plain = len(lines) / sum(1.0 / line.plain for line in lines)
    low, high = speed.interval
    length = sum(line.statistics.emitted for line in lines) / len(lines)
    slower = sum(line.ratio < 1.0 for line in lines)
    return (
        f"| {task} | {temperature:g} | {plain:.0f} | {length:.0f} | "
        f"{speed.ratio:.2f}x ({low:.2f}-{high:.2f}) | "
        f"{1.0 + speed.copies + speed.drafts:.2f} | +{speed.copies:.2f} | +{speed.drafts:.2f} | "
        f"{slower} of {len(lines)}, {min(line.ratio for line in lines):.2f}x |"
    )


if __name__ == "__main__":
    main()
