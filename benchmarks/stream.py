"""A user's stream of answers in one sitting: speed beside plain decoding over time, and memory.

    python -m benchmarks.stream BUNDLE [--answers 1000] [--tokens 48] [--temperature 0]

Four kinds of task follow one another, and the kind changes every 50 answers: questions of GSM8K, code (MBPP
and HumanEval), summaries of SciTLDR, stories that go on from Frankenstein. One session keeps what it learns.
Each prompt is answered plainly as well, before or after in turn. A line is 20 answers; the speed of a stretch
is that of all its tokens. Needs OMNIDRAFT_DATA, and an idle machine.
"""

import argparse
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from benchmarks.real_models import TOP_P, answer
from benchmarks.support.task_data import DATA, require, rows
from benchmarks.support.task_prompts import unseen
from omnidraft import GenerationConfig, load
from omnidraft.runtime.session.statistics import Statistics

BLOCK, LINE = 50, 20  # answers of one kind in a row; answers of a line
PASSAGE = 600  # characters of a story that goes on


def kinds(count: int) -> dict[str, list[str]]:
    """`count` prompts of each kind."""
    novel = (DATA / "text/frankenstein.txt").read_text(encoding="utf-8")
    passages = [novel[start : start + PASSAGE] for start in range(20_000, len(novel), PASSAGE)]
    code = [row["text"] for row in reversed(rows("mbpp/mbpp"))]
    tasks = unseen(count)
    mixed = list(chain.from_iterable(zip(tasks["HumanEval"], code, strict=False)))
    return {
        "questions": tasks["GSM8K"],
        "code": mixed[:count],
        "summaries": tasks["SciTLDR"],
        "stories": [f"Continue this story: {each}" for each in passages[:count]],
    }


def stream(answers: int) -> Iterator[tuple[str, str]]:
    """Kinds and prompts in the order in which they are asked."""
    of_kind = {kind: iter(texts) for kind, texts in kinds(-(-answers // 4)).items()}
    names = list(of_kind)
    for number in range(answers):
        kind = names[number // BLOCK % len(names)]
        yield kind, next(of_kind[kind])


def resident() -> int:
    """Megabytes of memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 // 1_000_000


def ratio(both: list[tuple[Statistics, Statistics]]) -> float:
    """Speed of the default over that of plain decoding, over all tokens."""
    plain, fast = (
        sum(each[i].total_seconds for each in both) / sum(each[i].emitted for each in both) for i in (0, 1)
    )
    return plain / fast


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--temperature", type=float, default=0.0)
    options = parser.parse_args()
    require("tasks")
    heat = options.temperature
    config = GenerationConfig(options.tokens, heat, top_p=TOP_P if heat else 1.0)
    asked = list(stream(options.answers))
    session = load(options.bundle, measure="never")
    session.measure(asked[0][1])
    found: list[tuple[Statistics, Statistics]] = []
    print("| answers | kind | speed | tokens a pass | drafted | copied | MB |\n|---|---|---|---|---|---|---|")
    for number, (_, text) in enumerate(asked):
        modes = ("plain", "trie") if number % 2 else ("trie", "plain")
        counts = {mode: answer(session, text, mode, config)[1] for mode in modes}  # type: ignore[arg-type]
        found.append((counts["plain"], counts["trie"]))
        if len(found) % LINE == 0:
            last = found[-LINE:]
            emitted, passes, drafted, copied = (
                sum(getattr(fast, name) for _, fast in last)
                for name in ("emitted", "rounds", "drafted", "accepted_copies")
            )
            kind = ", ".join(dict.fromkeys(kind for kind, _ in asked[number + 1 - LINE : number + 1]))
            figures = f"{ratio(last):.2f}x | {emitted / passes:.2f} | {drafted} | {copied} | {resident()}"
            print(f"| {len(found)} | {kind} | {figures} |", flush=True)
    windows = [ratio(found[i : i + LINE]) for i in range(len(found) - LINE + 1)]
    slower = sum(ratio([each]) < 1.0 for each in found)
    print(f"\nall: {ratio(found):.2f}x; slower than plain: {slower} of {len(found)} answers")
    print(f"slowest of all stretches of {LINE} answers: {min(windows, default=1.0):.2f}x")


if __name__ == "__main__":
    main()
