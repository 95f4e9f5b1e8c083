"""One target that a drafter adapts to: session, learner, guard and profile."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from omnidraft import defaults
from omnidraft.errors import CacheFileError, SettingError, TraceFileError, reason
from omnidraft.learning.online.guard import Guard, GuardOptions
from omnidraft.learning.online.profiles import (
    AdaptationProgress,
    AdaptSettings,
    LearningCheckpoint,
    pair_of,
    profile_of,
)
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.positions.from_traces import aligner_of, from_traces
from omnidraft.learning.step.learner import Learner
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.language_model import LanguageModel
from omnidraft.runtime.session.text_session import TextSession
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_file import decode as decode_trace
from omnidraft.runtime.traces.trace_memory import TraceMemory
from omnidraft.runtime.vocab.cache_file import decode as decode_cache
from omnidraft.runtime.vocab.cache_file import encode as encode_cache
from omnidraft.runtime.vocab.cache_table import check_against
from omnidraft.runtime.vocab.ngram_cache import NgramCache


@dataclass(frozen=True)
class AdaptOptions:
    """Options of an adaptation.

    Attributes:
        passes: over the answers of an interval, in steps of `interval.BATCH`.
        replayed: earlier answers in each step, besides the new ones.
    """

    interval: int = defaults.LEARNER_INTERVAL
    passes: int = defaults.LEARNER_PASSES
    replayed: int = defaults.LEARNER_REPLAYED
    memory: int = defaults.LEARNER_MEMORY
    seed: int = 0
    guard: GuardOptions = field(default_factory=GuardOptions)

    @property
    def settings(self) -> AdaptSettings:
        """The options that a checkpoint records, by name; a later run needs the same values."""
        names = {"interval": self.interval, "passes": self.passes, "replay": self.replayed}
        return {**names, "memory": self.memory, "seed": self.seed}

    def __post_init__(self) -> None:
        for name, at_least in (("interval", 1), ("passes", 1), ("replayed", 0), ("memory", 0), ("seed", 0)):
            if getattr(self, name) < at_least:
                usual = AdaptOptions.__dataclass_fields__[name].default
                typed = "replay" if name == "replayed" else name  # as `settings` has it
                raise SettingError(
                    f"{typed} {getattr(self, name)} is less than {at_least}",
                    f"{usual} is usual",
                    setting=typed,
                )


def answer_settings(config: GenerationConfig, raw: bool) -> AdaptSettings:
    """All settings of the answers as JSON values, by the names of the fields of `GenerationConfig`, and
    `raw`.
    """
    values = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(config).items()}
    return {**values, "raw": raw}


class AdaptedTarget:
    """The target in use.

    Attributes:
        recorded: the trace of the session, in memory.
        learner: it learns, at `base_rate` times the rate scale of the progress.
        good: the learner's state at the last adapter that was found good.
        good_adapter: that adapter; None before the first.
        aligned: training positions of the answers in memory and of the pending answers, by number.
    """

    def __init__(
        self,
        loaded: LanguageModel,
        learner: Learner,
        place: Path,
        options: AdaptOptions,
        settings: AdaptSettings | None = None,
        *,
        begun: bool = False,
    ) -> None:
        """
        Args:
            settings: recorded in the checkpoint besides those of the options; a later run needs the same.
            begun: whether the learner has an adapter of earlier learning, which then drafts from the start
                where there is no checkpoint.

        Raises:
            SettingError: the checkpoint was made with other settings, or cannot be read.
        """
        bundle, vocab_map = loaded.bundle, loaded.vocab_map
        self.vocabularies = Vocabularies.of(vocab_map)
        self.recorded = TraceMemory(self.vocabularies)
        self.session = TextSession(loaded, trace=self.recorded)
        self.learner, self.base_rate = learner, learner.rate
        self.guard, self.profile = Guard(options.guard), profile_of(place, bundle)
        self.pair = pair_of(bundle, vocab_map.draft_fingerprint, vocab_map.target_fingerprint)
        self.progress, self.good = AdaptationProgress(), learner.state()
        self.good_adapter: Adapter | None = None
        self._aligner = aligner_of(bundle, vocab_map)
        self.aligned: dict[int, list[Aligned]] = {}
        self._settings = {**options.settings, **(settings or {})}
        self.profile.prepare()
        if differing := self.profile.differing(self._settings):
            pairs = (f"{name} {value} and not {self._settings[name]}" for name, value in differing.items())
            raise SettingError(
                f"{self.profile.directory} was learned with {', '.join(pairs)}",
                "go on with the same settings, or give another place to start over",
            )
        checkpoint = self.profile.read(self.pair)
        if checkpoint is not None:
            self._restore(checkpoint)
        elif begun:
            self.progress.version = self.progress.good = self.progress.learned = 1
            self.keep_good()
            self.swap_in()
        self.profile.keep_answers({*self.progress.memory, *self.progress.pending})

    def _restore(self, checkpoint: LearningCheckpoint) -> None:
        self.progress, self.good = checkpoint.progress, checkpoint.good or checkpoint.learner
        if checkpoint.progress.good:
            self.learner.restore(self.good)
            self.good_adapter = self.learner.adapter()
        self.learner.restore(checkpoint.learner)
        try:
            self.guard.restore(checkpoint.progress.guard)
            table = decode_cache(checkpoint.cache)
            check_against(table, self.session.vocab_map)
        except (ValueError, CacheFileError) as error:
            raise self.profile.refusal(f"cannot be read ({reason(error)})") from None
        self.session.cache = NgramCache.of_table(table, self.session.vocab_map)
        self.swap_in()
        for number in (*self.progress.memory, *self.progress.pending):
            try:
                self.align(number, self.profile.answer(number).read_bytes())
            except (OSError, TraceFileError) as error:
                raise SettingError(
                    f"{self.profile.answer(number)} cannot be learned from ({error})",
                    f"delete {self.profile.directory} to start over",
                ) from None

    def swap_in(self) -> None:
        """Give the session the learner's adapter, and the learner its rate."""
        self.learner.rate = self.base_rate * self.progress.rate_scale
        self.session.use_adapter(self.learner.adapter() if self.progress.version else None, "drafter")

    def align(self, number: int, segment: bytes) -> None:
        """Align a recorded answer. It is decoded from the bytes of its file, where numbers are rounded, so
        that a restart learns from the same values.
        """
        self.aligned[number] = list(from_traces(decode_trace(segment).generations(), self._aligner))

    def checkpoint(self) -> LearningCheckpoint:
        """The whole state, between two answers."""
        cache = self.session.cache
        progress = self.progress
        progress.guard = self.guard.state()
        good = {} if self.progress.good == self.progress.version else self.good
        return LearningCheckpoint(
            self.pair, progress, self.learner.state(), good, encode_cache(cache.table()), self._settings
        )

    def keep_good(self) -> None:
        """Keep the adapter in use for a rollback."""
        self.good, self.good_adapter = self.learner.state(), self.learner.adapter()

    def go_back(self) -> None:
        """Draft and learn with the last good adapter."""
        self.learner.restore(self.good)
        self.swap_in()

    def forget_answers(self) -> None:
        """Drop the training positions of answers that are not kept."""
        kept = {*self.progress.memory, *self.progress.pending}
        self.aligned = {number: answer for number, answer in self.aligned.items() if number in kept}
