"""One target that a drafter is adapted to: its session, learner and guard, and what is on the disk of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from omnidraft.errors import SettingError, TraceFileError
from omnidraft.learning.online.guard import Guard, GuardOptions
from omnidraft.learning.online.profiles import LearningCheckpoint, Progress, Settings, pair_of, profile_of
from omnidraft.learning.positions.alignment import Aligned, Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.learning.positions.from_traces import TraceAligner, from_traces
from omnidraft.learning.step.learner import Learner
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.runtime.session.session import Session
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_file import decode as decode_trace
from omnidraft.runtime.traces.trace_memory import TraceMemory
from omnidraft.runtime.vocab.cache_file import decode as decode_cache
from omnidraft.runtime.vocab.cache_file import encode as encode_cache
from omnidraft.runtime.vocab.cache_store import new_replica
from omnidraft.runtime.vocab.cache_table import check_against
from omnidraft.runtime.vocab.ngram_cache import NgramCache


@dataclass(frozen=True)
class AdaptOptions:
    """How to adapt.

    Attributes:
        interval: answers between two times of learning.
        passes: over the answers of an interval, in steps of `BATCH`.
        replayed: earlier answers in each step besides the new ones. memory: how many are kept for that.
        seed: of what is replayed.
        guard: when an adapter is rolled back.
    """

    interval: int = 8
    passes: int = 4
    replayed: int = 8
    memory: int = 64
    seed: int = 0
    guard: GuardOptions = field(default_factory=GuardOptions)

    @property
    def settings(self) -> Settings:
        """What going on needs to have the same, by name."""
        names = {"interval": self.interval, "passes": self.passes, "replay": self.replayed}
        return {**names, "memory": self.memory, "seed": self.seed}

    def __post_init__(self) -> None:
        for name, at_least in (("interval", 1), ("passes", 1), ("replayed", 0), ("memory", 0), ("seed", 0)):
            if getattr(self, name) < at_least:
                usual = AdaptOptions.__dataclass_fields__[name].default
                typed = "replay" if name == "replayed" else name  # as `settings` has it
                raise SettingError(
                    f"{typed} {getattr(self, name)} is less than {at_least}", f"{usual} is usual"
                )


class AdaptedTarget:
    """The target that is adapted to now: its session, learner, guard and place."""

    def __init__(
        self,
        weights: LoadedBundle,
        learner: Learner,
        place: Path,
        options: AdaptOptions,
        settings: Settings | None = None,
    ) -> None:
        """
        Args:
            settings: what going on needs to have the same, besides those of the options.

        Raises:
            SettingError: what is there was learned with others, or cannot be read.
        """
        bundle, vocab_map = weights.bundle, weights.vocab_map
        self.vocabularies = Vocabularies.of(vocab_map)
        self.recorded = TraceMemory(self.vocabularies)
        self.session = Session(weights, trace=self.recorded)
        self.learner, self.base_rate = learner, learner.rate
        self.guard, self.profile = Guard(options.guard), profile_of(place, bundle)
        self.pair = pair_of(bundle, vocab_map.draft_fingerprint, vocab_map.target_fingerprint)
        self.progress, self.good = Progress(), learner.state()
        self.good_adapter: Adapter | None = None
        bos = bundle.drafter.bos_id
        aligner = Aligner(full_trie(vocab_map), max_length=bundle.drafter.kv.max_length)
        self._aligner = TraceAligner(aligner, () if bos is None else (bos,))
        self.aligned: dict[int, list[Aligned]] = {}
        self._settings = {**options.settings, **(settings or {})}
        self.profile.prepare()
        if differing := self.profile.differing(self._settings):
            told = (f"{name} {value} and not {self._settings[name]}" for name, value in differing.items())
            raise SettingError(
                f"{self.profile.directory} was learned with {', '.join(told)}",
                "go on with the same, or begin anew in another place",
            )
        found = self.profile.read(self.pair)
        if found is not None:
            self._go_on(found)
        self.profile.keep_answers({*self.progress.memory, *self.progress.pending})

    def _go_on(self, found: LearningCheckpoint) -> None:
        self.progress, self.good = found.progress, found.good or found.learner
        if found.progress.good:
            self.learner.restore(self.good)
            self.good_adapter = self.learner.adapter()
        self.learner.restore(found.learner)
        self.guard.restore(found.progress.guard)
        table = decode_cache(found.cache)
        check_against(table, self.session.vocab_map)
        self.session.pair.cache = NgramCache.of_table(table, self.session.vocab_map)
        self.swap_in()
        for number in (*self.progress.memory, *self.progress.pending):
            try:
                self.align(number, self.profile.answer(number).read_bytes())
            except (OSError, TraceFileError) as error:
                raise SettingError(
                    f"{self.profile.answer(number)} cannot be learned from ({error})",
                    f"delete {self.profile.directory} to begin anew",
                ) from None

    def swap_in(self) -> None:
        """Give the session what the learner has, and the learner its rate."""
        self.learner.rate = self.base_rate * self.progress.slow
        self.session.use_adapter(self.learner.adapter() if self.progress.version else None, "drafter")

    def align(self, number: int, segment: bytes) -> None:
        """Keep an answer to learn from: always as it is on the disk, where numbers are rounded."""
        self.aligned[number] = list(from_traces(decode_trace(segment).generations(), self._aligner))

    def checkpoint(self) -> LearningCheckpoint:
        """All of it, between two answers."""
        cache = self.session.cache
        cache.replica = cache.replica or new_replica()
        progress = self.progress
        progress.guard = self.guard.state()
        good = {} if self.progress.good == self.progress.version else self.good
        return LearningCheckpoint(
            self.pair, progress, self.learner.state(), good, encode_cache(cache.table()), self._settings
        )

    def keep_good(self) -> None:
        """Keep what is in use as what to go back to."""
        self.good, self.good_adapter = self.learner.state(), self.learner.adapter()

    def go_back(self) -> None:
        """Draft and learn on with the last good adapter."""
        self.learner.restore(self.good)
        self.swap_in()

    def forget_answers(self) -> None:
        """Let those go that are not kept."""
        kept = {*self.progress.memory, *self.progress.pending}
        self.aligned = {number: found for number, found in self.aligned.items() if number in kept}
