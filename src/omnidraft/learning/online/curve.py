"""The learning curve of an adaptation: a file with one JSON line for each answer, in order."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from omnidraft.errors import SettingError, refusing
from omnidraft.runtime.disk.atomic_write import PRIVATE, write_atomically

Event = Literal["learned", "skipped", "rolled back", "rested"]


@dataclass(frozen=True)
class CurveLine:
    """One answer.

    Attributes:
        prompt: the index of its prompt in the list, from 0.
        seconds: of its rounds, without the time of recording them (see `steady_seconds`).
        plain: seconds per token of plain decoding, median of the latest measurements; None before the first.
        version: of the adapter that drafted, 0 for none.
        event: None inside an interval. At its end: the drafter learned; every step was not finite (skipped);
            the adapter was rolled back; or learning paused after a rollback (rested).
        loss: of the last step that was learned.
        learning: seconds of that learning.
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

    @property
    def tokens_per_target_pass(self) -> float:
        """Emitted tokens per target pass; 1 for plain decoding."""
        return self.tokens / self.passes

    @property
    def acceptance(self) -> float:
        """Share of draft tokens that were accepted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def speed_up(self) -> float | None:
        """Speed over plain decoding in the same process; None before plain decoding was measured."""
        return None if self.plain is None else self.plain * self.tokens / max(self.seconds, 1e-9)

    def as_json(self) -> dict[str, Any]:
        """The fields and the figures computed from them."""
        return {
            **asdict(self),
            "tokens_per_target_pass": self.tokens_per_target_pass,
            "acceptance": self.acceptance,
            "speed_up": self.speed_up,
        }


class Curve:
    """The file of a curve, open for appending. A line is written at once, and synced with a checkpoint."""

    def __init__(self, path: Path, lines: int) -> None:
        """Cut the file to a number of lines and go on after them; a killed run may have written more.

        Raises:
            SettingError: the file has fewer lines, or cannot be written.
        """
        self.path, kept = path, whole_lines(path)
        if len(kept) < lines:
            raise SettingError(
                f"{path} has {len(kept)} lines of {lines}", "restore it, or give another place to start over"
            )
        with refusing(SettingError, f"{path} cannot be written", "give another place"):
            write_atomically(path, b"".join(kept[:lines]))
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0), PRIVATE)

    def append(self, line: CurveLine) -> None:
        """Append a line with one write. After a kill the line is whole, absent, or cut; the next run drops a
        cut line.
        """
        data = json.dumps(line.as_json()).encode() + b"\n"
        with refusing(SettingError, f"{self.path} cannot be written", "make room"):
            written = os.write(self._handle, data)
        if written < len(data):
            raise SettingError(f"{self.path} cannot be written (the disk is full)", "make room")

    def sync(self) -> None:
        """Sync the file to the disk."""
        os.fsync(self._handle)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def read_curve(path: Path) -> list[CurveLine]:
    """The lines of a curve's file; a line that was cut is left out.

    Raises:
        SettingError: a line is not of a curve.
    """
    names = CurveLine.__dataclass_fields__
    lines = []
    for number, data in enumerate(whole_lines(path), 1):
        try:
            value = json.loads(data)
            lines.append(CurveLine(**{name: value[name] for name in names}))
        except (ValueError, KeyError, TypeError):
            raise SettingError(
                f"line {number} of {path} is not a line of a learning curve", "restore it"
            ) from None
    return lines


def whole_lines(path: Path) -> list[bytes]:
    """The complete lines of a file, each with its newline; empty if the file does not exist."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingError(f"{path} cannot be read ({error.strerror})", "check its permissions") from None
    return [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


def mean(lines: Sequence[CurveLine]) -> dict[str, float | None]:
    """Tokens per target pass and acceptance as ratios of sums; `curve_speed` computes the speed."""
    return {
        "tokens_per_target_pass": _share(sum(x.tokens for x in lines), sum(x.passes for x in lines)),
        "acceptance": _share(sum(x.accepted for x in lines), sum(x.drafted for x in lines)),
    }


def steady_seconds(rounds: Sequence[tuple[int, float]]) -> float:
    """Seconds of the rounds of an answer: the first, and the others at the lower quartile of their length.

    The quartile ignores most of what other processes cost, and grouping keeps short and long rounds apart.

    Args:
        rounds: draft tokens and seconds of each round; at least one.
    """
    (_, first), *others = rounds
    by_length = defaultdict[int, list[float]](list)
    for drafted, seconds in others:
        by_length[drafted].append(seconds)
    return first + sum(len(each) * float(np.quantile(each, 0.25)) for each in by_length.values())


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
