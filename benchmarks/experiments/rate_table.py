"""The table of rates: what each gave on held-out prompts, and the best of each loss in bold."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from benchmarks.experiments.measure import tokens_per_pass
from benchmarks.experiments.pairs import TARGETS
from benchmarks.experiments.recipes import TITLES
from benchmarks.experiments.tables import markdown

ROWS = {
    **TITLES,
    "trie-kl-constant": "trie-KL, constant rate",
    **{f"{name}-lora": f"{title}, LoRA 32" for name, title in TITLES.items()},
    **{f"long-{name}": f"{title}, 2,048 answers" for name, title in TITLES.items()},
}


def rate_table(results: Sequence[dict[str, Any]]) -> str:
    """Tokens per pass with the cache: starter-a / starter-b, and their geometric mean."""
    found: dict[str, dict[float, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for each in results:
        settings = each["settings"]
        value = tokens_per_pass(each["result"]["warm"])
        found[each["arm"]][settings["rate"]][settings["target"]] = value
    rates = sorted({rate for arm in found.values() for rate in arm})
    rows = []
    for name, title in ROWS.items():
        if name in found:
            best = max(found[name], key=lambda rate: _mean(found[name][rate]))
            cells = [_cell(found[name].get(rate), rate == best) for rate in rates]
            rows.append([title, *cells])
    return markdown(["loss", *(f"{rate:.0e}".replace("e-0", "e-") for rate in rates)], rows)


def _mean(values: dict[str, float]) -> float:
    """Geometric; a rate that was not run on both targets cannot be the best."""
    if set(values) != set(TARGETS):
        return 0.0
    return math.exp(sum(map(math.log, values.values())) / len(values))


def _cell(values: dict[str, float] | None, best: bool) -> str:
    if values is None or set(values) != set(TARGETS):
        return "-"
    mean = f"{_mean(values):.3f}"
    return f"{values['a']:.2f} / {values['b']:.2f}: {f'**{mean}**' if best else mean}"
