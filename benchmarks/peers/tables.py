"""The tables of the results, in Markdown: counts and speeds of each target, and ratios to the peers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.peers.bootstrap import Counts, Interval, ratio, tokens_per_pass
from benchmarks.peers.lines import Line

RESAMPLES = 2000
RUNTIMES = ("transformers", "genai", "omnidraft")
DRAFTERS = ("none", "untrained", "learned", "same vocabulary")
GROUPS = {"text": ("GSM8K", "SciTLDR"), "code": ("MBPP", "HumanEval")}


@dataclass(frozen=True, order=True)
class ArmName:
    """What a row is of, in the order of rows."""

    temperature: float
    runtime: int
    drafter: int
    name: str

    @classmethod
    def of(cls, line: Line) -> "ArmName":
        """The arm of a line."""
        runtime = RUNTIMES.index(line["arm"].split()[0])
        return cls(line["temperature"], runtime, DRAFTERS.index(line["drafter"]), line["arm"])

    def cells(self) -> list[str]:
        """Arm, drafter and temperature."""
        return [self.name, DRAFTERS[self.drafter], f"{self.temperature:g}"]


def by_target(lines: Sequence[Line]) -> dict[str, dict[ArmName, list[Line]]]:
    """Lines by target and arm."""
    found = dict[str, dict[ArmName, list[Line]]]()
    for line in lines:
        found.setdefault(line["target"], {}).setdefault(ArmName.of(line), []).append(line)
    return {target: {arm: found[target][arm] for arm in sorted(found[target])} for target in sorted(found)}


def counts(lines: Sequence[Line], tasks: Sequence[str]) -> list[Counts]:
    """Tokens and passes of each seed that has all prompts of these tasks, in their order."""
    seeds = dict[int, dict[tuple[str, int], Line]]()
    for line in lines:
        if line["task"] in tasks:
            seeds.setdefault(line["seed"], {})[prompt_of(line)] = line
    prompts = sorted(set().union(*seeds.values()))
    whole = [seed for seed in seeds.values() if len(seed) == len(prompts)]
    names = {"emitted": "tokens", "rounds": "passes"}
    return [{to: [seed[p][of] for p in prompts] for to, of in names.items()} for seed in whole]


def prompt_of(line: Line) -> tuple[str, int]:
    """Task and number of a prompt."""
    return line["task"], line["prompt"]


def tasks_of(lines: Sequence[Line]) -> list[str]:
    """The tasks in their usual order."""
    present = {line["task"] for line in lines}
    return [task for task in ("GSM8K", "MBPP", "HumanEval", "SciTLDR") if task in present]


def count_tables(lines: Sequence[Line], distances: Sequence[Line]) -> Iterator[str]:
    """Tokens per target pass by task, whether greedy text is plain decoding's, and distances."""
    tasks, far = tasks_of(lines), {(each["target"], ArmName.of(each)): each for each in distances}
    for target, by_arm in by_target(lines).items():
        yield f"| {target} | drafter | T | {' | '.join(tasks)} | all | texts | plain text | distance |"
        yield "|---" * (7 + len(tasks)) + "|"
        for arm, of_arm in by_arm.items():
            if arm.name.endswith(" plain"):
                continue
            by_task = [pooled(of_arm, [task]) for task in tasks]
            cells = ["-" if each is None else f"{each.value:.2f}" for each in by_task]
            last = [str(pooled(of_arm, tasks) or "-"), str(len(of_arm))]
            last += [_same_text(of_arm, by_arm, arm), _distance(far.get((target, arm)))]
            yield f"| {' | '.join([*arm.cells(), *cells, *last])} |"
        yield ""


def pooled(lines: Sequence[Line], tasks: Sequence[str]) -> Interval | None:
    """Of seeds with all prompts; None where a task has no line yet."""
    if not {line["task"] for line in lines} >= set(tasks):
        return None
    found = counts(lines, tasks)
    return tokens_per_pass(found) if found else None


def _same_text(lines: Sequence[Line], by_arm: dict[ArmName, list[Line]], arm: ArmName) -> str:
    """How many greedy texts are those of the runtime's plain decoding."""
    name = f"{RUNTIMES[arm.runtime]} plain"
    plain = {prompt_of(each): each["text"] for of in by_arm.values() for each in of if each["arm"] == name}
    if arm.temperature or not plain:
        return ""
    return str(sum(plain.get(prompt_of(each)) == each["text"] for each in lines))


def _distance(line: Line | None) -> str:
    return "" if line is None else f"{line['drawn']:.3f} ({line['chance']:.3f})"


@dataclass(frozen=True)
class Goal:
    """A ratio of tokens per target pass of two arms on the same prompts, and what it should be."""

    title: str
    temperature: float
    arm: tuple[str, str]  # name and drafter
    reference: tuple[str, str]
    least: float


_OURS = "omnidraft kept cache, k = 4"
_UAG, _TLI = "transformers UAG, k = 4", "transformers TLI repaired, k = 4"
GOALS = (
    Goal("UAG, untrained", 0.0, (_OURS, "untrained"), (_UAG, "untrained"), 1.15),
    Goal("TLI repaired, untrained", 1.0, (_OURS, "untrained"), (_TLI, "untrained"), 1.15),
    Goal("UAG, learned", 0.0, (_OURS, "learned"), (_UAG, "learned"), 1.1),
    Goal("TLI repaired, learned", 1.0, (_OURS, "learned"), (_TLI, "learned"), 1.1),
    Goal("itself, untrained, when learned", 0.0, (_OURS, "learned"), (_OURS, "untrained"), 1.5),
    Goal("itself, untrained, when learned", 1.0, (_OURS, "learned"), (_OURS, "untrained"), 1.5),
)


def goal_table(lines: Sequence[Line]) -> Iterator[str]:
    """Ratios with 95 % intervals over prompts; a tick where the ratio reaches its goal."""
    targets = by_target(lines)
    yield f"| omnidraft over | T | goal | {' | '.join(f'{t}, {g}' for t in targets for g in GROUPS)} |"
    yield "|---" * (3 + len(GROUPS) * len(targets)) + "|"
    for goal in GOALS:
        cells = [_goal(by_arm, goal, tasks) for by_arm in targets.values() for tasks in GROUPS.values()]
        yield f"| {goal.title} | {goal.temperature:g} | {goal.least} | {' | '.join(cells)} |"
    yield ""


def _goal(by_arm: dict[ArmName, list[Line]], goal: Goal, tasks: Sequence[str]) -> str:
    both = [
        [line for arm, of in by_arm.items() if _is(arm, name, goal.temperature) for line in of]
        for name in (goal.arm, goal.reference)
    ]
    shared = set.intersection(*({prompt_of(line) for line in lines} for lines in both))
    ours, reference = (counts([each for each in lines if prompt_of(each) in shared], tasks) for lines in both)
    if not ours or not reference:
        return "-"
    found = ratio(ours, reference)
    return f"{found}{' ✓' if found.value >= goal.least else ''}"


def _is(arm: ArmName, name: tuple[str, str], temperature: float) -> bool:
    return (arm.name, DRAFTERS[arm.drafter], arm.temperature) == (*name, temperature)


def speed_tables(lines: Sequence[Line]) -> Iterator[str]:
    """Speeds over plain decoding of the same runtime, the reading of the prompt included."""
    tasks = tasks_of(lines)
    for target, by_arm in by_target(lines).items():
        yield f"| {target} | drafter | T | {' | '.join(tasks)} | all | plain, tokens a second |"
        yield "|---" * (5 + len(tasks)) + "|"
        for arm, of_arm in by_arm.items():
            if arm.name.endswith(" plain"):
                continue
            cells = [_speed([each for each in of_arm if each["task"] == task]) for task in tasks]
            plain = 1 / np.mean([each["plain_token_seconds"] for each in of_arm])
            cells += [_speed(of_arm, interval=True), f"{plain:.0f}"]
            yield f"| {' | '.join([*arm.cells(), *cells])} |"
        yield ""


def _speed(lines: Sequence[Line], *, interval: bool = False) -> str:
    if not lines:
        return "-"
    logs = np.log([speed_of(each) for each in lines])
    speed = f"{math.exp(logs.mean()):.2f}x"
    if not interval:
        return speed
    means = np.exp(np.random.default_rng(0).choice(logs, (RESAMPLES, len(logs))).mean(axis=1))
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{speed} ({low:.2f}-{high:.2f})"


def speed_of(line: Line) -> float:
    """Seconds that plain decoding takes for as many tokens over the arm's; reading ends with a token."""
    read, token = (np.mean(line[name]) for name in ("plain_read_seconds", "plain_token_seconds"))
    return float((read + (line["tokens"] - 1) * token) / (line["read_seconds"] + line["decode_seconds"]))
