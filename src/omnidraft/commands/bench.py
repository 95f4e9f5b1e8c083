"""`omnidraft bench`: plain against speculative decoding on the same prompts.

Each prompt is decoded three times: plain, speculative, plain. The ratio of a prompt is the speculative speed
over the mean of the two plain runs around it, so a drift of the machine's speed cancels.
"""

from collections.abc import Callable, Iterator, Sequence
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
from omnidraft.commands.terminal.read_prompts import read_lines
from omnidraft.commands.terminal.settings_file import SettingsFile
from omnidraft.errors import counted
from omnidraft.pair_verdict import (
    CountedText,
    PairVerdict,
    Speed,
    counted_text,
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
    texts = PROMPTS if prompts is None else read_lines(prompts)
    lines: list[BenchLine] = []
    with output.progress_bar("bench", quiet=as_json) as bar, suppress(KeyboardInterrupt):
        for line in timed(session, texts, settings, bar.step):
            lines.append(line)
    if not lines:  # it was stopped before a prompt was timed
        raise typer.Exit(130)
    result = BenchResult(lines, predict(session, lines), len(texts) - len(lines), has_drafter(session))
    _show(result, session.bundle, as_json)
    if result.left:
        tell([f"stopped: {counted(result.left, 'prompt')} of the list not timed"])
        raise typer.Exit(130)


def _show(result: "BenchResult", bundle: Bundle, as_json: bool) -> None:
    quality = read_quality(bundle.manifest)
    if as_json:
        quality_json = None if quality is None else quality.as_json()
        return options.print_json({**bench_json(result), "quality": quality_json})
    output.out.print(bench_table(result))
    output.say(result.counts)
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
    def counted(self) -> CountedText:
        """The counts of the speculative run."""
        return counted_text(self.statistics)

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
        return speed_of([line.counted for line in self.lines], [line.ratio for line in self.lines])

    @property
    def speed_up(self) -> float:
        """Geometric mean of the prompts' ratios."""
        return self.speed.ratio

    @property
    def interval(self) -> tuple[float, float]:
        """95 % bootstrap interval of the geometric mean over prompts."""
        return self.speed.interval

    @property
    def tokens_per_target_pass(self) -> float:
        """Emitted tokens over target passes, over all prompts."""
        return self.totals.tokens_per_target_pass

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

    @property
    def counts(self) -> str:
        """The figures over all prompts in one line."""
        return (
            f"predicted from costs: {self.predicted:.2f}x; {self.totals.acceptance_of_drafted:.0%} of "
            f"{self.totals.drafted} draft tokens were accepted"
        )

    @property
    def share_slower(self) -> float:
        """Share of prompts on which speculation was slower than plain decoding."""
        return sum(line.ratio < 1.0 for line in self.lines) / len(self.lines)


def bench(
    session: TextSession,
    prompts: Sequence[str],
    config: GenerationConfig = BENCH_CONFIG,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> BenchResult:
    """Time plain and speculative decoding on each prompt.

    Args:
        session: whose default mode is timed.
        prompts: at least one.
        config: of the speculative runs; the plain runs differ from it in the mode alone.
        progress: called with (done, total) prompts.
    """
    lines = list(timed(session, prompts, config, progress))
    return BenchResult(lines, predict(session, lines), has_drafter=has_drafter(session))


def has_drafter(session: TextSession) -> bool:
    """Whether the session's bundle has a drafter."""
    return not session.bundle.drafter.is_absent


def timed(
    session: TextSession,
    prompts: Sequence[str],
    config: GenerationConfig,
    progress: Callable[[int, int], None],
) -> Iterator[BenchLine]:
    """The lines of `bench`, one after the other; the first prompts are run once before."""
    warm_up = prompts[:_WARM_UP]
    order = [*warm_up, *prompts]
    for i, prompt in enumerate(order):
        progress(i, len(order))
        line = _measure(session, prompt, config)
        if i >= len(warm_up):
            yield line
    progress(len(order), len(order))


def of_drafts(statistics: Statistics) -> float:
    """Accepted target tokens that the drafter proposed, for each target pass."""
    return (statistics.accepted - statistics.accepted_copies) / max(1, statistics.rounds)


def of_copies(statistics: Statistics) -> float:
    """Accepted target tokens that were copied from the text, for each target pass."""
    return statistics.accepted_copies / max(1, statistics.rounds)


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


def predict(session: TextSession, lines: Sequence[BenchLine]) -> float:
    """Speed-up predicted from the session's costs and the counted rounds (method section 6)."""
    return estimated_speed([line.counted for line in lines], session.costs).ratio


def bench_json(result: BenchResult) -> dict[str, object]:
    """A result as a JSON object."""
    low, high = result.interval
    return {
        "verdict": asdict(result.verdict),
        "speed_up": result.speed_up,
        "interval_95": [low, high],
        "predicted_speed_up": result.predicted,
        "tokens_per_target_pass": result.tokens_per_target_pass,
        "of_drafts_per_pass": of_drafts(result.totals),
        "of_copies_per_pass": of_copies(result.totals),
        "prompts_left": result.left,
        "share_of_prompts_slower": result.share_slower,
        "worst_prompt": min(line.ratio for line in result.lines),
        "prompts": [
            {
                "prompt": line.prompt,
                "tokens": line.statistics.emitted,
                "plain_tokens_per_second": line.plain,
                "speculative_tokens_per_second": line.speculative,
                "ratio": line.ratio,
                "tokens_per_target_pass": line.statistics.tokens_per_target_pass,
                "of_drafts_per_pass": of_drafts(line.statistics),
                "of_copies_per_pass": of_copies(line.statistics),
                "acceptance_of_drafted": line.statistics.acceptance_of_drafted,
                "acceptance_of_evaluated": line.statistics.acceptance_of_evaluated,
                "milliseconds_per_round": dict(_milliseconds(line.statistics)),
                "same_text": line.same_text,
            }
            for line in result.lines
        ],
    }


def _milliseconds(statistics: Statistics) -> Iterator[tuple[str, float]]:
    for name, seconds in statistics.seconds.items():
        yield name, 1000.0 * seconds / max(1, statistics.rounds)


def bench_table(result: BenchResult) -> Table:
    """A result as a table, a prompt a row."""
    table = Table(title=f"{len(result.lines)} prompts, plain and speculative, tokens a second")
    # The figures fit a terminal of 80 columns, and prompts take what is left.
    room = max(12, min(48, output.out.width - _FIGURES))
    table.add_column("prompt", no_wrap=True, overflow="ellipsis", max_width=room)
    for name in ("plain", "fast", "ratio", "per pass", "drafts", "copies", "same"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in result.lines:
        table.add_row(
            line.prompt,
            f"{line.plain:.0f}",
            f"{line.speculative:.0f}",
            f"{line.ratio:.2f}x",
            f"{line.statistics.tokens_per_target_pass:.2f}",
            f"+{of_drafts(line.statistics):.2f}",
            f"+{of_copies(line.statistics):.2f}",
            "yes" if line.same_text else "no",
        )
    if not all(line.same_text for line in result.lines):
        table.caption = (
            "other text: it was sampled, or quantised kernels rounded a near-tie otherwise in a longer pass"
        )
    return table
