"""`omnidraft demo`: one drafter, two targets with other vocabularies, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from omnidraft.commands.bench import Result, bench
from omnidraft.runtime.generate import Session, load

STARTERS = ("a", "b")
PROMPT = (
    "Mia has 4 boxes with 12 pencils each. She gives 9 pencils to her brother. How many pencils are left?"
)


@dataclass(frozen=True)
class Shown:
    """One target's part of the demo."""

    name: str
    text: str
    plain_text: str
    result: Result
    learned: int


def starter(name: str) -> Path:
    """The directory of a starter model: drafter, a or b."""
    return Path(str(files("omnidraft") / "starters" / name))


def export_starters(place: Path, progress: Callable[[str, int, int], None]) -> list[Path]:
    """Export both starter pairs into `place`; a pair that is there already and whole is kept."""
    from omnidraft.errors import BundleError
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options
    from omnidraft.export.quantize import FP32, INT8
    from omnidraft.runtime.bundle import open_bundle

    bundles = []
    for name in STARTERS:
        bundle = place / f"starter-{name}"
        bundles.append(bundle)
        try:
            open_bundle(bundle)
        except BundleError:
            # A step of a drafter this small is mostly overhead: empty places for adapters would cost a fifth.
            options = Options(
                FP32, drafter_quantization=INT8, overwrite=True, lora_drafter=False, head_blocks=None
            )
            export_bundle(str(starter(name)), str(starter("drafter")), bundle, options, progress)
    return bundles


def show(
    bundle: Path, prompts: Sequence[str], progress: Callable[[int, int], None], max_new_tokens: int = 96
) -> Shown:
    """Answer the prompt both ways, then time both ways on all prompts with the cache that was learned."""
    session = load(bundle)
    plain = session.generate(PROMPT, mode="plain", max_new_tokens=max_new_tokens).finish()
    found = session.generate(PROMPT, max_new_tokens=max_new_tokens).finish()
    result = bench(session, prompts, max_new_tokens=max_new_tokens, progress=progress)
    return Shown(bundle.name, found.text, plain.text, result, _learned(session))


def _learned(session: Session) -> int:
    return len(session.cache)


def draw(shown: Sequence[Shown], file: Path) -> None:
    """Tokens a second, plain against speculative, as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 0.9 + 0.95 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for row, one in enumerate(reversed(shown)):
        lines = one.result.lines
        plain = sum(line.plain for line in lines) / len(lines)
        bars = ("plain", plain, "#9aa5b1"), ("omnidraft", plain * one.result.speed_up, "#2f6fde")
        for offset, (name, speed, colour) in zip((0.2, -0.2), bars, strict=True):
            axes.barh(row + offset, speed, height=0.36, color=colour, label=name if row == 0 else None)
            axes.text(speed, row + offset, f" {speed:.0f}", va="center")
        axes.text(
            plain * one.result.speed_up * 0.03, row - 0.2,
            f"{one.result.speed_up:.2f}x, {one.result.tokens_per_target_pass:.2f} tokens per target pass",
            va="center", color="white", fontsize=9,
        )  # fmt: skip
    axes.set_yticks(range(len(shown)), [one.name for one in reversed(shown)])
    axes.set_xlabel("tokens a second (greedy, same text)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(file, dpi=130)
