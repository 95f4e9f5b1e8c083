"""What the next round proposes: spec/07-draft-length.md."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from vectorlib.reference.random_source import TooClose

Defaults = dict[str, Any]
Option = tuple[str, int, float]  # source, count, expected tokens a second


@dataclass(frozen=True)
class Plan:
    """What a round proposes.

    Attributes:
        chances, worth, least: of a draft that ends by its confidence; see the chapter.
    """

    source: str
    count: int
    fresh: bool = False
    chances: Sequence[float] = ()
    worth: Sequence[float] = ()
    least: Sequence[float] = ()

    def row(self) -> list[Any]:
        """As the vectors have it."""
        return [self.source, self.count, self.fresh]

    def proposes(self, classes: Sequence[int]) -> bool:
        """Whether the last of the tokens of these classes is proposed."""
        return not self.worth or self._reaches(classes, self.worth[len(classes) - 1])

    def goes_on(self, classes: Sequence[int]) -> bool:
        """Whether a draft goes on after tokens of these classes."""
        if len(classes) >= self.count or not self.chances:
            return len(classes) < self.count
        return self._reaches(classes, self.least[len(classes) - 1])

    def _reaches(self, classes: Sequence[int], least: float) -> bool:
        reach = prod(self.chances[each] for each in classes)
        if abs(reach - least) < 1e-9 * least:
            raise TooClose(f"a draft that is right with {reach}")
        return reach >= least


def class_of(confidence: float, defaults: Defaults) -> int:
    """The class of a draft token's confidence."""
    if any(abs(confidence - least) < 1e-5 for least in defaults["confidences"]):
        raise TooClose(f"a confidence of {confidence}")
    return sum(least <= confidence for least in defaults["confidences"])


def _is_less(a: float, b: float) -> bool:
    if abs(a - b) < 1e-9 * b:
        raise TooClose(f"{a} and {b}")
    return a < b


def _fastest(options: Sequence[Option]) -> Option:
    """The first of the fastest options."""
    speeds = sorted(speed for _, _, speed in options)
    if len(speeds) > 1 and 0 < speeds[-1] - speeds[-2] < 1e-9 * speeds[-1]:
        raise TooClose(f"speeds {speeds}")
    return max(options, key=lambda option: option[2])


@dataclass(frozen=True)
class Costs:
    """The costs of a round in seconds, and the acceptance that was measured at export.

    Attributes:
        target: of a target pass over 1, 2, ... tokens.
        draft: of a draft token.
        host: of a round's own work.
        acceptance: share of the evaluated draft tokens that were accepted.
    """

    target: tuple[float, ...]
    draft: float
    host: float
    acceptance: float = 0.6

    def of_pass(self, n: int) -> float:
        """Seconds of a target pass over n tokens; beyond the measured, by their mean slope, at least 0."""
        last = len(self.target)
        slope = max(0.0, (self.target[-1] - self.target[0]) / (last - 1)) if last > 1 else 0.0
        return self.target[min(n, last) - 1] + slope * max(0, n - last)

    def of_round(self, k: int) -> float:
        """Seconds of a round with k draft tokens."""
        return self.of_pass(k + 1) + (k * self.draft + self.host if k else 0.0)


@dataclass(frozen=True)
class Record:
    """The counts of a round."""

    match: int
    classes: list[int]
    evaluated: int
    accepted: int
    emitted: int
    agreed: int


@dataclass
class Counter:
    """Trials and successes that fade."""

    trials: float = 0.0
    successes: float = 0.0

    def fade(self, factor: float) -> None:
        self.trials, self.successes = self.trials * factor, self.successes * factor

    def add(self, success: bool, decay: float) -> None:
        self.fade(decay)
        self.trials, self.successes = self.trials + 1, self.successes + success


class DraftLength:
    """The measured draft length."""

    def __init__(self, costs: Costs, defaults: Defaults, *, drafts: bool = True, copies: bool = True) -> None:
        self.costs, self.d, self.drafts, self.copies = costs, defaults, drafts, copies
        self.longest = int(defaults["longest"])
        self.classes = [Counter() for _ in defaults["chances"]]
        self.seen = [0.0 for _ in defaults["chances"]]
        matches = range(int(defaults["shortest_match"]), int(defaults["longest_match"]) + 1)
        self.matches = {length: Counter() for length in matches}
        self.drafted = self.given = 0.0
        self.idle, self.unread, self.written, self.share = 0, 0, 0, defaults["first_share"]
        self.repaid = float(defaults["repaid"])

    def begin_text(self, length: int, shared: int = 0) -> None:
        """Probe again; length: of the drafter's context."""
        self.unread, self.written = min(length, self.unread + length - shared), 0
        self.share = min(self.d["first_share"], 2 * self.share)

    def next(self, match: int) -> Plan:
        """The plan of the next round."""
        source, count, speed = _fastest(self._others(match))
        if not self.drafts:
            return Plan(source, count)
        drafting, plan = self._draft(speed)
        if abs(drafting - speed) < 1e-9 * speed:
            raise TooClose(f"speeds {drafting} and {speed}")
        if self._is_paid and drafting > speed:
            self.idle, self.share = 0, self.d["first_share"]
            return plan
        if self._is_paid and self._due(1 / speed):
            self.idle, self.share = 0, max(self.share / 2, self.d["last_share"])
            return replace(plan, count=self._probe, worth=(), least=())
        self.idle += 1
        return Plan(source, count)

    def record(self, r: Record) -> None:
        """Learn from a round."""
        decay = self.d["decay"]
        self.unread = 0 if r.classes else self.unread + r.emitted
        self.written += r.emitted
        if not r.classes:
            self.seen = [count * self.d["plain_decay"] for count in self.seen]
            for counter in self.classes:
                counter.fade(self.d["plain_decay"])
        else:
            for each in r.classes:
                self.seen = [count * self.d["seen_decay"] for count in self.seen]
                self.seen[each] += 1
            for j, each in enumerate(r.classes[: min(r.evaluated, r.accepted + 1)]):
                for counter in self.classes:
                    counter.fade(self.d["seen_decay"])
                self.classes[each].add(j < r.accepted, 1.0)
            self.drafted = decay * self.drafted + r.accepted
            self.given = decay * self.given + r.emitted - 1
        if r.match:
            for j in range(min(r.emitted, r.agreed + 1, self.longest)):
                self.matches[min(r.match + j, max(self.matches))].add(j < r.agreed, decay)

    def state(self) -> dict[str, Any]:
        """All that it learned, as a session file names it."""
        return {
            "seen": list(self.seen),
            "evaluated": [c.trials for c in self.classes], "accepted": [c.successes for c in self.classes],
            "drafts": self.drafted, "targets": self.given,
            "compared": [c.trials for c in self.matches.values()],
            "agreed": [c.successes for c in self.matches.values()],
            "idle": self.idle, "unread": self.unread, "written": self.written, "share": self.share,
        }  # fmt: skip

    def chances(self) -> list[float]:
        """Of a draft token by the class of its confidence."""
        scale = min(1.0, self.costs.acceptance / self.d["prior_acceptance"])
        return [
            self._share(scale * chance, counter)
            for chance, counter in zip(self.d["chances"], self.classes, strict=True)
        ]

    def ratio(self) -> float:
        """Target tokens for each accepted draft token."""
        prior: float = self.d["prior_rounds"]
        return min(1.5, (self.given + prior) / (self.drafted + prior))

    @property
    def _probe(self) -> int:
        return int(self.d["probe"])

    @property
    def _reading(self) -> float:
        """Seconds that the drafter needs for what it has not read."""
        read: float = self.d["read"]
        return min(self.unread, int(self.d["most_unread"])) * read * self.costs.draft

    @property
    def _is_paid(self) -> bool:
        """Whether the text took as long as the drafter has to read."""
        saved: float = self.written * self.costs.target[0]
        if self._reading and abs(saved - self._reading) < 1e-9 * self._reading:
            raise TooClose(f"a text of {saved} s")
        return saved >= self._reading

    def _due(self, seconds_a_token: float) -> bool:
        cost = self.costs.of_round(self._probe) + self._reading - seconds_a_token
        saved: float = self.share * self.idle * self.costs.target[0]
        if abs(saved - cost) < 1e-9 * cost:
            raise TooClose(f"a probe of {cost} s")
        return saved >= cost

    def _draft(self, other: float) -> tuple[float, Plan]:
        """The expected speed of a draft, and its plan; other: speed of what needs no drafter."""
        chances, costs = self.chances(), self.costs
        unseen, ratio = self._weight(sum(self.seen)) / len(chances), self.ratio()
        shares = [(count + unseen) / (sum(self.seen) + unseen * len(chances)) for count in self.seen]
        each_class = list(zip(shares, chances, strict=True))
        gain = ratio * sum(share * chance for share, chance in each_class)
        tokens, seconds = 1 + gain, costs.of_round(1) + self._reading / self.repaid
        more = [costs.of_round(k + 1) - costs.of_round(k) for k in range(self.longest)]
        verified = [each - costs.draft for each in more]
        least = max(other, tokens / seconds) * verified[0]
        for share, chance in each_class:
            if _is_less(ratio * chance, least):
                tokens, seconds = tokens - share * ratio * chance, seconds - share * verified[0]
        least = max(other, tokens / seconds) * more[1]
        for share, chance in each_class:
            if not _is_less(chance * gain, least):
                tokens, seconds = tokens + share * chance * gain, seconds + share * more[1]
        speed, fresh = tokens / seconds, self.unread > self.d["most_unread"]
        worth = [speed * each / ratio for each in verified]
        limits = [speed * each / max(gain, 1e-9) for each in more[1:]]
        return speed, Plan("draft", self.longest, fresh, chances, worth, limits)

    def _others(self, match: int) -> list[Option]:
        """Nothing, and the copies that the round may take."""
        options: list[Option] = [("none", 0, 1 / self.costs.of_pass(1))]
        for k in range(1, self.longest + 1):
            if self.copies and match:
                shares = self._shares(self.d["copy_acceptance"], list(self.matches.values()))
                by_match = dict(zip(self.matches, shares, strict=True))
                chances = [by_match[min(match + i, max(by_match))] for i in range(k)]
                tokens = 1 + sum(prod(chances[: i + 1]) for i in range(k))
                options.append(("copy", k, tokens / (self.costs.of_pass(k + 1) + self.costs.host)))
        return options

    def _shares(self, assumed: float, counters: Sequence[Counter]) -> list[float]:
        """Share of successes of each counter; it is what is assumed of the next counter."""
        shares = list[float]()
        for counter in counters:
            assumed = self._share(assumed, counter)
            shares.append(assumed)
        return shares

    def _share(self, assumed: float, counter: Counter) -> float:
        weight = self._weight(counter.trials)
        return (counter.successes + weight * assumed) / (counter.trials + weight)

    def _weight(self, trials: float) -> float:
        """Of what is assumed."""
        prior: float = self.d["prior_rounds"]
        return prior / (1 + trials / prior)
