"""`omnidraft learn BUNDLE --prompts FILE`: answer prompts with speculation, and learn every few answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from omnidraft import defaults
from omnidraft.commands.learn.learned_summary import Summary, advice, no_adapter, summary, table
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.generation_options import config_in_file
from omnidraft.commands.terminal.open_session import load_options, tell
from omnidraft.commands.terminal.read_prompts import digest, read_prompts
from omnidraft.commands.terminal.settings_file import SettingsFile
from omnidraft.commands.terminal.stop_signals import telling
from omnidraft.errors import PromptError, SettingError, counted, reason
from omnidraft.learning.averaged import AveragedLearner
from omnidraft.learning.online.adaptation import Adaptation
from omnidraft.learning.online.adapted_target import AdaptOptions, answer_settings
from omnidraft.learning.online.curve import CurveLine, mean
from omnidraft.learning.online.profiles import AdaptSettings, profile_of, profiles_in
from omnidraft.learning.step.learner import Learner
from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions
from omnidraft.runtime.bundle.bundle import MANIFEST, Bundle, need_drafter
from omnidraft.runtime.bundle.jinja_template import template_of
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.language_model import LanguageModel, LoadOptions

Ended = Literal["done", "minutes"]
LATEST = 16  # answers in the running mean that progress shows


@dataclass(frozen=True)
class Learning:
    """How the drafter learns while it answers.

    Attributes:
        answering: settings of the answers that it learns from.
        adapter: of the drafter, learned for this target or another one, to begin with.
    """

    rate: float = defaults.LEARNER_RATE
    answering: AdaptSettings = field(default_factory=dict)
    adapter: Adapter | None = None

    @property
    def settings(self) -> AdaptSettings:
        """The settings that a later run for the same target must have too."""
        return {"learning_rate": self.rate, **self.answering}

    @property
    def step(self) -> StepOptions:
        """Options of the training step.

        Raises:
            SettingError: a value is outside its range.
        """
        return StepOptions(self.rate, weight_decay=0.0)

    def make(self, weights: LanguageModel) -> Learner:
        """A learner for the drafter of a loaded bundle."""
        inner = OrtLearner(weights.bundle, weights.vocab_map, self.step, adapter=self.adapter)
        return AveragedLearner(inner)


@dataclass
class Loop:
    """The loop of the command.

    Attributes:
        adaptation: answers and learns, with a loaded bundle.
        config: of the answers.
        raw: leave out the bundle's prompt template.
        ended: why the loop stopped.
        skipped: sentences about prompts that could not be answered.
    """

    adaptation: Adaptation
    config: GenerationConfig
    raw: bool = False
    ended: Ended = "done"
    skipped: list[str] = field(default_factory=list)

    def run(
        self, prompts: Sequence[str], minutes: float | None, on_line: Callable[[CurveLine], None]
    ) -> None:
        """Answer the prompts after the last checkpoint; each answer adds a line to the curve."""
        until = None if minutes is None else time.monotonic() + 60.0 * minutes
        while self.adaptation.position < len(prompts):
            if until is not None and time.monotonic() >= until:
                self.ended = "minutes"
                break
            at = self.adaptation.position
            try:
                on_line(self.adaptation.answer(prompts[at], self.config, raw=self.raw))
            except PromptError as error:
                self.skipped.append(f"prompt {at + 1} is skipped: {error}")
                self.adaptation.skip()
        self.adaptation.write()


def begin(adaptation: Adaptation, bundle: Bundle, load: LoadOptions, learning: Learning) -> None:
    """Load the bundle whose target answers, and go on from its last checkpoint."""
    loaded = load.load(bundle)
    adaptation.begin(loaded, learning.settings, begun=learning.adapter is not None)
    adaptation.session.template = template_of(loaded.bundle)


def learn_while_answering(
    bundle: Path,
    prompts: Path,
    out: Path,
    minutes: float | None,
    adapter: Path | None,
    file: SettingsFile,
    *,
    as_json: bool,
) -> None:
    """Answer and learn, and print what it gained."""
    config, load = config_in_file(file, GenerationConfig(seed=0)), load_options(file)
    raw, field, count = file.switch("raw", False), file.text("field", None), file.integer("count", None)
    usual, learns = AdaptOptions(), Learning()
    with file.named():
        learning = Learning(
            file.number("learning_rate", learns.rate),
            answer_settings(config, raw),
            None if adapter is None else read_adapter(adapter),
        )
        _ = learning.step
        settings = AdaptOptions(
            interval=file.integer("interval", usual.interval),
            passes=file.integer("passes", usual.passes),
            replayed=file.integer("replay", usual.replayed),
            memory=file.integer("memory", usual.memory),
            seed=config.seed or 0,
        )
        if config.mode == "plain":
            raise SettingError("mode plain drafts nothing, so nothing could be learned", "leave out mode")
    file.refuse_others()
    opened = load.open(bundle)
    check(out, opened, learning, settings)
    texts = read_prompts(prompts, field=field, count=count)
    with (
        telling(lambda: _kept(out)),
        closing(Adaptation(out, learning.make, settings, prompts=digest(texts))) as adaptation,
    ):
        loop = Loop(adaptation, config, raw)
        lines = _run(loop, texts, minutes, lambda: begin(adaptation, opened, load, learning), quiet=as_json)
        result = summary(out, loop.ended, loop.skipped, len(lines))
    _report(result, len(texts) - adaptation.position, as_json)


def _kept(out: Path) -> str:
    if not profiles_in(out):
        return "nothing was learned"
    return f"{out} has everything up to its last checkpoint, and the same command goes on"


def check(place: Path, bundle: Bundle, learning: Learning, options: AdaptOptions) -> None:
    """Refuse, before anything is loaded, what cannot be learned.

    Raises:
        SettingError: the place is a bundle, the bundle has no training step, or the place was begun with
            other settings.
    """
    if (place / MANIFEST).exists():
        raise SettingError(f"--out {place} is a bundle", "give another directory for the learned files")
    need_drafter(bundle)
    if bundle.drafter.train is None:
        raise SettingError(f"{bundle.path.name} holds no training step", "export it again with --train-step")
    settings = {**options.settings, **learning.settings}
    if recorded := profile_of(place, bundle).differing(settings):
        raise SettingError(
            f"{place} was begun with {_pairs(recorded)} and not with "
            f"{_pairs({name: settings[name] for name in recorded})}",
            "give the same to go on, or another --out to start over",
        )


def _pairs(settings: AdaptSettings) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())


def _run(
    loop: Loop, prompts: Sequence[str], minutes: float | None, load: Callable[[], None], *, quiet: bool
) -> list[CurveLine]:
    """Load the bundle and run the loop with progress; the lines of the curve that it added."""
    lines: list[CurveLine] = []
    adaptation = loop.adaptation
    with output.progress_bar("learn", quiet=quiet) as bar:

        def on_line(line: CurveLine) -> None:
            lines.append(line)
            tokens = mean(lines[-LATEST:])["tokens_per_target_pass"]
            learned = f"{counted(line.cache, 'n-gram')}, adapter {line.version}"
            bar.stage(f"{tokens:.2f} tokens per target pass, {learned}", adaptation.position, len(prompts))

        adaptation.on_learning = lambda: bar.stage("learning", adaptation.position, len(prompts))
        bar.stage("loading", adaptation.position, len(prompts))
        load()
        try:
            loop.run(prompts, minutes, on_line)
        except OSError as error:
            raise SettingError(
                f"{adaptation.place} cannot be written ({reason(error)}), and has everything up to its "
                "last checkpoint",
                "make room, and the same command goes on",
            ) from error
    return lines


def _report(result: Summary, left: int, as_json: bool) -> None:
    """Print the result and how to go on."""
    tell((*result.skipped, *no_adapter(result)))
    if as_json:
        options.print_json({**asdict(result), "advice": advice(result)})
    else:
        output.out.print(table(result))
        print(f"curve: {result.curve}")
        print(advice(result))
    if result.ended != "done":
        tell([f"left to do: {counted(left, 'prompt')}; the same command goes on"])
