"""Tables of learning_gain and lora_rank: what training gains, loss by loss, whole passes and ranks."""

from collections.abc import Sequence

from benchmarks.experiments.report.bootstrap import ratio
from benchmarks.experiments.report.rows import (
    DRAFTERS,
    STARTERS,
    TARGETS,
    by_arm,
    first_seed,
    gain_cells,
    markdown,
    whole_passes,
)
from benchmarks.experiments.running.results import Result
from benchmarks.experiments.running.tasks import TASKS

_GAIN = (
    "acceptance, direct", "tokens/pass, direct", "acceptance, cache", "tokens/pass, cache",
    "gain: cache over the untrained direct map",
)  # fmt: skip
_CACHE = ("n-grams", "cache file")


def equal_answers_table(results: Sequence[Result], task: str) -> str:
    """learning_gain on one task, with the same answers for every drafter."""
    rows = []
    for target in STARTERS:
        arms = by_arm(results, target, task)
        for arm, title in DRAFTERS.items():
            if arm in arms:
                cells = gain_cells(arms[arm], arms.get("untrained", []))
                rows.append([TARGETS[target], title, len(arms[arm]), *cells])
    return markdown(["target", "drafter", "seeds", *_GAIN, *_CACHE], rows)


def whole_pass_table(results: Sequence[Result]) -> str:
    """learning_gain: one pass over all training prompts of each task."""
    rows = []
    for task in TASKS:
        for target in STARTERS:
            untrained = by_arm(results, target, task).get("untrained", [])
            for result in whole_passes(results, target, task):
                title = DRAFTERS[result["arm"].removeprefix("pass-")]
                answers = f"{result['result']['training']['answers']:,}"
                cells = gain_cells([result], untrained)
                rows.append([TASKS[task].title, TARGETS[target], title, answers, *cells])
    return markdown(["task", "target", "loss", "answers", *_GAIN, *_CACHE], rows)


def loss_table(results: Sequence[Result]) -> str:
    """trie-KL over the paper's loss, and over the paper's first term, on the same prompts."""
    pairs = (
        ("direct", "trie-kl", "dm-ngram", "direct"),
        ("with the cache", "trie-kl", "dm-ngram", "warm"),
        ("LoRA: with the cache", "trie-kl-lora", "dm-ngram-lora", "warm"),
        ("over L_DM alone: with the cache", "trie-kl", "dm", "warm"),
    )
    rows = []
    for task in TASKS:
        for target in STARTERS:
            arms = by_arm(results, target, task)
            cells = [_ratio(arms.get(ours, []), arms.get(theirs, []), way) for _, ours, theirs, way in pairs]
            rows.append([TASKS[task].title, TARGETS[target], *cells])
    return markdown(["task", "target", *(title for title, *_ in pairs)], rows)


def rank_table(results: Sequence[Result], gains: Sequence[Result]) -> str:
    """lora_rank, with the drafter of learning_gain whose every weight was trained."""
    rows: list[Sequence[object]] = []
    for target in STARTERS:
        arms = by_arm(gains, target, "gsm8k")
        untrained = arms.get("untrained", [])
        ranks = [result for result in results if result["settings"]["target"] == target]
        for result in sorted(ranks, key=lambda result: result["arm"]):
            cells = gain_cells([result], untrained)[: len(_GAIN)]
            rows.append([TARGETS[target], result["settings"]["rank"], *cells])
        every_weight = first_seed(arms.get("trie-kl", []))
        if every_weight:
            cells = gain_cells(every_weight, untrained)[: len(_GAIN)]
            rows.append([TARGETS[target], "every weight", *cells])
    return markdown(["target", "rank", *_GAIN], rows)


def _ratio(ours: Sequence[Result], theirs: Sequence[Result], way: str) -> str:
    if not ours or not theirs:
        return "-"
    counts = ([result["result"][way] for result in results] for results in (ours, theirs))
    return str(ratio(*counts))
