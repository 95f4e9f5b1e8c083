"""`omnidraft demo`: one drafter and two targets with other vocabularies, before and after it learned."""

import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft.commands.bench import BENCH_CONFIG, BenchResult, bench, bench_json
from omnidraft.commands.starters import (
    WHOLE,
    StarterPair,
    export_starters,
    export_whole,
    find_starters,
)
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.export_packages import need_export_packages
from omnidraft.commands.terminal.output import Table
from omnidraft.packing.share_drafter import users_of
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.session.api import load
from omnidraft.sample_prompts import PROMPTS, word_problems

PROMPT = PROMPTS[0]
TIMED = (*PROMPTS, *word_problems(18))


def demo(
    place: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for the bundles and the picture.")
    ] = Path("omnidraft-demo"),
    starters: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory of the starter models (default: examples/starters of the checkout that the "
            "working directory or the package is in).",
            readable=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Export both starter pairs, answer a prompt with each, and compare plain and speculative speed.

    It leaves `my-bundle`, with everything that the guides use: adapters, n-grams and a training step.
    """
    starters = find_starters(starters)
    need_export_packages()
    with output.progress_bar("export", quiet=as_json) as bar:
        pairs = export_starters(place, bar.stage, starters)
    with output.progress_bar(f"export {WHOLE}", quiet=as_json) as bar:
        export_whole(place, bar.stage, starters)
    results = []
    for pair in pairs:
        with output.progress_bar(f"time {pair.name}", quiet=as_json) as bar:
            results.append(show(pair, bar.step))
    picture = place / "speed.png"
    draw(results, picture)
    if as_json:
        return options.print_json(demo_json(results))
    show_demo(results, picture)
    output.say(sharing(pairs))
    for line in what_next(place):
        output.say(line)


@dataclass(frozen=True)
class DemoResult:
    """One target's part of the demo.

    Attributes:
        name: of the target.
        text: the answer to `PROMPT` with the learned drafter.
        plain_text: the answer without a drafter.
        untrained: times on `TIMED` with the drafter as it is and an empty cache.
        learned: times on `TIMED` with the learned drafter and the learned n-grams.
        ngrams: number of the learned n-grams.
    """

    name: str
    text: str
    plain_text: str
    untrained: BenchResult
    learned: BenchResult
    ngrams: int

    @property
    def plain(self) -> float:
        """Tokens a second of plain decoding, over both benchmarks."""
        lines = [*self.untrained.lines, *self.learned.lines]
        return sum(line.plain for line in lines) / len(lines)


def show(
    pair: StarterPair,
    progress: Callable[[int, int], None],
    prompts: Sequence[str] = TIMED,
    max_new_tokens: int = 96,
) -> DemoResult:
    """Answer the prompt, then time the drafter before and after learning against plain decoding."""
    untrained, learned = load(pair.untrained), load(pair.learned, cache=pair.cache)
    ngrams = len(learned.cache)
    plain = untrained.generate(PROMPT, mode="plain", max_new_tokens=max_new_tokens).finish()
    answer = learned.generate(PROMPT, max_new_tokens=max_new_tokens).finish()
    config = replace(BENCH_CONFIG, max_new_tokens=max_new_tokens)
    results = []
    for i, session in enumerate((untrained, learned)):
        session.measure(PROMPT)

        def step(done: int, total: int, before: int = i) -> None:
            progress(before * total + done, 2 * total)

        results.append(bench(session, prompts, config, step))
    return DemoResult(pair.name, answer.text, plain.text, results[0], results[1], ngrams)


def demo_json(results: Sequence[DemoResult]) -> dict[str, Any]:
    """The results as a JSON object, a target an entry."""
    return {
        each.name: {
            "text": each.text,
            "same_text": each.text == each.plain_text,
            "learned_ngrams": each.ngrams,
            "untrained": bench_json(each.untrained),
            "learned": bench_json(each.learned),
        }
        for each in results
    }


def show_demo(results: Sequence[DemoResult], picture: Path) -> None:
    """Print the texts, a table, bars, and the path of the picture."""
    output.out.print(f"[bold]{PROMPT}[/bold]")
    for one in results:
        same = (
            "identical to plain decoding" if one.text == one.plain_text else "NOT the text of plain decoding"
        )
        output.out.print(f"\n[bold]{one.name}[/bold] ({same})")
        output.out.print(one.text.strip(), markup=False)
    output.out.print(demo_table(results))
    _print_bars(results)
    output.out.print(f"\npicture: {picture}")


def sharing(pairs: Sequence[StarterPair]) -> str:
    """What the shared drafter saves on the disk, a sentence."""
    place = open_bundle(pairs[0].untrained).places.shared
    assert place is not None, "the starter pairs share their drafter"
    users, total = users_of(place).bundles, sum(f.stat().st_size for f in place.rglob("*") if f.is_file())
    return (
        f"{' and '.join(users)} have one drafter on disk, {place}: {output.size(total)} once, "
        f"which saves {output.size((len(users) - 1) * total)}"
    )


def what_next(place: Path) -> tuple[str, ...]:
    """What to try next, a line each.

    Args:
        place: of the bundles.
    """
    return (
        f"To try next; {WHOLE}, learned and mine.safetensors of the guides are in {place}:",
        *_activation(),
        f"  cd {shlex.quote(str(place))}",
        f'  omnidraft generate {WHOLE} "How many legs do 3 cats have?" --profile learned',
        f"  omnidraft chat {WHOLE}",
        f"  omnidraft doctor {WHOLE}",
        f'  omnidraft generate {WHOLE} "How many legs do 5 cats have?" --trace my-trace',
        f"  omnidraft learn {WHOLE} my-trace -o more.safetensors",
    )


def _activation() -> tuple[str, ...]:
    """The line that puts `omnidraft` on the path, where the environment of this Python is not active."""
    script = Path(sys.prefix) / "bin" / "activate"
    known = shutil.which("omnidraft") is not None or not script.is_file()
    return () if known else (f"  . {shlex.quote(str(script))}",)


def demo_table(results: Sequence[DemoResult]) -> Table:
    """Speeds of every target: plain, with the untrained drafter, with the learned one."""
    prompts = len(results[0].learned.lines)
    table = Table(
        title=f"one drafter, {len(results)} targets: {prompts} prompts, greedy, beside plain decoding"
    )
    for name in ("", "drafter", "tok/s", "ratio", "95 %", "tokens per target pass", "n-grams at first"):
        table.add_column(name, justify="right" if name not in ("", "drafter") else "left")
    for one in results:
        table.add_row(one.name, "none (plain)", f"{one.plain:.0f}", "1.00x", "", "1.00", "")
        for name, result, ngrams in (("untrained", one.untrained, 0), ("learned", one.learned, one.ngrams)):
            low, high = result.interval
            table.add_row(
                "",
                name,
                f"{one.plain * result.speed_up:.0f}",
                f"{result.speed_up:.2f}x",
                f"{low:.2f}-{high:.2f}",
                f"{result.tokens_per_target_pass:.2f}",
                str(ngrams),
            )
    return table


def _print_bars(results: Sequence[DemoResult]) -> None:
    widest = max(one.plain * max(1.0, one.untrained.speed_up, one.learned.speed_up) for one in results)
    for one in results:
        for name, speed, style in (
            ("plain", one.plain, "dim"),
            ("untrained", one.plain * one.untrained.speed_up, "cyan"),
            ("learned", one.plain * one.learned.speed_up, "blue"),
        ):
            bar = "█" * max(1, round(48 * speed / widest))
            output.out.print(f"{one.name:>10} {name:>9} [{style}]{bar}[/{style}] {speed:.0f} tok/s")


def draw(results: Sequence[DemoResult], file: Path) -> None:
    """Write a PNG of the tokens a second: plain, with the untrained drafter, with the learned one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 0.9 + 1.25 * len(results)), layout="constrained")
    axes = figure.add_subplot()
    for row, one in enumerate(reversed(results)):
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
    axes.set_yticks(range(len(results)), [one.name for one in reversed(results)])
    axes.set_xlabel("tokens a second (greedy, same text)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(file, dpi=130)
