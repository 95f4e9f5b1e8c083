"""Drift of the task and of the target while a drafter learns: tokens a pass before, at the change, and after.

    python -m benchmarks.drift PLACE --out drift.jsonl

The starters are exported into PLACE: a first, then b. Their drafter answers and learns as
`omnidraft learn --prompts` does (k = 4, greedy). Task: questions of GSM8K, then code of MBPP, with starter-a.
Target: questions of GSM8K with starter-a, then others with starter-b, which begins with the adapter that the
first left (`--adapter`); n-grams are of one target alone. At each point the same unseen prompts are answered
without learning, and the cache is then as it was.

Arms: with n-grams or with direct tokens alone, with the guard or without; and, for the target, one that
begins with no adapter. Results are lines of `--out`; those that it has are not made again.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.support.task_data import require
from benchmarks.support.task_prompts import seen, unseen
from omnidraft import GenerationConfig, load_bundle
from omnidraft.commands.learn.while_answering import Learning
from omnidraft.commands.starters import STARTERS, exported, find_starters
from omnidraft.export.options import USUAL_RANK, Options
from omnidraft.export.quantize.quantization import FP32, INT8
from omnidraft.learning.online.adaptation import CURVE, Adaptation
from omnidraft.learning.online.adapted_target import AdaptOptions
from omnidraft.learning.online.curve import read_curve
from omnidraft.learning.online.guard import GuardOptions, ratio
from omnidraft.learning.online.profiles import profiles_in
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.runtime.vocab.ngram_cache import NgramCache

POINTS = (0, 40, 80, 160)  # answers after the change
FIRST = "GSM8K"
NO_GUARD = GuardOptions(fall=10.0)  # no decrease is as large
Counts = list[tuple[int, int]]  # emitted tokens, target passes of each answer


@dataclass(frozen=True)
class Arm:
    """What is switched on, and what changes."""

    change: str
    cache: bool = True
    guard: bool = True
    begun: bool = True

    @property
    def name(self) -> str:
        """In words."""
        words = [f"{'with' if on else 'without'} {what}" for on, what in (
            (self.cache, "n-grams"), (self.guard, "guard"))]  # fmt: skip
        return ", ".join([self.change, *words, *([] if self.begun else ["from no adapter"])])


ARMS = [
    *(Arm(change, cache, guard) for change in ("task", "target") for guard in (True, False)
      for cache in (True, False)),
    Arm("target", begun=False),
]  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The folder of the bundles, and sizes."""

    place: Path
    before: int
    probes: int
    tokens: int


def bundle(place: Path, name: str) -> Path:
    """A starter target with the untrained drafter and its training step."""
    models, options = find_starters(), Options(FP32, drafter_quantization=INT8, train_rank=USUAL_RANK)
    return exported(models / name, models / "drafter", place / name, lambda *_: None, options)


def points(arm: Arm, settings: Settings) -> Iterator[tuple[str, Counts]]:
    """The points of an arm in order, each with its counts; the last is the number of rollbacks."""
    config = GenerationConfig(
        settings.tokens, num_draft_tokens=4, mode="trie" if arm.cache else "direct", seed=0
    )
    options = AdaptOptions(guard=GuardOptions() if arm.guard else NO_GUARD)
    most = settings.before + max(POINTS)
    kinds, unknown = seen(most), unseen(settings.probes)
    second = "MBPP" if arm.change == "task" else FIRST
    later = kinds[second][-max(POINTS) :]
    with tempfile.TemporaryDirectory() as place:
        first = Adaptation(Path(place, "first"), Learning().make, options)
        with closing(first):
            first.begin(load_bundle(bundle(settings.place, STARTERS[0])))
            _answer(first, kinds[FIRST][: settings.before], config)
            yield "before", probe(first, unknown[FIRST], config)
            first.write()
            if arm.change == "task":
                yield from _after(first, later, unknown[second], config)
                yield "before's task at the end", probe(first, unknown[FIRST], config)
                yield "rollbacks", _rollbacks(first)
                return
            kept = read_adapter(profiles_in(Path(place, "first"))[0].adapter) if arm.begun else None
        learning = Learning(adapter=kept)
        with closing(Adaptation(Path(place, "second"), learning.make, options)) as after:
            after.begin(load_bundle(bundle(settings.place, STARTERS[1])), begun=arm.begun)
            yield from _after(after, later, unknown[second], config)
            yield "rollbacks", _rollbacks(after)


def _after(
    adaptation: Adaptation, texts: Sequence[str], probes: Sequence[str], config: GenerationConfig
) -> Iterator[tuple[str, Counts]]:
    done = 0
    for point in POINTS:
        _answer(adaptation, texts[done:point], config)
        done = point
        yield f"after {point}", probe(adaptation, probes, config)


def _answer(adaptation: Adaptation, texts: Sequence[str], config: GenerationConfig) -> None:
    for text in texts:
        adaptation.answer(text, config)


def _rollbacks(adaptation: Adaptation) -> Counts:
    adaptation.write()
    lines = read_curve(adaptation.place / CURVE)
    return [(sum(line.event == "rolled back" for line in lines), 1)]


def probe(adaptation: Adaptation, texts: Sequence[str], config: GenerationConfig) -> Counts:
    """Answers that nothing is learned from; n-grams that they bring are taken out again."""
    session, target, counts = adaptation.session, adaptation._current, []
    table = session.cache.table()
    target.recorded.pause()
    for text in texts:
        session.text.decoder.cached.clear()
        session.models.drafter.forget()
        answer = session.generate(text, config)
        for _ in answer:
            pass
        counts.append((answer.statistics.emitted, answer.statistics.rounds))
    target.recorded.resume()
    session.cache = NgramCache.of_table(table, session.vocab_map)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("place", type=Path, help="folder of the starters' bundles; whole ones are kept")
    parser.add_argument("--before", type=int, default=160, help="answers before the change")
    parser.add_argument("--probes", type=int, default=24, help="unseen prompts at each point")
    parser.add_argument("--tokens", type=int, default=48, help="of an answer at most")
    parser.add_argument("--out", type=Path, required=True, help="lines of JSON, one of each arm")
    options = parser.parse_args()
    require("tasks")
    settings = Settings(options.place, options.before, options.probes, options.tokens)
    text = options.out.read_text(encoding="utf-8") if options.out.exists() else ""
    found: dict[str, dict[str, Any]] = {row["arm"]: row for row in map(json.loads, text.splitlines())}
    for arm in ARMS:
        if arm.name not in found:
            found[arm.name] = {"arm": arm.name, **dict(points(arm, settings))}
            with options.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps(found[arm.name]) + "\n")
        row = {name: counts for name, counts in found[arm.name].items() if name != "arm"}
        rolled = row.pop("rollbacks")[0][0]
        figures = ", ".join(f"{name} {ratio(counts):.2f}" for name, counts in row.items())
        print(f"{arm.name}: {figures}; {rolled} rollbacks", flush=True)


if __name__ == "__main__":
    main()
