"""`omnidraft demo`: a real model with the drafter in the box, before and after it learned."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from omnidraft.commands.bench import BENCH_CONFIG, BenchResult, bench, timed
from omnidraft.commands.demo.real_models import REAL_MODELS, fetch
from omnidraft.commands.demo.show_demo import Answer, Demo, draw, show_demo, what_next
from omnidraft.commands.learn.while_answering import Learning, Loop, begin
from omnidraft.commands.starters import export_whole, find_starters, guide_files
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.export_packages import need_export_packages
from omnidraft.commands.terminal.open_session import tell
from omnidraft.errors import SettingError
from omnidraft.learning.online.adaptation import Adaptation
from omnidraft.learning.online.adapted_target import answer_settings
from omnidraft.learning.online.profiles import Profile, profile_of
from omnidraft.mixed_prompts import learned_prompts, unseen_prompts
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.session.api import TextSession, load
from omnidraft.runtime.session.language_model import LoadOptions

QUESTIONS = (
    "Give me three tips for a good night's sleep.",
    "Write a Python function that checks whether a word is a palindrome.",
    "Why do we have seasons on Earth?",
)
STARTER = "starter"  # the target that needs no network
TARGETS = (*REAL_MODELS, STARTER)
_ANSWER = 96  # tokens of an answer
_MOST_LEARNED = 4000  # prompts to learn from; the time ends before


def demo(
    place: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for the bundle, the learned files and the picture.")
    ] = Path("omnidraft-demo"),
    target: Annotated[
        str, typer.Option(help=f"The model to speed up: {options.one_of(TARGETS)}; starter needs no network.")
    ] = "smollm2",
    minutes: Annotated[float, typer.Option(min=0.0, help="Time to learn while it answers.")] = 1.5,
) -> None:
    """Fetch and export a real model, answer questions, and compare plain and speculative speed.

    The drafter then learns while it answers other prompts of the same kinds, and the same prompts are timed
    again. It leaves `my-bundle`, with everything that the guides use: adapters, n-grams and a training step.
    """
    if target not in TARGETS:
        raise SettingError(f'--target "{target}" is unknown', f"use {options.one_of(TARGETS)}")
    models = find_starters()
    need_export_packages()
    title, source = _source(target, models)
    with output.progress_bar(f"export {title}") as bar:
        bundle = export_whole(place, bar.stage, source)
    session = load(bundle)
    answers = [_answer(session, question) for question in QUESTIONS]
    session.measure(QUESTIONS[0])
    before = _time(session, "time the drafter as it is")
    learned = _learn(place / "learned", bundle, minutes)
    profile = learned.profile
    guide_files(place, profile)
    adapter = profile.adapter if profile.adapter.is_file() else None
    session = load(bundle, cache=profile.cache, adapter=adapter)
    session.measure(QUESTIONS[0])
    after = _time(session, "time the drafter that learned")
    kinds = [kind for kind, _ in unseen_prompts()]
    result = Demo(title, answers, kinds, before, after, learned.answers, learned.seconds, place)
    draw(result, place / "speed.png")
    show_demo(result)
    for line in what_next(place):
        output.say(line)


def _source(target: str, models: Path) -> tuple[str, Path | None]:
    """The title of the target and its file; None for the starter, which is what a machine without a network
    gets.
    """
    if target != STARTER:
        try:
            model = REAL_MODELS[target]
            return model.title, fetch(model, lambda line: tell([line]))
        except SettingError as error:
            tell([f"{error}", "continuing with the starter model, which is far too small for right answers"])
    return "starter-a", None


def _answer(session: TextSession, question: str) -> Answer:
    config = replace(BENCH_CONFIG, max_new_tokens=_ANSWER)
    plain = session.generate(question, config, mode="plain").finish()
    fast = session.generate(question, config).finish()
    return Answer(question, fast.text, fast.token_ids == plain.token_ids)


def _time(session: TextSession, what: str) -> BenchResult:
    config = replace(BENCH_CONFIG, max_new_tokens=_ANSWER)
    prompts = [prompt for _, prompt in unseen_prompts()]
    with output.progress_bar(what) as bar:
        return bench(session, prompts, config, list(timed(session, prompts, config, bar.stage)))


@dataclass(frozen=True)
class _Learned:
    """What was learned: where it is, from how many answers in all, and in how many seconds now."""

    profile: Profile
    answers: int
    seconds: float


def _learn(out: Path, bundle: Path, minutes: float) -> _Learned:
    config = replace(BENCH_CONFIG, max_new_tokens=_ANSWER)
    learning = Learning(answering=answer_settings(config, raw=False))
    opened, load = open_bundle(bundle), LoadOptions()
    prompts: Sequence[str] = learned_prompts(_MOST_LEARNED)
    started = time.monotonic()
    with (
        output.progress_bar("learn") as bar,
        closing(Adaptation(out, learning.make, prompts="demo")) as adaptation,
    ):
        begin(adaptation, opened, load, learning)
        loop = Loop(adaptation, config)
        loop.run(prompts, minutes, lambda _: bar.stage("answers", adaptation.position, len(prompts)))
        answers = adaptation.answered
    return _Learned(profile_of(out, opened), answers, time.monotonic() - started)
