"""What was learned of each target, in a directory of its own: checkpoint, adapter, cache and answers.

`PLACE/<first 12 digits of the target's fingerprint>/` holds

- `checkpoint.safetensors`: all that going on needs, in one file, so that it is never half a state;
- `adapter.safetensors` and `cache.odc`: copies of what sessions use, written after it;
- `answers/trace-N.odt`: the answers that are learned from again, each written once (spec/trace.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from omnidraft.errors import SettingError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.disk.atomic_write import remove_leftovers, write_atomically
from omnidraft.runtime.traces.trace_reader import name_of, number_of, segments_of

FORMAT, VERSION = "omnidraft.adaptation", "1"
CHECKPOINT, ADAPTER, CACHE, ANSWERS = "checkpoint.safetensors", "adapter.safetensors", "cache.odc", "answers"
Arrays = dict[str, npt.NDArray[np.generic]]
Settings = Mapping[str, str | int | float | bool | None]  # as JSON has them
_LEARNER, _GOOD, _CACHE = "learner/", "good/", "cache"


@dataclass
class Progress:
    """Where an adaptation is; JSON numbers and lists all.

    Attributes:
        prompts: digest of the prompts that are worked through. position: how many of them are done.
        answered: prompts of all targets and runs so far: lines of the curve.
        version: of the adapter in use, counted by learning; 0 is none. good: the last that was found good.
        learned: versions so far, those that were rolled back among them.
        falls: rolled back in a row. rest: intervals that are left without learning.
        slow: what the learning rate is multiplied with.
        memory, pending: numbers of the answers to learn from again, and of those not learned from yet.
        guard: see `Guard.state`.
        plain: seconds a token of plain decoding, the latest measurements.
    """

    prompts: str = ""
    position: int = 0
    answered: int = 0
    version: int = 0
    good: int = 0
    learned: int = 0
    falls: int = 0
    rest: int = 0
    slow: float = 1.0
    memory: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    guard: dict[str, Any] = field(default_factory=lambda: {"reference": [], "current": []})
    plain: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class LearningCheckpoint:
    """A state between two answers.

    Attributes:
        pair: what it was learned on (see `pair_of`). progress: counts.
        learner: its state. good: its state at the last adapter that was found good.
        cache: the bytes of the n-gram cache.
        settings: how answers are given and learned from, by name; empty where that was not written yet.
    """

    pair: Mapping[str, str]
    progress: Progress
    learner: Arrays
    good: Arrays
    cache: bytes
    settings: Settings = field(default_factory=dict)


class Profile:
    """The directory of one target."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checkpoint, self.adapter, self.cache, self.answers = (
            directory / name for name in (CHECKPOINT, ADAPTER, CACHE, ANSWERS)
        )

    def prepare(self) -> None:
        """Make the directories, for their owner alone."""
        self.answers.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.chmod(0o700)

    def answer(self, number: int) -> Path:
        """The file of an answer."""
        return self.answers / name_of(number)

    def keep_answers(self, numbers: set[int]) -> None:
        """Delete all answers but these."""
        for file in segments_of(self.answers):
            if number_of(file) not in numbers:
                file.unlink()
                remove_leftovers(file)

    def write(self, checkpoint: LearningCheckpoint) -> None:
        """Replace the checkpoint; killed at any moment, the old one or the new one is there, whole.

        Raises:
            SettingError: it cannot be written.
        """
        tensors = {_LEARNER + name: array for name, array in checkpoint.learner.items()}
        tensors |= {_GOOD + name: array for name, array in checkpoint.good.items()}
        tensors[_CACHE] = np.frombuffer(checkpoint.cache, dtype=np.uint8)
        header = {
            "format": FORMAT,
            "version": VERSION,
            "pair": json.dumps(dict(checkpoint.pair), sort_keys=True),
            "progress": json.dumps(asdict(checkpoint.progress), sort_keys=True),
            "settings": json.dumps(dict(checkpoint.settings), sort_keys=True),
        }
        try:
            write_atomically(self.checkpoint, save(tensors, header))
        except OSError as error:
            raise SettingError(
                f"{self.checkpoint} cannot be written ({error.strerror})", "make room or give another place"
            ) from None

    def read(self, pair: Mapping[str, str]) -> LearningCheckpoint | None:
        """The checkpoint of this pair; None where there is none yet.

        Raises:
            SettingError: it cannot be read, or is of another drafter.
        """
        if not self.checkpoint.exists():
            return None
        progress, theirs, settings = self._header()
        for name, ours in pair.items():
            if theirs.get(name) != ours:
                raise SettingError(
                    f"{self.directory} was learned with the {name} "
                    f"{str(theirs.get(name))[:12]} and not {ours[:12]}",
                    "give the pair that it was learned with, or another place",
                )
        try:
            with safe_open(self.checkpoint, framework="np") as file:
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
        except (SafetensorError, OSError) as error:
            raise self._refused(error) from None
        learner, good = (
            {k.removeprefix(part): v for k, v in tensors.items() if k.startswith(part)}
            for part in (_LEARNER, _GOOD)
        )
        cache = tensors.get(_CACHE)
        if cache is None:
            raise self._refused("it has no cache")
        return LearningCheckpoint(theirs, progress, learner, good, cache.tobytes(), settings)

    def progress(self) -> Progress | None:
        """Of the checkpoint alone, without its tensors; None where there is none.

        Raises:
            SettingError: it cannot be read.
        """
        return self._header()[0] if self.checkpoint.exists() else None

    def differing(self, settings: Settings) -> dict[str, Any]:
        """Of some settings those that the checkpoint was made with another value of, by name.

        Raises:
            SettingError: it cannot be read.
        """
        theirs = self._header()[2] if self.checkpoint.exists() else {}
        return {
            name: theirs[name] for name, ours in settings.items() if name in theirs and theirs[name] != ours
        }

    def _header(self) -> tuple[Progress, dict[str, str], dict[str, Any]]:
        try:
            with safe_open(self.checkpoint, framework="np") as file:
                header = file.metadata() or {}
            if (header.get("format"), header.get("version")) != (FORMAT, VERSION):
                raise self._refused(f"it is {header.get('format')} version {header.get('version')}")
            found = json.loads(header["progress"])
            pair = {str(k): str(v) for k, v in json.loads(header["pair"]).items()}
            return _progress(found), pair, dict(json.loads(header.get("settings", "{}")))
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise self._refused(error) from None

    def _refused(self, why: object) -> SettingError:
        return SettingError(
            f"{self.checkpoint} cannot be gone on from ({why!s:.120})",
            f"delete {self.directory} to begin anew",
        )


def profile_of(place: str | Path, bundle: Bundle) -> Profile:
    """Where an adaptation's place has what was learned of a bundle's target."""
    return Profile(Path(place) / target_of(bundle)[:12])


def profiles_in(place: str | Path) -> list[Profile]:
    """All of a place."""
    if not Path(place).is_dir():
        return []
    return [Profile(path.parent) for path in sorted(Path(place).glob(f"*/{CHECKPOINT}"))]


def target_of(bundle: Bundle) -> str:
    """What names a target: the fingerprint of its weights, or of its graph where the bundle has none."""
    if bundle.target.fingerprint is not None:
        return bundle.target.fingerprint
    graph = bundle.manifest["files"][bundle.target.graph]["sha256"]
    return hashlib.sha256(str(graph).encode()).hexdigest()


def pair_of(bundle: Bundle, draft_tokenizer: str, target_tokenizer: str) -> dict[str, str]:
    """What an adapter and a cache are of, by the names that a refusal has for it."""
    return {
        "target": target_of(bundle),
        "drafter": bundle.drafter.fingerprint or "",
        "drafter's tokenizer": draft_tokenizer,
        "target's tokenizer": target_tokenizer,
    }


def _progress(found: Any) -> Progress:
    """Checked field by field against the kinds of an empty one.

    Raises:
        ValueError, AttributeError: it is none.
    """
    empty = Progress()
    if found.keys() != {f.name for f in fields(Progress)}:
        raise ValueError("other fields than an adaptation has")
    for name, value in found.items():
        kind = type(getattr(empty, name))
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ValueError(f"{name} is {value!r:.40}")
    for name in ("memory", "pending"):
        if not all(type(n) is int and n > 0 for n in found[name]):
            raise ValueError(f"{name} is {found[name]!r:.40}")
    return Progress(**found)
