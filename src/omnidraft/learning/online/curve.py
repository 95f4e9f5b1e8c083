"""The learning curve of an adaptation: a JSON line for each answer, in the order in which they were given."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from omnidraft.errors import SettingError
from omnidraft.runtime.disk.atomic_write import PRIVATE, write_atomically

Cost = tuple[int, int, float]  # draft tokens of a round, how many rounds had them, seconds of one
Event = Literal["learned", "skipped", "rolled back", "rested"]


@dataclass(frozen=True)
class CurveLine:
    """One answer.

    Attributes:
        answer: its number, from 1. prompt: the number of its prompt among those given, from 0.
        target: the profile that it belongs to.
        tokens, passes: emitted tokens, and the target passes that they took.
        drafted, accepted: draft tokens.
        seconds: of its rounds, without recording them (see `steady_seconds`).
        plain: seconds a token of plain decoding, median of the latest measurements; None before the first.
        cache: n-grams known after it. version: of the adapter that drafted, 0 for none.
        event: what came after it, where an interval ended: a step was learned, was not finite (skipped), the
            adapter was rolled back, or nothing was learned after a roll-back (rested).
        loss: of the last step that was learned.
        learning: seconds of that learning.
        first, costs: what `costs_of` says of its rounds; none in curves of earlier versions.
    """

    answer: int
    prompt: int
    target: str
    tokens: int
    passes: int
    drafted: int
    accepted: int
    seconds: float
    plain: float | None
    cache: int
    version: int
    event: Event | None = None
    loss: float | None = None
    learning: float = 0.0
    first: float = 0.0
    costs: tuple[Cost, ...] = ()

    @property
    def tokens_per_target_pass(self) -> float:
        """1 is plain decoding."""
        return self.tokens / self.passes

    @property
    def acceptance(self) -> float:
        """Share of draft tokens that were accepted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def speed_up(self) -> float | None:
        """Over plain decoding in the same process; None before that was measured."""
        return None if self.plain is None else self.plain * self.tokens / max(self.seconds, 1e-9)

    def as_json(self) -> dict[str, Any]:
        """With what is computed of it."""
        return {
            **asdict(self),
            "tokens_per_target_pass": self.tokens_per_target_pass,
            "acceptance": self.acceptance,
            "speed_up": self.speed_up,
            "rolled_back": self.event == "rolled back",
        }


class Curve:
    """The file of a curve, open for appending; a line is written at once and flushed with a checkpoint."""

    def __init__(self, path: Path, lines: int) -> None:
        """Go on after so many lines; what a killed run wrote beyond them is written again.

        Raises:
            SettingError: the file has fewer, or cannot be written.
        """
        self.path, kept = path, whole_lines(path)
        if len(kept) < lines:
            raise SettingError(
                f"{path} has {len(kept)} lines of {lines}", "restore it, or begin in another place"
            )
        try:
            write_atomically(path, b"".join(kept[:lines]))
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0), PRIVATE)
        except OSError as error:
            raise SettingError(f"{path} cannot be written ({error.strerror})", "give another place") from None

    def append(self, line: CurveLine) -> None:
        """One write; a kill leaves the line whole, absent, or cut and dropped by whoever goes on.

        Raises:
            SettingError: the disk is full.
        """
        data = json.dumps(line.as_json()).encode() + b"\n"
        try:
            done = os.write(self._handle, data)
        except OSError as error:
            raise SettingError(f"{self.path} cannot be written ({error.strerror})", "make room") from None
        if done < len(data):
            raise SettingError(f"{self.path} cannot be written (the disk is full)", "make room")

    def sync(self) -> None:
        """Flush to the disk."""
        os.fsync(self._handle)

    def close(self) -> None:
        """Let the file go."""
        os.close(self._handle)


def read_curve(path: Path) -> list[CurveLine]:
    """The lines of a curve's file; one that was cut short is left out.

    Raises:
        SettingError: a line is none of a curve.
    """
    names = CurveLine.__dataclass_fields__
    found = []
    for number, data in enumerate(whole_lines(path), 1):
        try:
            value = json.loads(data)
            known = {name: value[name] for name in names if name in value}
            known["costs"] = tuple((int(d), int(n), float(s)) for d, n, s in known.get("costs", ()))
            found.append(CurveLine(**known))
        except (ValueError, KeyError, TypeError):
            raise SettingError(f"line {number} of {path} is none of a learning curve", "restore it") from None
    return found


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a file with their ends; none where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingError(f"{path} cannot be read ({error.strerror})", "check its permissions") from None
    return [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


def mean(lines: Sequence[CurveLine]) -> dict[str, float | None]:
    """Tokens per target pass and acceptance, as ratios of sums; `curve_speed` has the speed."""
    return {
        "tokens_per_target_pass": _share(sum(x.tokens for x in lines), sum(x.passes for x in lines)),
        "acceptance": _share(sum(x.accepted for x in lines), sum(x.drafted for x in lines)),
    }


def costs_of(rounds: Sequence[tuple[int, float]]) -> tuple[float, tuple[Cost, ...]]:
    """The first round's seconds, and of the others by their draft tokens the lower quartile of seconds.

    So what else the machine does meanwhile shows little, and short rounds do not pass for long ones.

    Args:
        rounds: draft tokens and seconds of each, at least one.
    """
    (_, first), *others = rounds
    by_length = defaultdict[int, list[float]](list)
    for drafted, seconds in others:
        by_length[drafted].append(seconds)
    return first, tuple((d, len(s), float(np.quantile(s, 0.25))) for d, s in sorted(by_length.items()))


def steady_seconds(first: float, costs: Sequence[Cost]) -> float:
    """Seconds of an answer's rounds at the costs of `costs_of`."""
    return first + sum(count * seconds for _, count, seconds in costs)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
