"""Tables of the experiments beside learning_gain; a cell whose arm was not run is a dash."""

from collections.abc import Sequence
from typing import Any

from benchmarks.experiments.report import paper
from benchmarks.experiments.report.bootstrap import Counts, acceptance, tokens_per_pass
from benchmarks.experiments.report.rows import STARTERS, TARGETS, markdown, place_of
from benchmarks.experiments.running.recipes import TITLES
from benchmarks.experiments.running.results import Result
from benchmarks.experiments.running.tasks import TASKS

LOSSES = {
    "untrained": "not trained",
    **TITLES,
    "ngram-tenth": "L_DM + 0.02 L_ngram",
    "ngram-p": "L_DM + p(t) L_ngram",
    "ngram-kl": "L_DM + 0.2 KL of n-grams",
    "renormalised": "L_DM + 0.2 L_ngram, q' renormalised",
    "trie-kl-reverse": "trie-KL, reverse",
    "forward-kl": "forward KL on the intersection",
}
BUDGETS = {
    "none": "none (direct map)",
    "cold": "empty at first",
    "lfu 0.25": "LFU 1/4",
    "lru 0.25": "LRU 1/4",
    "lfu 0.5": "LFU 1/2",
    "lru 0.5": "LRU 1/2",
    "lfu 1.0": "all",
    "prefilled": "pre-filled",
}


def temperature_table(results: Sequence[Result]) -> str:
    """Tokens per pass / acceptance of each loss, by temperature."""
    by_place = {(result["settings"]["target"], result["arm"]): result["result"] for result in results}
    columns = {
        f"{way} {t}": f"T = {t}, {title}"
        for t in ("0.01", "1.0")
        for way, title in (("direct", "direct"), ("warm", "cache"))
    }
    rows = []
    for target in STARTERS:
        for arm, title in LOSSES.items():
            measured = by_place.get((target, arm))
            if measured is not None:
                counts = [measured[column] for column in columns]
                cells = [f"{tokens_per_pass([c]).value:.2f} / {acceptance([c]):.2f}" for c in counts]
                rows.append([TARGETS[target], title, *cells])
    return markdown(["target", "loss", *columns.values()], rows)


def budget_table(results: Sequence[Result]) -> str:
    """Tokens per pass by the budget of the cache."""
    rows = []
    for result in sorted(results, key=lambda r: (r["arm"] != "untrained", *reversed(place_of(r)))):
        measured = result["result"]
        cells = [f"{tokens_per_pass([measured[budget]]).value:.2f}" for budget in BUDGETS]
        full, prefilled = (measured[budget]["cache"]["entries"] for budget in ("lfu 1.0", "prefilled"))
        title = "not trained" if result["arm"] == "untrained" else TITLES[result["arm"]]
        rows.append([_where(result), title, *cells, f"{full} / {prefilled:,}"])
    return markdown(["task, target", "drafter", *BUDGETS.values(), "n-grams: all / pre-filled"], rows)


def growth_table(results: Sequence[Result]) -> str:
    """The n-grams of real vocabularies, and the paper's counts."""
    by_place = {place_of(result): result["result"] for result in results}
    rows = []
    for name, task in TASKS.items():
        measured = [by_place.get((target, name)) for target in ("qwen2", "llama3")]
        cells: list[str] = []
        for one in measured:
            cells += ["-", "-"] if one is None else _cache_cells(one["cache"])
        answers = next((f"{one['answers']:,}" for one in measured if one is not None), "-")
        published = f"{paper.ENTRIES[name]:,} ({paper.SAMPLES[name]:,} of {paper.TASKS[name]})"
        rows.append([task.title, answers, *cells, published, f"{paper.MEGABYTES[name]:.3f} MB"])
    head = ["task", "answers", "Qwen2", "its file", "Llama-3", "its file", "the paper's count", "its size"]
    return markdown(head, rows)


def _cache_cells(cache: dict[str, int]) -> list[str]:
    return [f"{cache['entries']:,}", f"{cache['file_bytes'] / 1e6:.3f} MB"]


def speed_table(results: Sequence[Result]) -> str:
    """Measured ratios of speeds: a fixed number of draft tokens, and a measured one."""
    by_place = {(*place_of(result), result["arm"]): result["result"] for result in results}
    columns = {
        ("untrained", "fixed"): "not trained: direct map, k = 4",
        ("untrained", "auto"): "not trained: auto",
        ("trie-kl", "fixed"): "trie-KL, one pass: k = 4",
        ("trie-kl", "auto"): "auto",
    }
    rows = []
    for name, task in TASKS.items():
        for target in STARTERS:
            measured = [by_place.get((target, name, arm), {}).get(length) for arm, length in columns]
            if any(measured):
                rows.append([task.title, TARGETS[target], *(_speed_cell(one) for one in measured)])
    return markdown(["task", "target", *columns.values()], rows)


def _speed_cell(measured: dict[str, Any] | None) -> str:
    if measured is None:
        return "-"
    low, high = measured["interval_95"]
    return f"{measured['speed_up']:.2f}x ({low:.2f}-{high:.2f})"


def text_table(results: Sequence[Result]) -> str:
    """How varied the targets' answers are."""
    by_place = {place_of(result): result for result in results}
    rows = []
    for name, task in TASKS.items():
        for target in STARTERS:
            result = by_place.get((target, name))
            if result is not None:
                measured, test = result["result"], result["settings"]["test"]
                cells = [
                    f"{measured['tokens'] / test:.0f}",
                    f"{measured['distinct']} of {test}",
                    f"{measured['in_training']} of {test}",
                    f"{measured['distinct_runs_of_4']:.0%}",
                    f"{measured['ngrams']:.1%}",
                ]
                rows.append([task.title, TARGETS[target], *cells])
    head = ["task", "target", "tokens an answer", "different answers", "also a training answer"]
    return markdown([*head, "different runs of 4 tokens", "n-grams among tokens"], rows)


def paper_table() -> str:
    """The paper's main table, as far as the experiments have its arms."""
    rows = [
        [target, arm, *(f"{a:.2f} / {s:.2f}x" for a, s in cells)]
        for target, arms in paper.MAIN.items()
        for arm, cells in arms.items()
    ]
    return markdown(["target", "arm", *paper.TASKS.values()], rows)


def paper_cache_table() -> str:
    """The paper's ablation of the cache."""
    rows = [[arm, f"{a:.2f} / {s:.2f}x"] for arm, (a, s) in paper.CACHE.items()]
    return markdown(["arm", "acceptance / speed-up"], rows)


def _where(result: Result) -> str:
    target, task = place_of(result)
    return f"{TASKS[task].title}, {TARGETS[target]}"


def _drafted(counts: Counts) -> float:
    """Draft tokens a round."""
    return sum(counts["drafted"]) / sum(counts["rounds"])


def _predicted(counts: Counts, costs: dict[str, Any]) -> float:
    """Seconds of plain decoding over those of speculation, from the counts and the bundle's costs alone."""
    target, emitted, rounds = costs["target"], sum(counts["emitted"]), sum(counts["rounds"])
    drafted = _drafted(counts)
    low = int(at := min(drafted, len(target) - 2))
    verify = target[low] + (at - low) * (target[low + 1] - target[low])  # between two measured lengths
    return float(emitted * target[0] / (rounds * (verify + drafted * costs["draft"])))
