"""Result files: one JSON object an arm, with settings, seed, commit, seconds; done arms are not run again."""

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnidraft.runtime.disk.atomic_write import write_atomically

RESULTS = Path(__file__).parent / "results"
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Arm:
    """One thing to measure.

    Attributes:
        experiment: e1 to e7. name: of the arm within it, unique with the settings.
        settings: all that the outcome depends on, as plain values; `target`, `task` and `seed` among them
            where there are any.
        run: measures it, given the work directory.
    """

    experiment: str
    name: str
    settings: Mapping[str, Any]
    run: Callable[[Path], dict[str, Any]]

    @property
    def key(self) -> str:
        """The name of its file, which changes with its settings."""
        told = [str(self.settings[k]) for k in ("target", "task") if k in self.settings]
        seed = [f"seed{self.settings['seed']}"] if "seed" in self.settings else []
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:8]
        return "-".join([self.name, *told, *seed, digest])

    @property
    def file(self) -> Path:
        """Where its result lies."""
        return RESULTS / self.experiment / f"{self.key}.json"


def measure(arm: Arm, work: Path) -> None:
    """Run an arm and write its file; whoever kills this leaves no half file."""
    started = time.monotonic()
    result = arm.run(work)
    found = {
        "experiment": arm.experiment,
        "arm": arm.name,
        "settings": dict(arm.settings),
        "commit": _commit(),
        "seconds": round(time.monotonic() - started, 1),
        "result": result,
    }
    arm.file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1, sort_keys=True)
    write_atomically(arm.file, (_on_lines(text) + "\n").encode())


def read(experiment: str) -> list[dict[str, Any]]:
    """All results of an experiment."""
    return [json.loads(f.read_text("utf-8")) for f in sorted((RESULTS / experiment).glob("*.json"))]


def _on_lines(text: str) -> str:
    """Lists of numbers on a line of their own: a diff shows a list that changed."""
    lines, held = list[str](), ""
    for line in text.split("\n"):
        value = line.strip()
        if held:
            held += value + (" " if value.endswith(",") else "")
            if value.rstrip(",").endswith("]"):
                lines, held = [*lines, held.rstrip()], ""
        elif value.endswith("["):
            held = line
        else:
            lines.append(line)
    return "\n".join(lines)


def _commit() -> str:
    """Of the code that runs; "+" where the working tree differs from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(_ROOT), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "benchmarks/experiments/*.py")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+" if changed else "")
