"""The online loop: answer with speculation, learn after each interval, use the new adapter, guard it.

A kill at any moment loses the work after the last checkpoint, and the next run repeats it: learning uses no
clock, and no randomness except seeds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from omnidraft.errors import ClaimError, SettingError
from omnidraft.learning.online.adapted_target import AdaptedTarget, AdaptOptions
from omnidraft.learning.online.curve import Curve, CurveLine, steady_seconds
from omnidraft.learning.online.interval import end_interval
from omnidraft.learning.online.profiles import AdaptationProgress, AdaptSettings, Profile, profiles_in
from omnidraft.learning.step.learner import Learner
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.claim import claim
from omnidraft.runtime.models.adapter_file import write_adapter
from omnidraft.runtime.session.generation import Generation
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.language_model import LanguageModel
from omnidraft.runtime.session.text_session import TextSession
from omnidraft.runtime.traces.trace_memory import segment_of
from omnidraft.runtime.vocab.cache_store import write_cache

CURVE = "curve.jsonl"
_PLAIN_TOKENS, _PLAIN_KEPT = 16, 5  # tokens of a measurement of plain decoding, and measurements kept


class Adaptation:
    """A drafter that adapts to a target while it drafts for it; in a directory each target has its own state.

    Attributes:
        position: prompts of the current list that are done with the target in use; 0 before `begin`.
        answered: answers of all targets.
        on_learning: called before the end of an interval is learned from, which may take long.
    """

    def __init__(
        self,
        place: str | Path,
        learner_for: Callable[[LanguageModel], Learner],
        options: AdaptOptions | None = None,
        *,
        prompts: str = "",
    ) -> None:
        """Claim a directory and go on from its checkpoints.

        Args:
            place: a directory, made if absent; one process at a time adapts in it.
            prompts: digest of the list of prompts; where a target's checkpoint has the same, its `position`
                goes on.

        Raises:
            SettingError: the directory is in use, cannot be written, or has a checkpoint that cannot be read.
        """
        self.place, self.options = Path(place), options or AdaptOptions()
        self._learner_for = learner_for
        self.on_learning: Callable[[], None] = lambda: None
        self._claim = _claimed(self.place)
        try:
            recorded = [p for p in (each.progress() for each in profiles_in(self.place)) if p is not None]
            self.answered = max((p.answered for p in recorded), default=0)
            self.position, self._prompts = 0, prompts
            self.curve = Curve(self.place / CURVE, self.answered)
        except BaseException:
            os.close(self._claim)
            raise
        self._target: AdaptedTarget | None = None

    @property
    def session(self) -> TextSession:
        """The session of the target in use."""
        return self._current.session

    @property
    def profile(self) -> Profile:
        """The profile of the target in use."""
        return self._current.profile

    @property
    def progress(self) -> AdaptationProgress:
        """The progress of the target in use."""
        return self._current.progress

    @property
    def _current(self) -> AdaptedTarget:
        if self._target is None:
            raise SettingError("no target is loaded", "call `begin` with a loaded bundle first")
        return self._target

    def begin(
        self, loaded: LanguageModel, settings: AdaptSettings | None = None, *, begun: bool = False
    ) -> None:
        """Go on with the target of a bundle from its checkpoint.

        Args:
            settings: of answering and learning; they are recorded, and going on with others is refused.
            begun: whether the new learner has an adapter of earlier learning, to draft with from the start.

        Raises:
            SettingError: the checkpoint cannot be read, or was made with other models or settings.
            AdapterError: the adapter in the checkpoint does not fit.
        """
        learner = self._learner_for(loaded)
        self._target = AdaptedTarget(loaded, learner, self.place, self.options, settings, begun=begun)
        self.position = self.progress.position if self.progress.prompts == self._prompts else 0

    def answer(
        self, prompt: str | Sequence[int], config: GenerationConfig, *, raw: bool = False
    ) -> CurveLine:
        """Answer the next prompt, learn if the interval ends, and append a line to the curve.

        Args:
            config: settings of the answer. The seed of answer n is `config.seed` + n.

        Raises:
            PromptError: the prompt cannot be answered; nothing changed. `skip` leaves it out.
        """
        target, progress = self._current, self._current.progress
        if not progress.pending:
            self._measure_plain(prompt, raw)
        answer, rounds = self._generate(prompt, config, raw)
        number = self.answered + 1
        segment = segment_of(target.recorded.take(), target.vocabularies, number)
        write_atomically(target.profile.answer(number), segment)
        target.align(number, segment)
        progress.pending.append(number)
        target.guard.observe(answer.statistics.emitted, answer.statistics.rounds)
        line = self._line(target, number, answer, rounds)
        self.answered, self.position = number, self.position + 1
        ends = len(progress.pending) >= self.options.interval
        if ends:
            self.on_learning()
            started = time.perf_counter()
            event, loss = end_interval(target, self.options)
            line = replace(line, event=event, loss=loss, learning=time.perf_counter() - started)
        self.curve.append(line)
        if ends:
            self.write()
        return line

    def _line(
        self, target: AdaptedTarget, number: int, answer: Generation, rounds: Sequence[tuple[int, float]]
    ) -> CurveLine:
        counts, plain = answer.statistics, target.progress.plain
        return CurveLine(
            answer=number,
            prompt=self.position,
            target=target.profile.directory.name,
            tokens=counts.emitted,
            passes=counts.rounds,
            drafted=counts.drafted,
            accepted=counts.accepted_drafts,
            seconds=steady_seconds(rounds),
            plain=median(plain) if plain else None,
            cache=len(target.session.cache),
            version=target.progress.version,
        )

    def skip(self) -> None:
        """Leave out a prompt that cannot be answered."""
        self.position += 1

    def write(self) -> None:
        """Write the checkpoint, then the copies for readers; a kill at any moment leaves a checkpoint."""
        target, progress = self._current, self._current.progress
        progress.prompts, progress.position, progress.answered = self._prompts, self.position, self.answered
        self.curve.sync()
        target.profile.write(target.checkpoint())
        write_cache(target.profile.cache, target.session.cache)
        if target.good_adapter is not None:
            write_adapter(target.profile.adapter, target.good_adapter)
        target.profile.keep_answers({*progress.memory, *progress.pending})

    def close(self) -> None:
        """Release the directory. The next run repeats the work after the last checkpoint."""
        self.curve.close()
        os.close(self._claim)

    def _generate(
        self, prompt: str | Sequence[int], config: GenerationConfig, raw: bool
    ) -> tuple[Generation, list[tuple[int, float]]]:
        """One answer; and the draft tokens and seconds of each of its rounds.

        Both models start from an empty context, because earlier passes change the last bits of the logits,
        and a repeated run must give the same answers.
        """
        target = self._current
        target.session.text.decoder.cached.clear()
        target.session.models.drafter.forget()
        target.recorded.take()  # drop the record of an answer that was interrupted
        seed = None if config.seed is None else (config.seed + self.position) % (1 << 64)
        answer = target.session.generate(prompt, replace(config, seed=seed), raw=raw)
        return answer, _rounds_of(answer)

    def _measure_plain(self, prompt: str | Sequence[int], raw: bool) -> None:
        """Measure the seconds per token of plain decoding; nothing is learned or recorded."""
        target = self._current
        target.recorded.pause()
        try:
            plain = target.session.generate(prompt, max_new_tokens=_PLAIN_TOKENS, mode="plain", raw=raw)
            rounds = _rounds_of(plain)  # one token each
        finally:
            target.recorded.resume()
        if len(rounds) > 1:
            seconds = steady_seconds(rounds) / len(rounds)
            target.progress.plain = [*target.progress.plain, seconds][-_PLAIN_KEPT:]


def _rounds_of(generation: Generation) -> list[tuple[int, float]]:
    """Run a generation to its end; draft tokens and seconds of each round, without the time of recording."""
    rounds = [piece.round for piece in generation if piece.round is not None]
    return [(len(r.draft), sum(asdict(r.seconds).values())) for r in rounds]


def _claimed(place: Path) -> int:
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return claim(place)
    except ClaimError:
        raise SettingError(
            f"{place} is in use by another `omnidraft learn`", "end it, or give another place"
        ) from None
    except OSError as error:
        raise SettingError(
            f"nothing can be adapted in {place} ({error.strerror})", "choose another place"
        ) from None
