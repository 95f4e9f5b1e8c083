"""The directory of one target of an adaptation: checkpoint, adapter, cache and answers.

`PLACE/<first 12 digits of the target's fingerprint>/` holds

- `checkpoint.safetensors`: the whole state in one file, so that a reader never finds half of it;
- `adapter.safetensors` and `cache.odc`: copies for sessions, written after the checkpoint;
- `answers/trace-N.odt`: the answers that are learned from again, each written once (spec/12-trace.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from omnidraft.errors import SettingError, reason, refusing
from omnidraft.learning.step.state_file import Arrays, StateFormat
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.disk.atomic_write import remove_leftovers
from omnidraft.runtime.traces.trace_reader import name_of, number_of, segments_of

CHECKPOINT, ADAPTER, CACHE, ANSWERS = "checkpoint.safetensors", "adapter.safetensors", "cache.odc", "answers"
AdaptSettings = Mapping[str, Any]  # JSON values by name
_LEARNER, _GOOD, _CACHE = "learner/", "good/", "cache"  # of the checkpoint's arrays


@dataclass
class AdaptationProgress:
    """How far an adaptation is; every field is a JSON value.

    Attributes:
        prompts: digest of the list of prompts in work.
        position: prompts of that list that are done.
        version: of the adapter in use, counted by learning; 0 for none.
        good: the last version that the guard found good.
        learned: versions learned so far, with those that were rolled back.
        rollbacks: in a row, since the last version that was found good.
        cooldown: intervals left without learning after a rollback.
        rate_scale: factor of the learning rate, 0 to 1.
        memory: numbers of the answers to learn from again.
        pending: numbers of the answers that were not learned from so far.
        plain: seconds of a token of plain decoding, the latest measurements.
    """

    prompts: str = ""
    position: int = 0
    answered: int = 0
    version: int = 0
    good: int = 0
    learned: int = 0
    rollbacks: int = 0
    cooldown: int = 0
    rate_scale: float = 1.0
    memory: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    guard: dict[str, Any] = field(default_factory=lambda: {"reference": [], "current": []})
    plain: list[float] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The fields under their names in the file."""
        return {JSON_NAMES.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: Any) -> AdaptationProgress:
        """Read back what `as_json` gave; each field has the type of its default.

        Raises:
            ValueError: the value is not the progress of an adaptation.
        """
        empty = cls()
        if not isinstance(value, dict) or value.keys() != empty.as_json().keys():
            raise ValueError("it has other fields than the progress of an adaptation")
        values = {each.name: value[JSON_NAMES.get(each.name, each.name)] for each in fields(cls)}
        for name, field_value in values.items():
            kind = type(getattr(empty, name))
            if type(field_value) is not kind and not (kind is float and type(field_value) is int):
                raise ValueError(f"{name} is {field_value!r:.40}")
        for name in ("memory", "pending"):
            if not all(type(n) is int and n > 0 for n in values[name]):
                raise ValueError(f"{name} is {values[name]!r:.40}")
        return cls(**values)


JSON_NAMES = {"rollbacks": "falls", "cooldown": "rest", "rate_scale": "slow"}  # spec/13-learner.md


@dataclass(frozen=True)
class LearningCheckpoint:
    """The state of an adaptation between two answers.

    Attributes:
        good: the learner's state at the last adapter that was found good; empty where that is the one in use.
        settings: how answers are given and learned from, by name.
    """

    pair: Mapping[str, str]
    progress: AdaptationProgress
    learner: Arrays
    good: Arrays
    cache: bytes
    settings: AdaptSettings


class _Header(NamedTuple):
    """The metadata of a checkpoint."""

    pair: dict[str, str]
    progress: AdaptationProgress
    settings: dict[str, Any]


class Profile:
    """The directory of one target."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checkpoint, self.adapter, self.cache, self.answers = (
            directory / name for name in (CHECKPOINT, ADAPTER, CACHE, ANSWERS)
        )
        self._format = StateFormat(
            "omnidraft.adaptation", "1", "adapting", f"delete {directory} to start over"
        )

    def prepare(self) -> None:
        """Make the directories, with permissions for their owner alone.

        Raises:
            SettingError: they cannot be made.
        """
        with refusing(SettingError, f"nothing can be adapted in {self.directory}", "choose another place"):
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
        """Replace the checkpoint. A kill at any moment leaves the old file or the new one, whole."""
        arrays = {_LEARNER + name: array for name, array in checkpoint.learner.items()}
        arrays |= {_GOOD + name: array for name, array in checkpoint.good.items()}
        arrays[_CACHE] = np.frombuffer(checkpoint.cache, dtype=np.uint8)
        header = {
            "pair": dict(checkpoint.pair),
            "progress": checkpoint.progress.as_json(),
            "settings": dict(checkpoint.settings),
        }
        self._format.write(self.checkpoint, arrays, header)

    def read(self, pair: Mapping[str, str]) -> LearningCheckpoint | None:
        """The checkpoint of this pair; None where there is no checkpoint.

        Raises:
            SettingError: the checkpoint cannot be read, or is of another pair.
        """
        if not self.checkpoint.exists():
            return None
        arrays, metadata = self._format.read(self.checkpoint)
        header = self._header(metadata)
        for name, ours in pair.items():
            if header.pair.get(name) != ours:
                raise SettingError(
                    f"{self.directory} was learned with the {name} "
                    f"{str(header.pair.get(name))[:12]} and not {ours[:12]}",
                    "give the pair that it was learned with, or another place",
                )
        if _CACHE not in arrays:
            raise self.refusal("has no cache")
        learner, good = _below(arrays, _LEARNER), _below(arrays, _GOOD)
        cache = arrays[_CACHE].tobytes()
        return LearningCheckpoint(header.pair, header.progress, learner, good, cache, header.settings)

    def refusal(self, why: str) -> SettingError:
        """The error of a checkpoint from which nothing can go on; `why` is the verb of the sentence."""
        return self._format.refusal(self.checkpoint, why)

    def progress(self) -> AdaptationProgress | None:
        """The progress in the checkpoint, without reading arrays; None where there is no checkpoint."""
        return self._read_header().progress if self.checkpoint.exists() else None

    def differing(self, settings: AdaptSettings) -> dict[str, Any]:
        """The settings that the checkpoint has with another value, with that value."""
        recorded = self._read_header().settings if self.checkpoint.exists() else {}
        return {
            name: recorded[name]
            for name, ours in settings.items()
            if name in recorded and recorded[name] != ours
        }

    def _read_header(self) -> _Header:
        return self._header(self._format.read_metadata(self.checkpoint))

    def _header(self, metadata: Mapping[str, Any]) -> _Header:
        try:
            pair = {str(k): str(v) for k, v in metadata["pair"].items()}
            progress = AdaptationProgress.from_json(metadata["progress"])
            return _Header(pair, progress, dict(metadata["settings"]))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise self.refusal(f"has no readable header ({reason(error)})") from None


def profile_of(place: str | Path, bundle: Bundle) -> Profile:
    """The profile of a bundle's target below the directory of an adaptation."""
    return Profile(Path(place) / target_of(bundle)[:12])


def profiles_in(place: str | Path) -> list[Profile]:
    """All profiles that have a checkpoint, below the directory of an adaptation."""
    if not Path(place).is_dir():
        return []
    return [Profile(path.parent) for path in sorted(Path(place).glob(f"*/{CHECKPOINT}"))]


def target_of(bundle: Bundle) -> str:
    """The fingerprint of the target's weights; where the bundle has none, a digest of its graph."""
    if bundle.target.fingerprint is not None:
        return bundle.target.fingerprint
    graph = bundle.manifest["files"][bundle.target.graph]["sha256"]
    return hashlib.sha256(str(graph).encode()).hexdigest()


def pair_of(bundle: Bundle, draft_tokenizer: str, target_tokenizer: str) -> dict[str, str]:
    """What adapters and caches belong to, by the names that error messages use."""
    return {
        "target": target_of(bundle),
        "drafter": bundle.drafter.fingerprint or "",
        "drafter's tokenizer": draft_tokenizer,
        "target's tokenizer": target_tokenizer,
    }


def _below(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
