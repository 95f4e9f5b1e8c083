"""The loop of `omnidraft adapt`: which bundle answers which prompt, and when to stop."""

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
from omnidraft.runtime.bundle.jinja_template import template_of
from omnidraft.runtime.bundle.signature import PublicKey
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.loaded_bundle import load_bundle

Ended = Literal["done", "minutes", "interrupted"]


@dataclass(frozen=True)
class BundleSchedule:
    """Which bundle answers which prompt.

    Attributes:
        bundles: (number of the first prompt, path of the bundle), ascending; the first number is 0.
    """

    bundles: Sequence[tuple[int, Path]]

    @classmethod
    def parse(cls, first: Path, switches: Sequence[str]) -> BundleSchedule:
        """A schedule from the first bundle and from switches.

        Args:
            first: answers from prompt 0 on.
            switches: `N=BUNDLE` each.

        Raises:
            SettingError: a switch does not have this form, or two are at the same prompt.
        """
        bundles = [(0, first)]
        for each in switches:
            number, _, path = each.partition("=")
            if not (number.isdecimal() and int(number) > 0 and path):
                raise SettingError(f'--switch-at "{each}" is not NUMBER=BUNDLE', "such as 100=my-bundle")
            bundles.append((int(number), Path(path)))
        bundles.sort(key=lambda item: item[0])
        if len({number for number, _ in bundles}) < len(bundles):
            raise SettingError("two --switch-at are at the same prompt", "give each a number of its own")
        return cls(bundles)

    def at(self, prompt: int) -> Path:
        """The bundle that answers a prompt."""
        return next(path for number, path in reversed(self.bundles) if number <= prompt)


@dataclass
class Loop:
    """The loop of the command.

    Attributes:
        adaptation: answers and learns.
        learning: makes its learners.
        schedule: which bundle answers.
        config: of the answers.
        raw: leave out the bundle's prompt template.
        threads: of a target pass.
        public_key: of the bundles' signer.
        stop: set to stop after the current answer.
        ended: why the loop stopped.
        skipped: sentences about prompts that could not be answered.
    """

    adaptation: Adaptation
    learning: Learning
    schedule: BundleSchedule
    config: GenerationConfig
    raw: bool = False
    threads: int | None = None
    public_key: PublicKey | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    ended: Ended = "done"
    skipped: list[str] = field(default_factory=list)

    def run(
        self, prompts: Sequence[str], minutes: float | None, on_line: Callable[[CurveLine], None]
    ) -> list[CurveLine]:
        """Answer the prompts after the last checkpoint; returns the lines of the curve that it added."""
        until = None if minutes is None else time.monotonic() + 60.0 * minutes
        lines: list[CurveLine] = []
        loaded: Path | None = None
        while self.adaptation.position < len(prompts):
            if self.stop.is_set() or (until is not None and time.monotonic() >= until):
                self.ended = "interrupted" if self.stop.is_set() else "minutes"
                break
            path = self.schedule.at(self.adaptation.position)
            if path != loaded:
                self._load(path)
                loaded = path
            at = self.adaptation.position
            try:
                line = self.adaptation.answer(prompts[at], self.config, raw=self.raw)
            except PromptError as error:
                self.skipped.append(f"prompt {at + 1} is skipped: {error}")
                self.adaptation.skip()
                continue
            lines.append(line)
            on_line(line)
        if loaded is not None:
            self.adaptation.write()
        return lines

    def _load(self, path: Path) -> None:
        loaded = load_bundle(open_bundle(path, self.public_key, verify="auto"), threads=self.threads)
        self.adaptation.switch(loaded, self.learning.settings(loaded.bundle))
        self.adaptation.session.template = template_of(loaded.bundle)


def check(place: Path, bundle: Bundle, learning: Learning, options: AdaptOptions) -> None:
    """Refuse, before anything is loaded, what cannot be learned.

    Args:
        place: of the adaptation.
        bundle: whose target answers.
        learning: how the drafter learns.
        options: of the adaptation.

    Raises:
        SettingError: the place is a bundle, the learner does not fit the bundle, or the place was begun with
            other settings.
    """
    if (place / MANIFEST).exists():
        raise SettingError(f"--out {place} is a bundle", "give a directory of its own for what is learned")
    learning.check(bundle)
    settings = {**options.settings, **learning.settings(bundle)}
    if recorded := profile_of(place, bundle).differing(settings):
        typed = _typed({name: settings[name] for name in recorded})
        raise SettingError(
            f"{place} was begun with {_typed(recorded)} and not with {typed}",
            "give the same to go on, or another --out to start over",
        )


def _typed(settings: AdaptSettings) -> str:
    """Settings as options of the command line."""
    options = {f"--{name.replace('_', '-')}": value for name, value in settings.items()}
    flags = {True: "{}", False: "no {}"}
    return " ".join(
        flags[value].format(name) if isinstance(value, bool) else f"{name} {value}"
        for name, value in options.items()
    )


@contextmanager
def stopping(stop: threading.Event, notify: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C ends the loop after the current answer, the second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, _: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        notify()

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
