"""How results look in a terminal."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from omnidraft.commands.bench import Result
from omnidraft.commands.check import Comparison
from omnidraft.commands.demo import Shown
from omnidraft.commands.terminal.progress import err as err
from omnidraft.commands.terminal.progress import progress_bar as progress_bar
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.bundle.model_entry import ModelEntry

out = Console(highlight=False)


def say(line: str) -> None:
    """One line, as long as it is: whoever reads a pipe counts lines."""
    out.print(line, markup=False, soft_wrap=True)


def size(number: int) -> str:
    """Bytes for people."""
    value = float(number)
    for unit in ("B", "kB", "MB"):
        if value < 1000.0:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000.0
    return f"{value:.2f} GB"


def comparison_table(c: Comparison, drafter: str, target: str) -> Table:
    """What `check` found."""
    table = Table(title=f"{drafter} as drafter for {target}", show_header=False)
    text = max(1, c.text_tokens)
    for name, value in (
        ("draft vocabulary", f"{c.draft_tokens:,}"),
        ("target vocabulary", f"{c.target_tokens:,} ({c.text_tokens:,} text)"),
        ("direct map (equal bytes)", f"{c.direct:,} ({c.direct / text:.1%})"),
        ("spelled by several draft tokens", f"{c.spelled:,} ({c.spelled / text:.1%})"),
        ("  of these with byte tokens", f"{c.byte_fallback:,}"),
        ("  longest spelling", f"{c.longest_spelling} draft tokens"),
        ("orphans (never proposed)", f"{c.orphans:,}"),
        ("draft tokens longer than a target token", f"{c.expanded:,}"),
        ("paired control tokens", ", ".join(f"{a} = {b}" for a, b in c.paired_controls) or "none"),
    ):
        table.add_row(name, value)
    for whole, pieces in c.examples:
        table.add_row(f"  e.g. {whole!r}", " ".join(repr(p) for p in pieces))
    return table


def bundle_table(bundle: Bundle) -> Table:
    """What `inspect` shows."""
    table = Table(title=f"bundle {bundle.path.name} (all hashes match)")
    for column in ("", "target", "drafter"):
        table.add_column(column)

    def weights(entry: ModelEntry) -> int:
        files = bundle.manifest["files"]
        return sum(f["bytes"] for name, f in files.items() if name.startswith(entry.graph))

    def row(name: str, show: object) -> None:
        assert callable(show)
        table.add_row(name, str(show(bundle.target)), str(show(bundle.drafter)))

    row("source", lambda e: e.source)
    row("architecture", lambda e: e.architecture)
    row("parameters", lambda e: f"{e.parameters:,}")
    row("quantisation", lambda e: e.quantization)
    row("graph", lambda e: size(weights(e)))
    row("vocabulary (logits)", lambda e: f"{e.vocab_size:,}")
    row("context", lambda e: f"{e.kv.max_length:,} tokens")
    row("KV buffers", lambda e: size(e.kv_bytes))
    costs = bundle.costs
    table.add_row(
        "one token here, at export", f"{1e3 * costs.target[0]:.2f} ms", f"{1e3 * costs.draft:.2f} ms"
    )
    for when in ("before", "after"):
        table.add_row(f"acceptance {when} quantisation", "", _acceptance(bundle, when))
    with_drafter, plain = memory_need(bundle), memory_need(bundle, drafter=False)
    for name, show in (("memory at the peak", with_drafter), ("  without the drafter", plain)):
        table.add_row(
            name,
            f"{size(show.total)} = weights {size(show.target + show.drafter)} + KV {size(show.kv)} "
            f"+ vocabularies {size(show.vocabulary)} + work {size(show.work)} + base {size(show.base)}",
        )
    signed = f"by key {bundle.signed_by}" if bundle.signed_by else "not checked (--public-key checks it)"
    table.add_row("signature", signed)
    table.add_row("prompt template", repr(bundle.prompt.prefix), repr(bundle.prompt.suffix))
    return table


def _acceptance(bundle: Bundle, when: str) -> str:
    """As measured at export; no runtime needs it, so no reader has checked that it is there."""
    try:
        return f"{bundle.manifest['checks']['acceptance'][when]['of_drafted']:.1%}"
    except (KeyError, TypeError, ValueError):
        return "not recorded"


def bench_table(result: Result) -> Table:
    """What `bench` measured."""
    low, high = result.interval
    table = Table(
        title=f"speculative against plain: {result.speed_up:.2f}x (95 % {low:.2f}-{high:.2f}, predicted "
        f"{result.predicted:.2f}x), {result.tokens_per_target_pass:.2f} tokens per target pass"
    )
    table.add_column("prompt", no_wrap=True, overflow="ellipsis", max_width=30)
    for name in ("plain tok/s", "fast tok/s", "ratio", "tok/pass", "accepted", "same text"):
        table.add_column(name, justify="right")
    for line in result.lines:
        table.add_row(
            line.prompt,
            f"{line.plain:.0f}",
            f"{line.speculative:.0f}",
            f"{line.ratio:.2f}x",
            f"{line.statistics.tokens_per_target_pass:.2f}",
            f"{line.statistics.acceptance_of_drafted:.0%}",
            "yes" if line.same_text else "no",
        )
    if not all(line.same_text for line in result.lines):
        table.caption = (
            "another text: sampled, or a near-tie that quantised kernels round otherwise in a block"
        )
    return table


def show_demo(shown: Sequence[Shown], prompt: str, picture: Path) -> None:
    """What `demo` shows: the texts, a table, bars, and where the picture is."""
    out.print(f"[bold]{prompt}[/bold]")
    for one in shown:
        same = (
            "identical to plain decoding" if one.text == one.plain_text else "NOT the text of plain decoding"
        )
        out.print(f"\n[bold]{one.name}[/bold] ({same})")
        out.print(one.text.strip(), markup=False)
    prompts = len(shown[0].learned.lines)
    table = Table(
        title=f"one drafter, {len(shown)} targets: {prompts} prompts, greedy, beside plain decoding"
    )
    for name in ("", "drafter", "tok/s", "ratio", "95 %", "tokens per target pass", "n-grams at first"):
        table.add_column(name, justify="right" if name not in ("", "drafter") else "left")
    for one in shown:
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
    out.print(table)
    widest = max(one.plain * max(1.0, one.untrained.speed_up, one.learned.speed_up) for one in shown)
    for one in shown:
        for name, speed, style in (
            ("plain", one.plain, "dim"),
            ("untrained", one.plain * one.untrained.speed_up, "cyan"),
            ("learned", one.plain * one.learned.speed_up, "blue"),
        ):
            bar = "█" * max(1, round(50 * speed / widest))
            out.print(f"{one.name:>10} {name:>9} [{style}]{bar}[/{style}] {speed:.0f} tok/s")
    out.print(f"\npicture: {picture}")


def memory_json(bundle: Bundle) -> dict[str, dict[str, int]]:
    """Bytes at the peak of a generation, with and without the drafter."""
    needs = {"generate": memory_need(bundle), "no_drafter": memory_need(bundle, drafter=False)}
    return {name: {**asdict(need), "total": need.total} for name, need in needs.items()}
