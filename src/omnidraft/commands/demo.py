"""`omnidraft demo`: one drafter, two targets with other vocabularies, before and after it learned of each."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from omnidraft.commands.bench import Result, as_json, bench
from omnidraft.commands.word_problems import word_problems
from omnidraft.export.prompts import PROMPTS
from omnidraft.runtime.generate import Session, load_weights
from omnidraft.runtime.learner.profiles import profile_of

STARTERS = ("a", "b")
PROMPT = PROMPTS[0]
TIMED = (*PROMPTS, *word_problems(18))


@dataclass(frozen=True)
class Shown:
    """One target's part of the demo.

    Attributes:
        name: of its bundle. text, plain_text: the answer to `PROMPT` by the learned drafter, and without one.
        untrained, learned: times on `TIMED`, each beside plain decoding: the drafter as it is, with an empty
            cache, and with the adapter and the n-grams that it learned of this target.
        ngrams: how many of those there are.
    """

    name: str
    text: str
    plain_text: str
    untrained: Result
    learned: Result
    ngrams: int

    @property
    def plain(self) -> float:
        """Tokens a second of plain decoding, over both benchmarks."""
        lines = [*self.untrained.lines, *self.learned.lines]
        return sum(line.plain for line in lines) / len(lines)


def starter(name: str) -> Path:
    """The directory of a starter model: drafter, a or b."""
    return Path(str(files("omnidraft") / "starters" / name))


def export_starters(place: Path, progress: Callable[[str, int, int], None]) -> list[Path]:
    """Export both starter pairs into `place`; a pair that is there already and whole is kept."""
    from omnidraft.errors import BundleError
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options
    from omnidraft.export.quantize import FP32
    from omnidraft.runtime.bundle import open_bundle

    bundles = []
    for name in STARTERS:
        bundle = place / f"starter-{name}"
        bundles.append(bundle)
        try:
            open_bundle(bundle)
        except BundleError:
            # fp32: places for adapters cost an int8 step of so small a drafter a quarter, an fp32 step 6 %.
            options = Options(FP32, drafter_quantization=FP32, overwrite=True, head_blocks=None)
            export_bundle(str(starter(name)), str(starter("drafter")), bundle, options, progress)
    return bundles


def copy_learned(place: Path) -> Path:
    """A copy of what the starter drafter learned of both targets, which `--profile` takes."""
    copy = place / "learned"
    shutil.copytree(starter("learned"), copy, dirs_exist_ok=True)
    return copy


def show(
    bundle: Path, profiles: Path, progress: Callable[[int, int], None], max_new_tokens: int = 96
) -> Shown:
    """Answer the prompt, then time plain decoding against the drafter before and after learning."""
    weights = load_weights(bundle)
    profile = profile_of(profiles, weights.bundle)
    untrained = Session(weights)
    learned = Session(weights, adapter=profile.adapter, cache=profile.cache)
    ngrams = len(learned.cache)
    plain = untrained.generate(PROMPT, mode="plain", max_new_tokens=max_new_tokens).finish()
    found = learned.generate(PROMPT, max_new_tokens=max_new_tokens).finish()
    untrained.reset_cache()
    results = []
    for i, session in enumerate((untrained, learned)):
        session.measure(PROMPT)

        def step(done: int, of: int, before: int = i) -> None:
            progress(before * of + done, 2 * of)

        results.append(bench(session, TIMED, max_new_tokens=max_new_tokens, progress=step))
    return Shown(bundle.name, found.text, plain.text, results[0], results[1], ngrams)


def to_json(shown: Sequence[Shown]) -> dict[str, Any]:
    """All that was shown, for machines."""
    return {
        each.name: {
            "text": each.text,
            "same_text": each.text == each.plain_text,
            "learned_ngrams": each.ngrams,
            "untrained": as_json(each.untrained),
            "learned": as_json(each.learned),
        }
        for each in shown
    }


def draw(shown: Sequence[Shown], file: Path) -> None:
    """Tokens a second, plain against omnidraft before and after learning, as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 0.9 + 1.25 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for row, one in enumerate(reversed(shown)):
        axes.barh(
            row + 0.28, one.plain, height=0.26, color="#9aa5b1", label=None if row else "plain decoding"
        )
        axes.text(one.plain, row + 0.28, f" {one.plain:.0f}", va="center")
        ways = (one.untrained, "#8fb3f2", "untrained drafter"), (one.learned, "#2f6fde", "learned drafter")
        for offset, (result, colour, name) in zip((0.0, -0.28), ways, strict=True):
            speed = one.plain * result.speed_up
            axes.barh(row + offset, speed, height=0.26, color=colour, label=None if row else name)
            axes.text(speed, row + offset, f" {speed:.0f}", va="center")
            axes.text(
                one.plain * 0.03, row + offset,
                f"{result.speed_up:.2f}x, {result.tokens_per_target_pass:.2f} tokens per target pass",
                va="center", color="white" if colour == "#2f6fde" else "black", fontsize=9,
            )  # fmt: skip
    axes.set_yticks(range(len(shown)), [one.name for one in reversed(shown)])
    axes.set_xlabel("tokens a second (greedy, same text)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(file, dpi=130)
