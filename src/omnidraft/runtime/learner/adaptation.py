"""The online loop: answer with speculation, learn every interval, swap the adapter in, guard it, go on.

What is said is the target's own, whatever the drafter learns. A kill at any moment loses what came after the
last checkpoint, and going on does that again: learning has no clock and no randomness but the seeds'.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np

from omnidraft.errors import AdapterError, SettingError, TraceFileError
from omnidraft.runtime.adapter import Adapter
from omnidraft.runtime.adapter_file import write_adapter
from omnidraft.runtime.atomic_write import write_atomically
from omnidraft.runtime.cache_file import decode as decode_cache
from omnidraft.runtime.cache_file import encode as encode_cache
from omnidraft.runtime.cache_store import new_replica, write_cache
from omnidraft.runtime.cache_table import check_against
from omnidraft.runtime.generation import Generation
from omnidraft.runtime.learner.alignment import Aligned, Aligner
from omnidraft.runtime.learner.curve import Curve, Event, Line
from omnidraft.runtime.learner.draft_law import full_trie
from omnidraft.runtime.learner.from_traces import TraceAligner, from_traces
from omnidraft.runtime.learner.guard import Guard, GuardOptions
from omnidraft.runtime.learner.learner import Learner
from omnidraft.runtime.learner.profiles import (
    Checkpoint,
    Profile,
    Progress,
    pair_of,
    profile_of,
    profiles_in,
)
from omnidraft.runtime.ngram_cache import NgramCache
from omnidraft.runtime.request import Request
from omnidraft.runtime.session import Session
from omnidraft.runtime.trace import Vocabularies
from omnidraft.runtime.trace_directory import claimed
from omnidraft.runtime.trace_file import decode as decode_trace
from omnidraft.runtime.trace_memory import TraceMemory, segment_of
from omnidraft.runtime.weights import Weights

CURVE = "curve.jsonl"
BATCH = 8  # new answers in one step, as in the paper
_PLAIN_TOKENS, _PLAIN_KEPT = 16, 5  # of a measurement of plain decoding, and how many of them count
_MOST_REST = 32  # intervals
_SLOWER, _RECOVERY = 0.5, 1.25  # of the rate: at a roll-back, and at every adapter that is found good


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
    passes: int = 2
    replayed: int = 8
    memory: int = 64
    seed: int = 0
    guard: GuardOptions = field(default_factory=GuardOptions)

    def __post_init__(self) -> None:
        for name, at_least in (("interval", 1), ("passes", 1), ("replayed", 0), ("memory", 0), ("seed", 0)):
            if getattr(self, name) < at_least:
                raise SettingError(f"{name} {getattr(self, name)} is less than {at_least}; leave it out")


class _Target:
    """The target that is adapted to now: its session, learner, guard and place."""

    def __init__(self, weights: Weights, learner: Learner, place: Path, options: AdaptOptions) -> None:
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
        self.profile.prepare()
        found = self.profile.read(self.pair)
        if found is not None:
            self._go_on(found)
        self.profile.keep_answers({*self.progress.memory, *self.progress.pending})

    def _go_on(self, found: Checkpoint) -> None:
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
                    f"{self.profile.answer(number)} cannot be learned from ({error}); "
                    f"delete {self.profile.directory} to begin anew"
                ) from None

    def swap_in(self) -> None:
        """Give the session what the learner has, and the learner its rate."""
        self.learner.rate = self.base_rate * self.progress.slow
        self.session.use_adapter(self.learner.adapter() if self.progress.version else None, "drafter")

    def align(self, number: int, segment: bytes) -> None:
        """Keep an answer to learn from: always as it is on the disk, where numbers are rounded."""
        self.aligned[number] = list(from_traces(decode_trace(segment).generations(), self._aligner))

    def checkpoint(self) -> Checkpoint:
        """All of it, between two answers."""
        cache = self.session.cache
        cache.replica = cache.replica or new_replica()
        progress = self.progress
        progress.guard = self.guard.state()
        good = {} if self.progress.good == self.progress.version else self.good
        return Checkpoint(self.pair, progress, self.learner.state(), good, encode_cache(cache.table()))


class Adaptation:
    """A drafter that learns its targets while it works; one target at a time, each with what is its own.

    Attributes:
        place: where everything is written. curve: its learning curve.
        running: the generation that is going on, None between two.
    """

    def __init__(
        self,
        place: str | Path,
        learner_for: Callable[[Weights], Learner],
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
        self._target: _Target | None = None
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
    def _now(self) -> _Target:
        if self._target is None:
            raise SettingError("no target is loaded; call switch with the weights of a bundle first")
        return self._target

    def switch(self, weights: Weights) -> None:
        """Leave the target in use as it is, and go on with another, or with where it was left before.

        Raises:
            SettingError, AdapterError: what was learned of it cannot be read or is of other models.
        """
        if self._target is not None:
            self.write()
        self._target = None  # its memory goes first
        self._target = _Target(weights, self._learner_for(weights), self.place, self.options)

    def answer(self, prompt: str | Sequence[int], request: Request, *, raw: bool = False) -> Line:
        """Answer the next prompt, learn where an interval ends, and note it in the curve.

        Raises:
            PromptError: the prompt does not serve; nothing changed, `skip` passes it by.
        """
        now, progress = self._now, self._now.progress
        if not progress.pending:
            self._measure_plain(prompt, raw)
        said, seconds = self._generate(prompt, request, raw)
        number = self.answered + 1
        segment = segment_of(now.recorded.take(), now.vocabularies, number)
        write_atomically(now.profile.answer(number), segment)
        now.align(number, segment)
        progress.pending.append(number)
        s = said.statistics
        now.guard.observe(s.emitted, s.rounds)
        line = Line(
            number, self.position, now.profile.directory.name, s.emitted, s.rounds, s.drafted, s.passed,
            steady(seconds) * s.rounds, median(progress.plain) if progress.plain else None,
            len(now.session.cache), progress.version,
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
        self, prompt: str | Sequence[int], request: Request, raw: bool
    ) -> tuple[Generation, list[float]]:
        """One answer and the seconds of its rounds.

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
            return said, _round_seconds(said)
        finally:
            self.running = None

    def _measure_plain(self, prompt: str | Sequence[int], raw: bool) -> None:
        """Seconds a token of the target alone, here and now; nothing is learned or recorded of it."""
        now = self._now
        now.recorded.pause()
        try:
            plain = now.session.generate(prompt, max_new_tokens=_PLAIN_TOKENS, mode="plain", raw=raw)
            seconds = _round_seconds(plain)  # a token each
        finally:
            now.recorded.resume()
        if len(seconds) > 1:
            now.progress.plain = [*now.progress.plain, steady(seconds)][-_PLAIN_KEPT:]

    def _end_interval(self, now: _Target) -> tuple[Event, float | None]:
        """Judge the adapter in use, then learn the next one; the loss where something was learned."""
        progress, verdict = now.progress, now.guard.judge()
        if verdict == "worse" and progress.version != progress.good:
            self._roll_back(now)
            return "rolled back", None
        if verdict == "worse":  # no new adapter is in use, so the texts have changed
            now.guard.forget()
        if verdict == "good" and progress.version != progress.good:
            now.good, progress.good = now.learner.state(), progress.version
            now.good_adapter = now.learner.adapter()
            progress.falls, progress.slow = 0, min(1.0, progress.slow * _RECOVERY)
        new, progress.pending = progress.pending, []
        earlier = [*progress.memory]
        self._remember(now, new)
        if progress.rest:
            progress.rest -= 1
            return "rested", None
        return self._learn(now, new, earlier)

    def _learn(self, now: _Target, new: list[int], earlier: list[int]) -> tuple[Event, float | None]:
        """Steps on the new answers, each with some earlier ones, and the adapter that comes of it."""
        progress, options = now.progress, self.options
        draw, loss, skipped = np.random.default_rng([options.seed, progress.learned]), None, True
        for _ in range(options.passes):
            for at in range(0, len(new), BATCH):
                count = min(options.replayed, len(earlier))
                again = [earlier[i] for i in draw.choice(len(earlier), count, replace=False)] if count else []
                batch = [a for n in (*new[at : at + BATCH], *again) for a in now.aligned.get(n, [])]
                if batch:
                    found = now.learner.learn(batch)
                    loss, skipped = (loss, skipped) if found.skipped else (found.loss, False)
        if skipped:
            return "skipped", None
        progress.learned += 1
        progress.version = progress.learned
        self._forget_answers(now)
        try:
            now.swap_in()
        except AdapterError as error:
            if error.fault != "non_finite":
                raise
            self._roll_back(now)
            return "rolled back", None
        return "learned", loss

    def _roll_back(self, now: _Target) -> None:
        """Back to the last good adapter, which drafts alone for a while: its answers are what to expect.

        So where the texts have changed and no adapter was at fault, the expectation is of the new texts.
        """
        progress = now.progress
        progress.falls += 1
        progress.rest = min(2 ** (progress.falls - 1), _MOST_REST)
        progress.slow *= _SLOWER
        progress.version = progress.good
        self._remember(now, progress.pending)
        progress.pending = []
        now.guard.forget()
        now.learner.restore(now.good)
        now.swap_in()

    def _remember(self, now: _Target, numbers: list[int]) -> None:
        """Keep answers to learn from again; the oldest go."""
        memory = [*now.progress.memory, *numbers]
        now.progress.memory = memory[len(memory) - min(len(memory), self.options.memory) :]

    def _forget_answers(self, now: _Target) -> None:
        kept = {*now.progress.memory, *now.progress.pending}
        now.aligned = {number: found for number, found in now.aligned.items() if number in kept}


def steady(seconds: Sequence[float]) -> float:
    """Seconds a round: the first as it was, and the lower quartile of the others for each of them.

    So what else the machine does meanwhile shows little; of long rounds it breaks into more than of short.
    """
    first, *others = seconds
    return (first + (float(np.quantile(others, 0.25)) * len(others) if others else 0.0)) / len(seconds)


def _round_seconds(said: Generation) -> list[float]:
    """Run to the end; the seconds of each round without recording it."""
    rounds = [piece.round for piece in said if piece.round is not None]
    return [sum(asdict(each.seconds).values()) - each.seconds.trace for each in rounds]


def _claimed(place: Path) -> int:
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return claimed(place)
    except TraceFileError:
        raise SettingError(
            f"{place} is in use by another `omnidraft adapt`; end it, or give another place"
        ) from None
    except OSError as error:
        raise SettingError(
            f"nothing can be adapted in {place} ({error.strerror}); choose another place"
        ) from None
