"""The table of learning_rate: tokens per pass on held-out prompts, the best rate of each loss in bold."""

import math
from collections import defaultdict
from collections.abc import Sequence

from benchmarks.experiments.report.rows import markdown
from benchmarks.experiments.running.measure import tokens_per_pass
from benchmarks.experiments.running.pairs import TARGETS
from benchmarks.experiments.running.recipes import TITLES
from benchmarks.experiments.running.results import Result

ROWS = {
    **TITLES,
    "trie-kl-constant": "trie-KL, constant rate",
    **{f"{name}-lora": f"{title}, LoRA 32" for name, title in TITLES.items()},
    **{f"long-{name}": f"{title}, 2,048 answers" for name, title in TITLES.items()},
}


def rate_table(results: Sequence[Result]) -> str:
    """Tokens per pass with the cache: starter-a / starter-b, and their geometric mean."""
    values: dict[str, dict[float, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for result in results:
        settings = result["settings"]
        values[result["arm"]][settings["rate"]][settings["target"]] = tokens_per_pass(
            result["result"]["warm"]
        )
    rates = sorted({rate for arm in values.values() for rate in arm})
    rows = []
    for name, title in ROWS.items():
        if name in values:
            best = max(values[name], key=lambda rate: _mean(values[name][rate]))
            rows.append([title, *(_cell(values[name].get(rate), rate == best) for rate in rates)])
    return markdown(["loss", *(f"{rate:.0e}".replace("e-0", "e-") for rate in rates)], rows)


def _mean(values: dict[str, float]) -> float:
    """Geometric mean over the targets; 0 for a rate that was not run on both: it is never the best."""
    if set(values) != set(TARGETS):
        return 0.0
    return math.exp(sum(map(math.log, values.values())) / len(values))


def _cell(values: dict[str, float] | None, best: bool) -> str:
    if values is None or set(values) != set(TARGETS):
        return "-"
    mean = f"{_mean(values):.3f}"
    return f"{values['a']:.2f} / {values['b']:.2f}: {f'**{mean}**' if best else mean}"
