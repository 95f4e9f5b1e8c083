"""`omnidraft bench`: plain against speculative decoding on the same prompts.

Each prompt is decoded three times: plain, speculative, plain. The ratio of a prompt is the speculative speed
over the mean of the two plain runs around it, so a drift of the machine's speed cancels.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import typer

from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.generation_options import GenerationOptions, generation_config
from omnidraft.commands.terminal.open_session import learned_files, session_options, tell
from omnidraft.commands.terminal.output import Table
from omnidraft.commands.terminal.read_prompts import read_prompts
from omnidraft.commands.terminal.settings_file import SettingsFile
from omnidraft.errors import counted
from omnidraft.pair_verdict import (
    PairVerdict,
    Speed,
    estimated_speed,
    speed_of,
    speed_verdict,
)
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.session.api import GenerationConfig, Statistics, TextSession
from omnidraft.runtime.session.modes import Mode
from omnidraft.sample_prompts import PROMPTS
from omnidraft.text_quality import read_quality

BENCH_CONFIG = GenerationConfig(seed=0)  # greedy; a text ends where the target ends it
_WARM_UP = 2  # prompts at the start whose times are not counted
_FIGURES = 64  # columns of a terminal that the figures of a table take


def bench_command(
    bundle: options.BundlePath,
    prompts: Annotated[
        Path | None,
        typer.Option(help="File with a prompt on each line (default: built-in prompts).", readable=False),
    ] = None,
    max_new_tokens: options.MaxNewTokens = None,
    num_draft_tokens: options.Lengths = None,
    mode: options.DraftMode = None,
    adapter: options.AdapterPath = None,
    config: options.ConfigFile = None,
    as_json: options.Json = False,
) -> None:
    """Time plain against speculative decoding, interleaved, prompt by prompt.

    Tokens are timed, and the reading of the prompts is not. This machine is timed with a prompt first, for
    -k auto; with measure = "never" in the file of --config the bundle's costs are taken.
    """
    file = SettingsFile(config)
    given = GenerationOptions(max_new_tokens, mode=mode, num_draft_tokens=num_draft_tokens)
    settings = replace(generation_config(file, given), seed=BENCH_CONFIG.seed)
    opening = session_options(file)
    file.refuse_others()
    load = replace(opening.load, measure="never")  # measured below, with a prompt and the adapter
    opened = load.open(bundle)
    learned, cache, unused = learned_files(adapter, None, opened)
    tell([] if unused is None else [unused])
    session = TextSession(load.load(opened), cache=cache, adapter=learned, bitwise=opening.bitwise)
    if opening.load.measure != "never":
        session.measure(PROMPTS[0])
    texts = PROMPTS if prompts is None else read_prompts(prompts)
    lines: list[BenchLine] = []
    with output.progress_bar("bench", quiet=as_json) as bar, suppress(KeyboardInterrupt):
        for line in timed(session, texts, settings, bar.stage):
            lines.append(line)
    if not lines:  # it was stopped before a prompt was timed
        raise typer.Exit(130)
    result = bench(session, texts, settings, lines)
    _show(result, session.bundle, as_json)
    if result.left:
        tell([f"stopped: {len(lines)} of {counted(len(texts), 'prompt')} timed"])
        raise typer.Exit(130)


def _show(result: "BenchResult", bundle: Bundle, as_json: bool) -> None:
    quality = read_quality(bundle.manifest)
    if as_json:
        quality_json = None if quality is None else quality.as_json()
        return options.print_json({**bench_json(result), "quality": quality_json})
    output.out.print(bench_table(result))
    totals = result.totals
    accepted = f"{totals.acceptance_of_drafted:.0%} of {totals.drafted} draft tokens were accepted"
    output.say(f"predicted from the costs of this machine: {result.predicted:.2f}x; {accepted}")
    if quality is not None:
        output.say(f"text of the target as {bundle.target.quantization}: {quality.whole.sentence}")
    output.say(f"{result.verdict}")


@dataclass(frozen=True)
class BenchLine:
    """One prompt.

    Attributes:
        plain: tokens a second of plain decoding.
        speculative: tokens a second of speculative decoding.
        statistics: of the speculative run.
        same_text: whether both gave the same tokens.
    """

    prompt: str
    plain: float
    speculative: float
    statistics: Statistics
    same_text: bool

    @property
    def ratio(self) -> float:
        """Speculative speed over plain speed."""
        return self.speculative / self.plain


@dataclass(frozen=True)
class BenchResult:
    """A benchmark and figures over all its lines.

    Attributes:
        lines: of the prompts that were timed.
        predicted: speed-up, from counts and costs.
        left: number of prompts that were not timed, because Ctrl-C ended the benchmark.
        has_drafter: whether the bundle has one.
    """

    lines: list[BenchLine]
    predicted: float
    left: int = 0
    has_drafter: bool = True

    @cached_property
    def speed(self) -> Speed:
        """The measured speed over all lines."""
        return speed_of_lines(self.lines)

    @cached_property
    def totals(self) -> Statistics:
        """Counts of all speculative runs together."""
        totals = Statistics()
        for line in self.lines:
            totals.merge(line.statistics)
        return totals

    @property
    def verdict(self) -> PairVerdict:
        """Whether the mode was faster."""
        return speed_verdict(self.speed, "was measured", learns=self.has_drafter)


def speed_of_lines(lines: Sequence[BenchLine]) -> Speed:
    """The speed over some lines."""
    return speed_of([line.statistics for line in lines], [line.ratio for line in lines])


def bench(
    session: TextSession, prompts: Sequence[str], config: GenerationConfig, lines: Iterable[BenchLine] = ()
) -> BenchResult:
    """The result of timing prompts.

    Args:
        session: whose default mode is timed.
        config: of the speculative runs; the plain runs differ from it in the mode alone.
        lines: those that are timed already; all of them are timed here when empty.
    """
    found = list(lines or timed(session, prompts, config))
    predicted = estimated_speed([line.statistics for line in found], session.costs).ratio  # method section 6
    left, absent = len(prompts) - len(found), session.bundle.drafter.is_absent
    return BenchResult(found, predicted, left, not absent)


def timed(
    session: TextSession,
    prompts: Sequence[str],
    config: GenerationConfig,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Iterator[BenchLine]:
    """The lines of `bench`, one after the other; the first prompts are run once before, to warm up.

    Args:
        progress: called with (what is done, prompts timed, all prompts).
    """
    for prompt in prompts[:_WARM_UP]:
        progress("warm up", 0, len(prompts))
        _measure(session, prompt, config)
    for done, prompt in enumerate(prompts):
        progress("time", done, len(prompts))
        yield _measure(session, prompt, config)


def _measure(session: TextSession, prompt: str, config: GenerationConfig) -> BenchLine:
    def run(mode: Mode) -> tuple[list[int], Statistics]:
        # Else the drafter would read the prompt while nothing of it is left to read for the target.
        session.forget_context()
        generation = session.generate(prompt, config, mode=mode).finish()
        return generation.token_ids, generation.statistics

    plain_ids, first = run("plain")
    speculative_ids, speculative = run(config.mode)
    _, second = run("plain")
    plain = (first.emitted + second.emitted) / (first.total_seconds + second.total_seconds)
    speed = speculative.emitted / speculative.total_seconds
    return BenchLine(prompt, plain, speed, speculative, plain_ids == speculative_ids)


def bench_json(result: BenchResult) -> dict[str, object]:
    """A result as a JSON object."""
    return {
        "verdict": asdict(result.verdict),
        "speed_up": result.speed.ratio,
        "interval_95": list(result.speed.interval),
        "predicted_speed_up": result.predicted,
        "tokens_per_target_pass": result.totals.tokens_per_target_pass,
        "of_drafts_per_pass": result.speed.drafts,
        "of_copies_per_pass": result.speed.copies,
        "prompts_left": result.left,
        "prompts": [
            {
                "prompt": line.prompt,
                "tokens": line.statistics.emitted,
                "plain_tokens_per_second": line.plain,
                "speculative_tokens_per_second": line.speculative,
                "ratio": line.ratio,
                "tokens_per_target_pass": line.statistics.tokens_per_target_pass,
                "acceptance_of_drafted": line.statistics.acceptance_of_drafted,
                "acceptance_of_evaluated": line.statistics.acceptance_of_evaluated,
                "milliseconds_per_round": {
                    name: 1000.0 * seconds / max(1, line.statistics.rounds)
                    for name, seconds in line.statistics.seconds.items()
                },
                "same_text": line.same_text,
            }
            for line in result.lines
        ],
    }


def bench_table(result: BenchResult) -> Table:
    """A result as a table, a prompt a row."""
    table = Table(title=f"{len(result.lines)} prompts, plain and speculative, tokens a second")
    # The figures fit a terminal of 80 columns, and prompts take what is left.
    room = max(12, min(48, output.out.width - _FIGURES))
    table.add_column("prompt", no_wrap=True, overflow="ellipsis", max_width=room)
    for name in ("plain", "fast", "ratio", "per pass", "drafts", "copies", "same"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in result.lines:
        speed = speed_of_lines([line])
        table.add_row(
            line.prompt,
            f"{line.plain:.0f}",
            f"{line.speculative:.0f}",
            f"{line.ratio:.2f}x",
            f"{line.statistics.tokens_per_target_pass:.2f}",
            f"+{speed.drafts:.2f}",
            f"+{speed.copies:.2f}",
            "yes" if line.same_text else "no",
        )
    if not all(line.same_text for line in result.lines):
        table.caption = (
            "other text: it was sampled, or quantised kernels rounded a near-tie otherwise in a longer pass"
        )
    return table
