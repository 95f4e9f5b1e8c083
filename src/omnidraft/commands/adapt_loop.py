"""The loop of `omnidraft adapt`: which bundle answers which prompt, who learns, and what it came to."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from omnidraft.chat_template import template_of
from omnidraft.commands.curve_plot import can_draw, draw_curve
from omnidraft.counted import counted
from omnidraft.errors import PromptError, SettingError
from omnidraft.runtime.bundle import Bundle, open_bundle
from omnidraft.runtime.learner.adaptation import CURVE, Adaptation
from omnidraft.runtime.learner.averaged import Averaged
from omnidraft.runtime.learner.curve import Line, mean, read_curve
from omnidraft.runtime.learner.learner import Learner
from omnidraft.runtime.request import Request
from omnidraft.runtime.signature import PublicKey
from omnidraft.runtime.weights import Weights, load_weights

PICTURE = "curve.png"
LEARNERS = ("auto", "torch", "onnx")
Ended = Literal["done", "minutes", "interrupted"]


@dataclass(frozen=True)
class Learning:
    """How the drafter learns.

    Attributes:
        learner: torch, onnx (the bundle's training graph, without torch) or auto: onnx where it is there.
        drafter: checkpoint of the bundle's drafter, for torch.
        objective, rate, lora_rank: see `TrainerOptions`. head: also train the adaptive head.
    """

    learner: str = "auto"
    drafter: str | None = None
    objective: str = "trie-kl"
    rate: float = 4e-3
    lora_rank: int = 32
    head: bool = False

    def check(self, bundle: Bundle) -> None:
        """
        Raises:
            SettingError: nothing can learn this way here.
        """
        if self.learner not in LEARNERS:
            raise SettingError(f'--learner "{self.learner}" is unknown; use one of {", ".join(LEARNERS)}')
        if self.learner == "onnx" and bundle.drafter.train is None:
            raise SettingError(
                f"{bundle.path.name} holds no training step; export it again with --train-step, or learn "
                "with --learner torch"
            )
        if self._is_onnx(bundle):
            if self.head:
                raise SettingError("--head is trained by torch; add --learner torch and --drafter")
            return
        if self.drafter is None:
            raise SettingError(
                f"{bundle.path.name} holds no training step, so torch learns, which needs the weights that "
                "its drafter was exported from; give their directory or hub id with --drafter, or export "
                "with --train-step"
            )
        if missing := [name for name in ("torch", "transformers") if not find_spec(name)]:
            raise SettingError(
                f"learning needs {' and '.join(missing)}, which this Python does not have; "
                "run `pip install 'omnidraft[export,train]'`"
            )

    def _is_onnx(self, bundle: Bundle) -> bool:
        return self.learner != "torch" and bundle.drafter.train is not None

    def make(self, weights: Weights) -> Learner:
        """A learner for the drafter of some weights."""
        self.check(weights.bundle)
        if self._is_onnx(weights.bundle):
            from omnidraft.runtime.learner.ort_learner import OrtLearner, StepOptions

            step = StepOptions(self.objective, self.rate, weight_decay=0.0)
            return Averaged(OrtLearner(weights.bundle, weights.vocab_map, step))
        assert self.drafter is not None
        from omnidraft.training.torch_learner import TorchLearner
        from omnidraft.training.trainer_options import TrainerOptions

        options = TrainerOptions(
            objective=self.objective,
            learning_rate=self.rate,
            lora_rank=self.lora_rank,
            weight_decay=0.0,
            head="joint" if self.head else None,
        )
        return Averaged(TorchLearner(self.drafter, weights, options))


@dataclass(frozen=True)
class Schedule:
    """Which bundle answers which prompt.

    Attributes:
        bundles: prompt number from which on each answers, the first of them 0, ascending.
    """

    bundles: Sequence[tuple[int, Path]]

    @classmethod
    def parse(cls, first: Path, switches: Sequence[str]) -> Schedule:
        """The first bundle, and the others as `N=BUNDLE`.

        Raises:
            SettingError: one is not in that form, or two are at the same prompt.
        """
        found = [(0, first)]
        for each in switches:
            number, _, path = each.partition("=")
            if not (number.isdecimal() and int(number) > 0 and path):
                raise SettingError(f'--switch-at "{each}" is not NUMBER=BUNDLE; 100=my-other-bundle is')
            found.append((int(number), Path(path)))
        found.sort(key=lambda item: item[0])
        if len({number for number, _ in found}) < len(found):
            raise SettingError("two --switch-at are at the same prompt; give each a number of its own")
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
    schedule: Schedule
    request: Request
    raw: bool = False
    threads: int | None = None
    public_key: PublicKey | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    ended: Ended = "done"
    skipped: list[str] = field(default_factory=list)

    def run(
        self, prompts: Sequence[str], minutes: float | None, on_line: Callable[[Line], None]
    ) -> list[Line]:
        """Answer from where the checkpoint is; returns the lines of this run."""
        until = None if minutes is None else time.monotonic() + 60.0 * minutes
        found: list[Line] = []
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
        weights = load_weights(open_bundle(path, self.public_key), threads=self.threads)
        self.adaptation.switch(weights)
        self.adaptation.session.template = template_of(weights.bundle)


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


@dataclass(frozen=True)
class Summary:
    """What an adaptation came to, over all its runs in a place.

    Attributes:
        answers: in all runs; now: in this one. first, last: means over the first and the last quarter.
        learned, rolled_back: intervals.
        learning_seconds: in all runs.
    """

    place: str
    ended: Ended
    answers: int
    now: int
    first: dict[str, float | None]
    last: dict[str, float | None]
    learned: int
    rolled_back: int
    learning_seconds: float
    cache: int
    targets: list[str]
    curve: str
    picture: str | None
    skipped: list[str]


def summary(place: Path, loop: Loop, now: int) -> Summary:
    """Read back from what was written, with the picture drawn."""
    lines = read_curve(place / CURVE)
    picture = place / PICTURE if lines and can_draw() else None
    if picture is not None:
        draw_curve(lines, picture)
    quarter = max(1, len(lines) // 4)
    return Summary(
        place=str(place),
        ended=loop.ended,
        answers=len(lines),
        now=now,
        first=mean(lines[:quarter]),
        last=mean(lines[-quarter:]),
        learned=sum(line.event == "learned" for line in lines),
        rolled_back=sum(line.event == "rolled back" for line in lines),
        learning_seconds=sum(line.learning for line in lines),
        cache=lines[-1].cache if lines else 0,
        targets=list(dict.fromkeys(line.target for line in lines)),
        curve=str(place / CURVE),
        picture=None if picture is None else str(picture),
        skipped=loop.skipped,
    )


def as_json(found: Summary) -> dict[str, Any]:
    """For machines."""
    return asdict(found)


FEW = 32  # answers, of which a quarter is one interval


def table(found: Summary) -> Table:
    """For people: the first quarter of the answers beside the last."""
    table = Table(title=f"{counted(found.answers, 'answer')}, {found.now} of them now")
    for heading in ("", "first quarter", "last quarter"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, label, form in (
        ("tokens_per_target_pass", "tokens per target pass", "{:.2f}"),
        ("acceptance", "draft tokens accepted", "{:.1%}"),
        ("speed_up", "speed-up over plain", "{:.2f}x"),
    ):
        cells = ["-" if v is None else form.format(v) for v in (found.first[name], found.last[name])]
        table.add_row(label, *cells)
    table.add_row("intervals learned, rolled back", "", f"{found.learned}, {found.rolled_back}")
    table.add_row("n-grams learned", "", f"{found.cache:,}")
    if found.answers < FEW:
        table.caption = f"too few to tell a gain from chance: {counted(found.answers, 'answer')}"
    return table


def files(found: Summary) -> list[str]:
    """Where the curve and its picture are, one line each, whole however narrow the terminal is."""
    return [f"curve: {found.curve}", *([f"picture: {found.picture}"] if found.picture else [])]
