"""Replay rules of the draft length on recorded positions: tokens a second by measured costs.

    python -m benchmarks.draft_length [--old CHECKOUT] [--json]

Reads what `benchmarks.draft_length_record` wrote. An arm is a target, a drafter, a task and a
temperature; its prompts are one session. Speeds are over plain decoding. Costs are those of the recorded
machine in fp32 and int4, and those of a random target of 0.36B parameters in int4. A hostile drafter is
one of which nothing is accepted. With --old the rule of another checkout is replayed, too; there the
drafter reads before it drafts, which takes time, so that rule is also replayed with reading that is
hidden.
"""

import argparse
import importlib.util
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from benchmarks.draft_length_record import ROWS
from omnidraft.runtime.decoding.draft_length import FixedLength, MeasuredLength, Plan, RoundCounts
from omnidraft.runtime.decoding.length_state import Costs, LengthState

NEW_TOKENS = 96
FIXED = (1, 2, 3, 4, 6, 8)


@dataclass(frozen=True)
class ReplayCosts(Costs):
    """The costs of a round, and what reading costs where it is not hidden.

    Attributes:
        read: seconds of one token of a text that the drafter has not read.
    """

    read: float = 0.0


# Seconds of passes over 1 to 9 tokens, 24 layers of width 896 with random weights, int4, one thread.
LARGE = ReplayCosts(
    (0.0455, 0.0484, 0.0608, 0.0699, 0.0844, 0.0949, 0.1072, 0.1149, 0.1287), 0.00065, 0.0005, read=0.00005
)
Arm = tuple[str, str, str, float]  # target, drafter, task, temperature
Answer = dict[str, Any]


class Rule(Protocol):
    """Chooses plans from round to round, and texts."""

    def begin(self, prompt: int) -> None:
        """Begin a text after a prompt of this many tokens."""

    def next(self, match: int) -> Plan:
        """See `DraftLength.next`."""

    def record(self, counts: RoundCounts) -> None:
        """See `DraftLength.record`."""


class Auto:
    """The measured draft length, or one of its sources alone."""

    def __init__(self, costs: Costs, *, drafts: bool = True, copies: bool = True) -> None:
        self.state = LengthState()
        self.length = MeasuredLength(costs, self.state, drafts=drafts, copies=copies)
        self.next, self.record = self.length.next, self.length.record

    def begin(self, prompt: int) -> None:
        self.state.begin_text()


class Fixed:
    """A fixed number of draft tokens."""

    def __init__(self, count: int) -> None:
        length = FixedLength(count)
        self.next, self.record = length.next, length.record

    def begin(self, prompt: int) -> None:
        """Every text is alike."""


class Old:
    """The measured draft length of an older checkout, whose class is given."""

    def __init__(self, kind: Any, costs: Costs) -> None:
        self._kind, self._costs = kind, costs
        self._length: Any = None

    def begin(self, prompt: int) -> None:
        before, self._length = self._length, self._kind(self._costs, unread=prompt, limit=NEW_TOKENS)
        if before is not None:
            self._length.follow(before)

    def next(self, match: int) -> Plan:
        count = self._length.next()
        return Plan("draft", count) if count else Plan()

    def record(self, counts: RoundCounts) -> None:
        self._length.record(counts.drafted, counts.evaluated, counts.accepted, counts.emitted)


@dataclass
class Replay:
    """One session: seconds and tokens of a rule on some answers.

    Attributes:
        rule: chooses.
        costs: of a round.
        reads: whether reading takes time of its own before a draft.
        hostile: nothing that is drafted is accepted.
    """

    rule: Rule
    costs: ReplayCosts
    reads: bool = False
    hostile: bool = False
    seconds: float = 0.0
    tokens: int = 0

    def answer(self, answer: Answer) -> None:
        """Replay one answer."""
        positions, at, unread = answer["positions"], 0, answer["prompt"]
        self.rule.begin(unread)
        while at < len(positions):
            counts, seconds = self._round(positions[at], len(positions) - at - 1)
            if counts.drafted:
                seconds += unread * self.costs.read if self.reads else 0.0
                unread = 0
            unread += counts.emitted
            self.rule.record(counts)
            self.seconds += seconds
            at += counts.emitted
            self.tokens += counts.emitted

    def _round(self, position: list[Any], room: int) -> tuple[RoundCounts, float]:
        match, right, ends, refused = position
        match = match if room else 0
        plan = self.rule.next(match) if room else Plan()
        costs = self.costs
        if plan.source == "copy":
            count = min(plan.count, room)
            emitted = 1 + min(right, count)
            return RoundCounts(0, 0, 0, emitted, match, min(right, emitted)), costs.copy_seconds(count)
        if plan.source == "none":
            return RoundCounts(0, 0, 0, 1, match, min(right, 1)), costs.pass_seconds(1)
        ends, refused = ([], 1) if self.hostile else (ends[:room], refused)
        accepted = [end for end in ends if end <= plan.count]
        used = accepted[-1] if accepted else 0
        next_end = ends[len(accepted)] if len(accepted) < len(ends) else refused
        verified = next_end if len(accepted) == len(ends) and 0 < next_end <= plan.count else used
        proposed = min(room, len(accepted) + plan.count - used)
        emitted = 1 + len(accepted)
        seconds = costs.pass_seconds(proposed + 1) + plan.count * costs.draft + costs.host
        return RoundCounts(plan.count, verified, used, emitted, match, min(right, emitted)), seconds


def speed_up(
    make: Callable[[Costs], Rule], answers: list[Answer], costs: ReplayCosts, **settings: bool
) -> float:
    """Tokens a second over those of plain decoding."""
    replay = Replay(make(costs), costs, **settings)
    for answer in answers:
        replay.answer(answer)
    return replay.tokens / replay.seconds * costs.pass_seconds(1)


def old_rule(checkout: Path) -> Any:
    """The class `MeasuredLength` of another checkout."""
    folder = checkout / "src/omnidraft/runtime/decoding"
    name = "omnidraft.runtime.decoding.early_stop"
    kept = sys.modules.get(name)
    try:
        _load(name, folder / "early_stop.py")
        return _load("old_draft_length", folder / "draft_length.py").MeasuredLength
    finally:
        if kept is not None:
            sys.modules[name] = kept


def _load(name: str, file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def read(rows: Path) -> tuple[dict[str, ReplayCosts], dict[Arm, list[Answer]]]:
    """The costs by name, and the answers by arm."""
    costs, arms = dict[str, ReplayCosts](), defaultdict[Arm, list[Answer]](list)
    for line in rows.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "costs" in row:
            name = row.pop("costs")
            costs[name] = ReplayCosts(**{**row, "target": tuple(row["target"])})
        else:
            arms[row["target"], row["drafter"], row["task"], row["temperature"]].append(row)
    return costs, dict(arms)


def _fixed(count: int, costs: Costs) -> Rule:
    return Fixed(count)


def rules(old: Path | None) -> dict[str, tuple[Callable[[Costs], Rule], bool]]:
    """Each rule by name, and whether reading takes time in it."""
    made: dict[str, tuple[Callable[[Costs], Rule], bool]] = {
        "auto": (Auto, False),
        "auto, reading not hidden": (Auto, True),
        "drafter alone": (lambda costs: Auto(costs, copies=False), False),
        "copies alone": (lambda costs: Auto(costs, drafts=False), False),
        **{f"k = {k}": (partial(_fixed, k), False) for k in FIXED},
    }
    if old is not None:
        kind = old_rule(old)
        made["old auto"] = (lambda costs: Old(kind, costs), True)
        made["old auto, reading hidden"] = (lambda costs: Old(kind, costs), False)
    return made


def measure(rows: Path, old: Path | None) -> Iterator[dict[str, Any]]:
    """One line for each set of costs and rule: the speed-up of every arm, and with a hostile drafter."""
    recorded, arms = read(rows)
    for kind in ("fp32", "int4", "0.36B int4"):
        for name, (make, reads) in rules(old).items():
            speeds, hostile = dict[str, float](), list[float]()
            for arm, answers in arms.items():
                costs = replace(recorded.get(f"{arm[0]} {kind}", LARGE), acceptance=answers[0]["prior"])
                speeds["/".join(map(str, arm))] = round(speed_up(make, answers, costs, reads=reads), 4)
                hostile.append(speed_up(make, answers, costs, reads=reads, hostile=True))
            yield {"costs": kind, "rule": name, "hostile": round(mean(hostile), 4), "arms": speeds}


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def table(lines: list[dict[str, Any]]) -> Iterator[str]:
    """A table of all lines in Markdown."""
    groups = [f"{drafter}, T = {t}" for t in (0, 1) for drafter in ("untrained", "learned")]
    yield f"| costs | rule | {' | '.join(groups)} | worst arm | hostile | of best k |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for line in lines:
        arms, kind = line["arms"], line["costs"]
        fixed = [
            other["arms"] for other in lines if other["costs"] == kind and other["rule"].startswith("k =")
        ]
        of_best = [speed / max(1.0, *(each[arm] for each in fixed)) for arm, speed in arms.items()]
        speeds = [
            mean(
                [speed for arm, speed in arms.items() if f"/{drafter}/" in arm and arm.endswith(temperature)]
            )
            for temperature in ("0.0", "1.0")
            for drafter in ("untrained", "learned")
        ]
        cells = [f"{x:.2f}" for x in (*speeds, min(arms.values()), line["hostile"])]
        share = f"{mean(of_best):.2f} (worst {min(of_best):.2f})"
        yield f"| {kind} | {line['rule']} | {' | '.join(cells)} | {share} |"


def better(lines: list[dict[str, Any]]) -> Iterator[str]:
    """How auto compares, arm by arm, with the better of its sources alone and the best fixed length."""
    for kind in dict.fromkeys(line["costs"] for line in lines):
        by_rule = {line["rule"]: line["arms"] for line in lines if line["costs"] == kind}
        fixed = [f"k = {k}" for k in FIXED]
        yield f"{kind}: {compared(by_rule, ['drafter alone', 'copies alone'], 'the better of its sources')}"
        yield f"{kind}: {compared(by_rule, fixed, 'the best of plain decoding and the fixed lengths', 1.0)}"


def compared(by_rule: dict[str, dict[str, float]], others: list[str], name: str, least: float = 0.0) -> str:
    """Auto over the best of other rules: the mean over arms, and the two lowest."""
    ratios = sorted(
        (speed / max(least, *(by_rule[other][arm] for other in others)), arm)
        for arm, speed in by_rule["auto"].items()
    )
    low = ", ".join(f"{ratio:.3f} {arm}" for ratio, arm in ratios[:2])
    return f"auto over {name}: mean {mean([ratio for ratio, _ in ratios]):.3f}; lowest {low}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=Path, default=ROWS, help="file of `benchmarks.draft_length_record`")
    parser.add_argument("--old", type=Path, help="a checkout whose rule is replayed, too")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    options = parser.parse_args()
    lines = list(measure(options.rows, options.old))
    for line in map(json.dumps, lines) if options.json else (*table(lines), "", *better(lines)):
        print(line)


if __name__ == "__main__":
    main()
