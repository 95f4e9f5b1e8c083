"""Results on disk: one JSON-lines file an experiment, one arm a line; an arm in the file is not run again."""

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.support import json_lines
from omnidraft.errors import SettingError

RESULTS = Path(__file__).resolve().parents[1] / "results"
_ROOT = Path(__file__).resolve().parents[3]
_CODE = ("src", "benchmarks/*.py")  # that results depend on, in all subfolders
Result = dict[str, Any]  # a line: key, arm, settings, commit, seconds, result


@dataclass(frozen=True)
class Arm:
    """One measurement.

    Attributes:
        experiment: the experiment's name, which is its module's and its file's.
        name: the arm's name within the experiment; unique together with the settings.
        settings: everything that the outcome depends on, as plain values; `target`, `task` and `seed` among
            them where the arm has them.
        run: measures the arm, given the work directory.
    """

    experiment: str
    name: str
    settings: Mapping[str, Any]
    run: Callable[[Path], dict[str, Any]]

    @property
    def key(self) -> str:
        """The arm's key in its file; another setting gives another key."""
        parts = [str(self.settings[name]) for name in ("target", "task") if name in self.settings]
        seed = [f"seed{self.settings['seed']}"] if "seed" in self.settings else []
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:8]
        return "-".join([self.name, *parts, *seed, digest])


def run_arm(arm: Arm, work: Path) -> None:
    """Run an arm and append its result."""
    started = time.monotonic()
    result = arm.run(work)
    line = {
        "key": arm.key,
        "arm": arm.name,
        "settings": dict(arm.settings),
        "commit": commit(),
        "seconds": round(time.monotonic() - started, 1),
        "result": result,
    }
    append(arm.experiment, line)


def is_done(arm: Arm) -> bool:
    """Whether the file has a result of this arm."""
    return any(result["key"] == arm.key for result in read(arm.experiment))


def file_of(experiment: str) -> Path:
    """The file of an experiment's results."""
    return RESULTS / f"{experiment}.jsonl"


def append(experiment: str, result: Result) -> None:
    """Append a line, as `json_lines.append` does."""
    json_lines.append(file_of(experiment), result, sort_keys=True)


def read(experiment: str) -> list[Result]:
    """All results of an experiment, in the order of their keys.

    Raises:
        SettingError: a whole line is not a result.
    """
    file = file_of(experiment)
    results: dict[str, Result] = {}
    for number, line in enumerate(json_lines.whole_lines(file), 1):
        try:
            result = json.loads(line)
            results[result["key"]] = result
        except (ValueError, KeyError, TypeError):
            raise SettingError(
                f"line {number} of {file} is not a result", "delete the line and run the experiment again"
            ) from None
    return [results[key] for key in sorted(results)]


def commit() -> str:
    """The commit of the code that runs; with "+" where the working tree differs from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(_ROOT), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", *_CODE)
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+" if changed else "")
