"""What the demo shows: answers, a table and a picture of the speeds by kind of prompt."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from omnidraft.commands.bench import BenchResult, speed_of_lines
from omnidraft.commands.starters import WHOLE
from omnidraft.commands.terminal import output
from omnidraft.commands.terminal.output import Table
from omnidraft.errors import counted
from omnidraft.pair_verdict import Speed

ALL = "all"


@dataclass(frozen=True)
class Answer:
    """A question, the answer with drafts, and whether plain decoding gave the same tokens."""

    question: str
    text: str
    same: bool


@dataclass(frozen=True)
class Demo:
    """What the demo measured.

    Attributes:
        kinds: of the timed prompts, in their order.
        before: times with the drafter as it is.
        after: times with what was learned.
        learned: number of answers that were learned from, in this run and earlier ones.
        seconds: of answering and learning in this run.
    """

    title: str
    answers: Sequence[Answer]
    kinds: Sequence[str]
    before: BenchResult
    after: BenchResult
    learned: int
    seconds: float
    place: Path


def by_kind(demo: Demo) -> Iterator[tuple[str, Speed, Speed]]:
    """Each kind with its speeds before and after learning; all prompts last."""
    for kind in dict.fromkeys(demo.kinds):
        at = [place for place, each in enumerate(demo.kinds) if each == kind]
        before, after = ([result.lines[place] for place in at] for result in (demo.before, demo.after))
        yield kind, speed_of_lines(before), speed_of_lines(after)
    yield ALL, demo.before.speed, demo.after.speed


def show_demo(demo: Demo) -> None:
    """Print the answers and the table."""
    for each in demo.answers:
        output.out.print(f"\n{each.question}", style="bold", markup=False)
        output.out.print(each.text.strip(), markup=False)
    same = sum(each.same for each in demo.answers)
    output.say(
        f"\n{same} of {len(demo.answers)} texts are plain decoding's to the last token; kernels of 4 and 8 "
        "bits round a block of tokens otherwise than one (on x86-64 `bitwise = true` makes them the same)"
    )
    output.out.print(demo_table(demo))
    for name, result in (("before", demo.before), ("after", demo.after)):
        low, high = result.speed.interval
        output.say(f"{name}: {result.speed.ratio:.2f}x of plain decoding (95 % {low:.2f}-{high:.2f})")
    output.say(f"picture: {demo.place / 'speed.png'}")


def demo_table(demo: Demo) -> Table:
    """Speeds by kind of prompt."""
    table = Table(
        title=f"{demo.title}, greedy: {len(demo.kinds)} unseen prompts; learned from "
        f"{counted(demo.learned, 'answer')} to others, {demo.seconds:.0f} s"
    )
    table.add_column("kind")
    for name in ("plain tok/s", "as it is", "copies", "drafts", "learned", "copies", "drafts"):
        table.add_column(name, justify="right", no_wrap=True)
    for kind, before, after in by_kind(demo):
        plain = [line.plain for at, line in enumerate(demo.before.lines) if kind in (ALL, demo.kinds[at])]
        cells = [f"{len(plain) / sum(1 / each for each in plain):.0f}"]
        for speed in (before, after):
            cells += [f"{speed.ratio:.2f}x", f"+{speed.copies:.2f}", f"+{speed.drafts:.2f}"]
        table.add_row(kind, *cells)
    table.caption = "copies and drafts: tokens that they add to each target pass"
    return table


def draw(demo: Demo, file: Path) -> None:
    """Write a PNG: tokens of a target pass by source, and the speed, for each kind before and after."""
    kinds = [(kind, [("as it is", before), ("learned", after)]) for kind, before, after in by_kind(demo)]
    draw_bars(kinds, f"{demo.title} (greedy)", file)


def draw_bars(rows: Sequence[tuple[str, Sequence[tuple[str, Speed]]]], target: str, file: Path) -> None:
    """Write a PNG with a bar for each speed: tokens of a target pass by source, and the speed beside it.

    Args:
        rows: the label of each row, and the names and speeds of its bars.
        target: what the axis names.
        file: of the picture.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 1.2 + 0.36 * sum(len(bars) for _, bars in rows)), layout="constrained")
    axes = figure.add_subplot()
    parts = (("target", "#9aa5b1"), ("copies of the text", "#8fb3f2"), ("drafts", "#2f6fde"))
    for row, (_, bars) in enumerate(reversed(rows)):
        for number, (name, speed) in enumerate(bars):
            at, left = row + (len(bars) - 1 - 2 * number) * 0.4 / len(bars), 0.0
            for (label, colour), width in zip(parts, (1.0, speed.copies, speed.drafts), strict=True):
                shown = label if row == number == 0 else None
                axes.barh(at, width, left=left, height=0.72 / len(bars), color=colour, label=shown)
                left += width
            axes.text(0.02, at, name, va="center", fontsize=8)
            axes.text(left, at, f" {speed.ratio:.2f}x", va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), [label for label, _ in reversed(rows)])
    axes.set_xlabel(f"tokens for each pass of {target}; beside the bars: speed over plain decoding")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.1)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(file, dpi=130)


def what_next(place: Path) -> tuple[str, ...]:
    """What to try next, a line each."""
    return (
        f"To try next; {WHOLE}, learned and mine.safetensors of the guides are in {place}:",
        *_activation(),
        f"  cd {shlex.quote(str(place))}",
        f'  omnidraft generate {WHOLE} "How many legs do 3 cats have?" --adapter learned',
        f"  omnidraft chat {WHOLE} --adapter learned",
        f"  omnidraft doctor {WHOLE}",
        f'  omnidraft generate {WHOLE} "How many legs do 5 cats have?" --trace my-trace',
        f"  omnidraft learn {WHOLE} my-trace -o more.safetensors",
    )


def _activation() -> tuple[str, ...]:
    script = Path(sys.prefix) / "bin" / "activate"
    known = shutil.which("omnidraft") is not None or not script.is_file()
    return () if known else (f"  . {shlex.quote(str(script))}",)
