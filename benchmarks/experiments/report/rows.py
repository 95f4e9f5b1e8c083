"""What the tables share: Markdown, names of targets and losses, results by arm, and cells of intervals."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from benchmarks.experiments.report.bootstrap import acceptance, ratio, tokens_per_pass
from benchmarks.experiments.running.recipes import TITLES
from benchmarks.experiments.running.results import Result

STARTERS = ("a", "b")
TARGETS = {"a": "starter-a", "b": "starter-b", "qwen2": "Qwen2", "llama3": "Llama-3"}
DRAFTERS = {
    "untrained": "not trained",
    **TITLES,
    **{f"{name}-lora": f"{title}, LoRA 32" for name, title in TITLES.items()},
}


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table, or a sentence where it would have no rows."""
    body = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    if not body:
        return "*Not measured.*"
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body])


def place_of(result: Result) -> tuple[str, str]:
    """The target and the task of a result."""
    return result["settings"]["target"], result["settings"]["task"]


def by_arm(results: Sequence[Result], target: str, task: str) -> dict[str, list[Result]]:
    """The results on a target and a task, by arm; several are several seeds."""
    arms = defaultdict[str, list[Result]](list)
    for result in results:
        if place_of(result) == (target, task):
            arms[result["arm"]].append(result)
    return dict(arms)


def first_seed(results: Sequence[Result]) -> list[Result]:
    """The results of seed 0."""
    return [result for result in results if result["settings"]["seed"] == 0]


def whole_passes(results: Sequence[Result], target: str, task: str) -> list[Result]:
    """The arms that learned from all training prompts of a task, the shortest pass first."""
    passes = [
        result
        for arm, seeds in by_arm(results, target, task).items()
        if arm.startswith("pass-")
        for result in seeds
    ]
    return sorted(passes, key=lambda result: (result["settings"]["train"], result["arm"]))


def gain_cells(seeds: Sequence[Result], untrained: Sequence[Result]) -> list[str]:
    """Acceptance and tokens per pass (direct map, then cache), the gain, and the cache's size."""
    direct, warm = ([seed["result"][way] for seed in seeds] for way in ("direct", "warm"))
    gain = ratio(warm, [result["result"]["direct"] for result in untrained]) if untrained else "-"
    cache = seeds[0]["result"]["cache"]
    return [
        f"{acceptance(direct):.2f}", str(tokens_per_pass(direct)), f"{acceptance(warm):.2f}",
        str(tokens_per_pass(warm)), str(gain), f"{cache['entries']:,}", f"{cache['file_bytes'] / 1e3:.1f} kB",
    ]  # fmt: skip
