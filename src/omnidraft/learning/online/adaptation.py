"""The online loop: answer with speculation, learn every interval, swap the adapter in, guard it, go on.

What is said is the target's own, whatever the drafter learns. A kill at any moment loses what came after the
last checkpoint, and going on does that again: learning has no clock and no randomness but the seeds'.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

import numpy as np

from omnidraft.errors import AdapterError, ClaimError, SettingError
from omnidraft.learning.online.adapted_target import AdaptedTarget, AdaptOptions
from omnidraft.learning.online.curve import Curve, CurveLine, Event, costs_of, steady_seconds
from omnidraft.learning.online.interval import end_interval, roll_back, take_up
from omnidraft.learning.online.profiles import Profile, Progress, Settings, profiles_in
from omnidraft.learning.step.learner import Learner
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.claim import claim
from omnidraft.runtime.models.adapter_file import write_adapter
from omnidraft.runtime.session.generation import Generation
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.runtime.session.session import Session
from omnidraft.runtime.traces.trace_memory import segment_of
from omnidraft.runtime.vocab.cache_store import write_cache

CURVE = "curve.jsonl"
BATCH = 8  # new answers in one step, as in the paper
_PLAIN_TOKENS, _PLAIN_KEPT = 16, 5  # of a measurement of plain decoding, and how many of them count


class Adaptation:
    """A drafter that learns its targets while it works; one target at a time, each with what is its own.

    Attributes:
        place: where everything is written. curve: its learning curve.
        running: the generation that is going on, None between two.
    """

    def __init__(
        self,
        place: str | Path,
        learner_for: Callable[[LoadedBundle], Learner],
        options: AdaptOptions | None = None,
        *,
        prompts: str = "",
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Claim a place, or go on where its checkpoints end.

        Args:
            place: a directory, made where it is absent; one process at a time adapts in it.
            learner_for: makes a learner for a bundle's drafter.
            options: the measured ones when None.
            prompts: digest of the prompts to come: with the same one, going on begins after those done.
            clock: seconds, for the curve alone.

        Raises:
            SettingError: the place is in use, cannot be written, or its checkpoints cannot be read.
        """
        self.place, self.options = Path(place), options or AdaptOptions()
        self._learner_for, self._clock = learner_for, clock
        self._claim = _claimed(self.place)
        try:
            found = [p for p in (each.progress() for each in profiles_in(self.place)) if p is not None]
            last = max(found, key=lambda p: p.answered, default=Progress())
            self.answered, self._prompts = last.answered, prompts
            self.position = last.position if last.prompts == prompts else 0
            self.curve = Curve(self.place / CURVE, self.answered)
        except BaseException:
            os.close(self._claim)
            raise
        self._target: AdaptedTarget | None = None
        self.running: Generation | None = None

    @property
    def session(self) -> Session:
        """The one that answers."""
        return self._now.session

    @property
    def profile(self) -> Profile:
        """Of the target in use."""
        return self._now.profile

    @property
    def progress(self) -> Progress:
        """Of the target in use."""
        return self._now.progress

    @property
    def _now(self) -> AdaptedTarget:
        if self._target is None:
            raise SettingError("no target is loaded", "call switch with the weights of a bundle first")
        return self._target

    def switch(self, weights: LoadedBundle, settings: Settings | None = None) -> None:
        """Leave the target in use as it is, and go on with another, or with where it was left before.

        Args:
            settings: by which it answers and learns; going on with others is refused.

        Raises:
            SettingError, AdapterError: what was learned of it cannot be read, is of other models, or was
                learned with other settings.
        """
        if self._target is not None:
            self.write()
        self._target = None  # its memory goes first
        learner = self._learner_for(weights)
        self._target = AdaptedTarget(weights, learner, self.place, self.options, settings)

    def answer(
        self, prompt: str | Sequence[int], request: GenerationConfig, *, raw: bool = False
    ) -> CurveLine:
        """Answer the next prompt, learn where an interval ends, and note it in the curve.

        Raises:
            PromptError: the prompt does not serve; nothing changed, `skip` passes it by.
        """
        now, progress = self._now, self._now.progress
        if not progress.pending:
            self._measure_plain(prompt, raw)
        said, rounds = self._generate(prompt, request, raw)
        number = self.answered + 1
        segment = segment_of(now.recorded.take(), now.vocabularies, number)
        write_atomically(now.profile.answer(number), segment)
        now.align(number, segment)
        progress.pending.append(number)
        s, (first, costs) = said.statistics, costs_of(rounds)
        now.guard.observe(s.emitted, s.rounds)
        line = CurveLine(
            number, self.position, now.profile.directory.name, s.emitted, s.rounds, s.drafted, s.passed,
            steady_seconds(first, costs), median(progress.plain) if progress.plain else None,
            len(now.session.cache), progress.version, first=first, costs=costs,
        )  # fmt: skip
        self.answered, self.position = number, self.position + 1
        ends = len(progress.pending) >= self.options.interval
        if ends:
            started = self._clock()
            event, loss = self._end_interval(now)
            line = replace(line, event=event, loss=loss, learning=self._clock() - started)
        self.curve.append(line)
        if ends:
            self.write()
        return line

    def skip(self) -> None:
        """Pass by a prompt that cannot be answered."""
        self.position += 1

    def write(self) -> None:
        """Write a checkpoint, then what others read; killed at any moment, going on loses nothing."""
        now, progress = self._now, self._now.progress
        progress.prompts, progress.position, progress.answered = self._prompts, self.position, self.answered
        self.curve.sync()
        now.profile.write(now.checkpoint())
        write_cache(now.profile.cache, now.session.cache)
        if now.good_adapter is not None:
            write_adapter(now.profile.adapter, now.good_adapter)
        now.profile.keep_answers({*progress.memory, *progress.pending})

    def close(self) -> None:
        """Let the place go; what came after the last checkpoint is done again by whoever goes on."""
        self.curve.close()
        os.close(self._claim)

    def _generate(
        self, prompt: str | Sequence[int], request: GenerationConfig, raw: bool
    ) -> tuple[Generation, list[tuple[int, float]]]:
        """One answer, and of each of its rounds the draft tokens and seconds.

        It starts from contexts that are empty: what was read before must not show in the last bits.
        """
        now = self._now
        pair = now.session.pair
        pair.read, pair.alone, pair.held = [], [], 0
        now.session.drafter.forget()
        now.recorded.take()  # of an answer that was broken off
        seed = None if request.seed is None else (request.seed + self.position) % (1 << 64)
        self.running = now.session.generate(
            prompt,
            max_new_tokens=request.max_new_tokens,
            temperature=request.temperature,
            seed=seed,
            mode=request.mode,
            num_draft_tokens=request.num_draft_tokens,
            stop=request.stop,
            raw=raw,
            ignore_eos=request.ignore_eos,
            top_k=request.top_k,
            top_p=request.top_p,
            min_p=request.min_p,
            repetition_penalty=request.repetition_penalty,
            verification=request.verification,
        )
        said = self.running
        try:
            return said, _rounds_of(said)
        finally:
            self.running = None

    def _measure_plain(self, prompt: str | Sequence[int], raw: bool) -> None:
        """Seconds a token of the target alone, here and now; nothing is learned or recorded of it."""
        now = self._now
        now.recorded.pause()
        try:
            plain = now.session.generate(prompt, max_new_tokens=_PLAIN_TOKENS, mode="plain", raw=raw)
            rounds = _rounds_of(plain)  # a token each
        finally:
            now.recorded.resume()
        if len(rounds) > 1:
            each = steady_seconds(*costs_of(rounds)) / len(rounds)
            now.progress.plain = [*now.progress.plain, each][-_PLAIN_KEPT:]

    def _end_interval(self, now: AdaptedTarget) -> tuple[Event, float | None]:
        """Judge the adapter in use, then learn the next one; the loss where something was learned."""
        new, earlier = now.progress.pending, now.progress.memory
        ending, is_good = end_interval(now.progress, now.guard, self.options.memory)
        if is_good:
            now.keep_good()
        if ending == "roll back":
            now.go_back()
            return "rolled back", None
        return ("rested", None) if ending == "rest" else self._learn(now, new, earlier)

    def _learn(self, now: AdaptedTarget, new: list[int], earlier: list[int]) -> tuple[Event, float | None]:
        """Steps on the new answers, each with some earlier ones, and the adapter that comes of it."""
        try:
            loss = self._steps(now, new, earlier)
            if loss is None:
                return "skipped", None
            now.learner.adapter()  # refuses what is not finite
            take_up(now.progress)
            now.forget_answers()
            now.swap_in()
        except AdapterError as error:
            if error.fault != "non_finite":
                raise
            roll_back(now.progress, now.guard, self.options.memory)
            now.go_back()
            return "rolled back", None
        return "learned", loss

    def _steps(self, now: AdaptedTarget, new: list[int], earlier: list[int]) -> float | None:
        """The last step's loss; None where none of them was finite."""
        options, loss = self.options, None
        draw = np.random.default_rng([options.seed, now.progress.learned])
        for _ in range(options.passes):
            for at in range(0, len(new), BATCH):
                count = min(options.replayed, len(earlier))
                again = [earlier[i] for i in draw.choice(len(earlier), count, replace=False)] if count else []
                batch = [a for n in (*new[at : at + BATCH], *again) for a in now.aligned.get(n, [])]
                if batch:
                    found = now.learner.learn(batch)
                    loss = loss if found.skipped else found.loss
        return loss


def _rounds_of(said: Generation) -> list[tuple[int, float]]:
    """Run to the end; draft tokens and seconds of each round, without recording it."""
    rounds = [piece.round for piece in said if piece.round is not None]
    return [(len(r.draft), sum(asdict(r.seconds).values()) - r.seconds.trace) for r in rounds]


def _claimed(place: Path) -> int:
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return claim(place)
    except ClaimError:
        raise SettingError(
            f"{place} is in use by another `omnidraft adapt`", "end it, or give another place"
        ) from None
    except OSError as error:
        raise SettingError(
            f"nothing can be adapted in {place} ({error.strerror})", "choose another place"
        ) from None
