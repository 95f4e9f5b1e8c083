"""The loop of `omnidraft adapt`: which bundle answers which prompt, and what it came to."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from omnidraft.commands.adapt.adapt_learner import Learning
from omnidraft.errors import PromptError, SettingError
from omnidraft.learning.online.adaptation import Adaptation
from omnidraft.learning.online.adapted_target import AdaptOptions
from omnidraft.learning.online.curve import CurveLine
from omnidraft.learning.online.profiles import AdaptSettings, profile_of
from omnidraft.runtime.bundle.bundle import MANIFEST, Bundle, open_bundle
from omnidraft.runtime.bundle.signature import PublicKey
from omnidraft.runtime.session.chat_template import template_of
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.loaded_bundle import load_bundle

Ended = Literal["done", "minutes", "interrupted"]


@dataclass(frozen=True)
class BundleSchedule:
    """Which bundle answers which prompt.

    Attributes:
        bundles: prompt number from which on each answers, the first of them 0, ascending.
    """

    bundles: Sequence[tuple[int, Path]]

    @classmethod
    def parse(cls, first: Path, switches: Sequence[str]) -> BundleSchedule:
        """The first bundle, and the others as `N=BUNDLE`.

        Raises:
            SettingError: one is not in that form, or two are at the same prompt.
        """
        found = [(0, first)]
        for each in switches:
            number, _, path = each.partition("=")
            if not (number.isdecimal() and int(number) > 0 and path):
                raise SettingError(f'--switch-at "{each}" is not NUMBER=BUNDLE', "100=my-other-bundle is")
            found.append((int(number), Path(path)))
        found.sort(key=lambda item: item[0])
        if len({number for number, _ in found}) < len(found):
            raise SettingError("two --switch-at are at the same prompt", "give each a number of its own")
        return cls(found)

    def at(self, prompt: int) -> Path:
        """The bundle that answers a prompt."""
        return next(path for number, path in reversed(self.bundles) if number <= prompt)


@dataclass
class Loop:
    """The loop of the command.

    Attributes:
        ended: why it stopped. skipped: prompts that could not be answered, with the reason.
    """

    adaptation: Adaptation
    learning: Learning
    schedule: BundleSchedule
    request: GenerationConfig
    raw: bool = False
    threads: int | None = None
    public_key: PublicKey | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    ended: Ended = "done"
    skipped: list[str] = field(default_factory=list)

    def run(
        self, prompts: Sequence[str], minutes: float | None, on_line: Callable[[CurveLine], None]
    ) -> list[CurveLine]:
        """Answer from where the checkpoint is; returns the lines of this run."""
        until = None if minutes is None else time.monotonic() + 60.0 * minutes
        found: list[CurveLine] = []
        loaded: Path | None = None
        while self.adaptation.position < len(prompts):
            if self.stop.is_set() or (until is not None and time.monotonic() >= until):
                self.ended = "interrupted" if self.stop.is_set() else "minutes"
                break
            wanted = self.schedule.at(self.adaptation.position)
            if wanted != loaded:
                self._load(wanted)
                loaded = wanted
            at = self.adaptation.position
            try:
                line = self.adaptation.answer(prompts[at], self.request, raw=self.raw)
            except PromptError as error:
                self.skipped.append(f"prompt {at + 1} is passed by: {error}")
                self.adaptation.skip()
                continue
            found.append(line)
            on_line(line)
        if loaded is not None:
            self.adaptation.write()
        return found

    def _load(self, path: Path) -> None:
        weights = load_bundle(open_bundle(path, self.public_key), threads=self.threads)
        self.adaptation.switch(weights, self.learning.settings(weights.bundle))
        self.adaptation.session.template = template_of(weights.bundle)


def check(place: Path, bundle: Bundle, learning: Learning, options: AdaptOptions) -> None:
    """
    Raises:
        SettingError: the place is a bundle, nothing can learn of a bundle here, or what was learned in the
            place was so with other settings.
    """
    if (place / MANIFEST).exists():
        raise SettingError(f"--out {place} is a bundle", "give a directory of its own for what is learned")
    learning.check(bundle)
    ours = {**options.settings, **learning.settings(bundle)}
    if theirs := profile_of(place, bundle).differing(ours):
        wanted = _typed({name: ours[name] for name in theirs})
        raise SettingError(
            f"{place} was begun with {_typed(theirs)} and not with {wanted}",
            "give the same to go on, or another --out to start over",
        )


def _typed(settings: AdaptSettings) -> str:
    """AdaptSettings as they are typed."""
    options = {f"--{name.replace('_', '-')}": value for name, value in settings.items()}
    flags = {True: "{}", False: "no {}"}
    return " ".join(
        flags[value].format(name) if isinstance(value, bool) else f"{name} {value}"
        for name, value in options.items()
    )


@contextmanager
def stopping(stop: threading.Event, told: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C ends the loop after the answer that is going on; the second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, _: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        told()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
