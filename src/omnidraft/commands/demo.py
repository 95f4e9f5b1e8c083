"""`omnidraft demo`: one drafter, two targets with other vocabularies, before and after it learned of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnidraft.commands.bench import Result, as_json, bench
from omnidraft.learning.online.profiles import profile_of
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.runtime.session.api import load
from omnidraft.sample_prompts import PROMPTS, word_problems

STARTERS = ("a", "b")
PROMPT = PROMPTS[0]
TIMED = (*PROMPTS, *word_problems(18))


@dataclass(frozen=True)
class Exported:
    """A starter target with the drafter as it is, and with what it learned of this target folded in.

    Attributes:
        name: of the target. untrained, learned: bundles. cache: the n-grams that were learned.
    """

    name: str
    untrained: Path
    learned: Path
    cache: Path


@dataclass(frozen=True)
class Shown:
    """One target's part of the demo.

    Attributes:
        name: of the target. text, plain_text: the answer to `PROMPT` with the learned drafter, without one.
        untrained, learned: times on `TIMED`, each beside plain decoding: the drafter as it is, with an empty
            cache, and with what it learned of this target.
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
    return Path(__file__).resolve().parents[3] / "examples/starters" / name


def export_starters(place: Path, progress: Callable[[str, int, int], None]) -> list[Exported]:
    """Export both starter pairs, and both again with what was learned folded into the drafter.

    A step of a drafter this small is mostly overhead, which places for adapters would add to. Bundles that
    are there already and whole are kept.
    """
    from omnidraft.errors import BundleError
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantize import FP32, INT8
    from omnidraft.runtime.bundle.bundle import open_bundle
    from omnidraft.training.merge import merge

    options = Options(FP32, drafter_quantization=INT8, overwrite=True, lora_drafter=False, head_blocks=None)

    def made(target: str, drafter: Path, bundle: Path) -> Path:
        try:
            open_bundle(bundle)
        except BundleError:
            export_bundle(str(starter(target)), str(drafter), bundle, options, progress)
        return bundle

    found = []
    for name in STARTERS:
        untrained = made(name, starter("drafter"), place / f"starter-{name}")
        profile = profile_of(starter("learned"), open_bundle(untrained))
        drafter = place / f"drafter-learned-{name}"
        if not drafter.exists():
            merge(str(starter("drafter")), read_adapter(profile.adapter), drafter)
        learned = made(name, drafter, place / f"starter-{name}-learned")
        found.append(Exported(f"starter-{name}", untrained, learned, profile.cache))
    return found


def show(
    pair: Exported,
    progress: Callable[[int, int], None],
    prompts: Sequence[str] = TIMED,
    max_new_tokens: int = 96,
) -> Shown:
    """Answer the prompt, then time plain decoding against the drafter before and after learning."""
    untrained, learned = load(pair.untrained), load(pair.learned, cache=pair.cache)
    ngrams = len(learned.cache)
    plain = untrained.generate(PROMPT, mode="plain", max_new_tokens=max_new_tokens).finish()
    found = learned.generate(PROMPT, max_new_tokens=max_new_tokens).finish()
    results = []
    for i, session in enumerate((untrained, learned)):
        session.measure(PROMPT)

        def step(done: int, of: int, before: int = i) -> None:
            progress(before * of + done, 2 * of)

        results.append(bench(session, prompts, max_new_tokens=max_new_tokens, progress=step))
    return Shown(pair.name, found.text, plain.text, results[0], results[1], ngrams)


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
