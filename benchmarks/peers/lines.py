"""Lines of results: one for each answer of an arm; a newer line takes the place of an older one."""

import hashlib
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.support import json_lines
from benchmarks.support.starter_pairs import StarterPair
from omnidraft.commands.starters import starter

_ROOT = Path(__file__).resolve().parents[2]
RESULTS = _ROOT / ".cache/peers/results"
COUNTS, SPEEDS, DISTANCES = "peers.jsonl", "peers_speed.jsonl", "peers_distance.jsonl"  # in that folder
Line = dict[str, Any]
Key = tuple[Any, ...]
# What tells lines apart: a newer line with the same values takes the place of an older one. "weights" is not
# among them, so that the lines of a new drafter take the place of those of the old one.
KEY = ("target", "arm", "drafter", "temperature", "task", "prompt", "seed")


def key(line: Line) -> Key:
    """What the line measures."""
    return tuple(line.get(name) for name in KEY)


def read(file: Path) -> list[Line]:
    """The newest line of each key, in the order in which the keys came first; a half line is left out."""
    return list({key(line): line for line in json_lines.read(file)}.values())


def tidy(file: Path) -> None:
    """Write only the newest line of each key, sorted: the file then differs little from run to run."""
    if not file.exists():
        return
    lines = sorted(read(file), key=lambda line: [str(each).rjust(4) for each in key(line)])
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def weights_of(pair: StarterPair, drafter: str) -> str:
    """A digest of the files that an arm's drafter and target come from.

    Args:
        pair: of the target.
        drafter: untrained, learned, or the name of another source, which needs the target alone.
    """
    files = [starter(pair.name[-1]) / "model.safetensors"]
    if drafter in ("untrained", "learned"):
        files.append(starter("drafter") / "model.safetensors")
    if drafter == "learned":
        files += sorted(pair.cache.parent.iterdir())
    return digest(files)


def digest(files: Iterable[Path]) -> str:
    """Eight digits of the SHA-256 of files."""
    both = hashlib.sha256()
    for file in files:
        both.update(hashlib.sha256(file.read_bytes()).digest())
    return both.hexdigest()[:8]


def commit() -> str:
    """The commit of the code that runs; with "+" where the working tree differs from it."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(_ROOT), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "benchmarks")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+" if changed else "")
