"""Whether a memory of a user's past texts, as one more source of copies, would make answers faster.

    python -m benchmarks.past_texts BUNDLE [--past 200] [--unseen 40] [--tokens 64] [--temperature 0]

Training questions of GSM8K are answered, and the questions and answers are kept in an index: after each run
of 2 to 4 tokens, the follower that came most often, and where it came last. Then each unseen question of
GSM8K and each MBPP task is answered plainly, by copies alone and by the default, both of them with and
without that index, in an order that is shuffled. The text itself is searched first; the index counts where
its match is longer. Needs OMNIDRAFT_DATA, and an idle machine.
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from benchmarks.real_models import TOP_P, answer
from benchmarks.support.task_data import require
from benchmarks.support.task_prompts import seen, unseen
from omnidraft.pair_verdict import geometric_mean
from omnidraft.runtime.decoding import prompt_lookup
from omnidraft.runtime.decoding.draft_length import MAX_DRAFT_TOKENS
from omnidraft.runtime.decoding.prompt_lookup import LONGEST, SHORTEST, PromptLookup
from omnidraft.runtime.decoding.proposer import Copy
from omnidraft.runtime.session import modes
from omnidraft.runtime.session.api import GenerationConfig, TextSession, load
from omnidraft.runtime.session.modes import Mode
from omnidraft.runtime.session.statistics import Statistics


class PastTexts:
    """An index over token sequences: what followed 2, 3 or 4 tokens most often."""

    def __init__(self) -> None:
        self._texts: list[list[int]] = []
        self._followers: dict[tuple[int, ...], dict[int, tuple[int, int, int]]] = {}

    def add(self, tokens: Sequence[int]) -> None:
        """Index one text."""
        number = len(self._texts)
        self._texts.append(list(tokens))
        for end in range(SHORTEST, len(tokens)):
            for n in range(SHORTEST, min(LONGEST, end) + 1):
                counts = self._followers.setdefault(tuple(tokens[end - n : end]), {})
                seen_before = counts.get(tokens[end], (0, 0, 0))[0]
                counts[tokens[end]] = seen_before + 1, number, end

    def find(self, tokens: Sequence[int], above: int) -> Copy | None:
        """The continuation after the longest suffix of more than `above` tokens, if it was seen."""
        for n in range(min(LONGEST, len(tokens)), max(above, SHORTEST - 1), -1):
            counts = self._followers.get(tuple(tokens[-n:]))
            if counts:
                _, number, start = max(counts.values())
                return Copy(self._texts[number][start : start + MAX_DRAFT_TOKENS], n)
        return None


class WithPast(PromptLookup):
    """Copies of the text itself, or of past texts where the match there is longer."""

    def __init__(self, past: PastTexts) -> None:
        super().__init__()
        self._past = past

    def find(self, tokens: Sequence[int]) -> Copy:
        own = super().find(tokens)
        return self._past.find(tokens, min(own.match, LONGEST)) or own


def use(past: PastTexts | None) -> None:
    """From now on, copies come from the text, and from `past` where it is given."""
    made = PromptLookup if past is None else lambda: WithPast(past)
    for module in (prompt_lookup, modes):
        vars(module)["PromptLookup"] = made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--past", type=int, default=200)
    parser.add_argument("--unseen", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.0)
    options = parser.parse_args()
    require("tasks")
    heat = options.temperature
    config = GenerationConfig(options.tokens, heat, top_p=TOP_P if heat else 1.0)
    session, past = load(options.bundle, measure="never"), PastTexts()
    asked = seen(options.past)["GSM8K"]
    costs = session.measure(asked[0])
    for text in asked:
        done = session.generate(text, config).finish()
        past.add([*done.prompt_ids, *done.token_ids])
    kinds: list[tuple[str, Mode, PastTexts | None]] = [
        ("plain", "plain", None),
        ("copies", "lookup", None),
        ("copies, past texts", "lookup", past),
        ("default", "trie", None),
        ("default, past texts", "trie", past),
    ]
    sessions: dict[str, TextSession] = {}  # of one loaded model; each has its own counts and n-grams
    for name, _, _ in kinds:
        sessions[name] = TextSession(session.loaded)
        sessions[name].text.costs = costs
    print("| task | arm | speed (95 %) | tokens a pass | copied | drafted |\n|---|---|---|---|---|---|")
    for task in ("GSM8K", "MBPP"):
        found: dict[str, list[Statistics]] = {name: [] for name, _, _ in kinds}
        for number, text in enumerate(unseen(options.unseen)[task]):
            turn = list(kinds)
            random.Random(number).shuffle(turn)
            for name, mode, source in turn:
                use(source)
                found[name].append(answer(sessions[name], text, mode, config)[1])
        plain = [each.total_seconds / each.emitted for each in found["plain"]]
        for name, counts in found.items():
            ratios = [one * c.emitted / c.total_seconds for one, c in zip(plain, counts, strict=True)]
            speed, (low, high) = geometric_mean(ratios)
            passes = sum(each.rounds for each in counts)
            emitted, accepted, copied = (
                sum(getattr(each, part) for each in counts)
                for part in ("emitted", "accepted", "accepted_copies")
            )
            print(
                f"| {task} | {name} | {speed:.2f}x ({low:.2f}-{high:.2f}) | {emitted / passes:.2f} | "
                f"+{copied / passes:.2f} | +{(accepted - copied) / passes:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
