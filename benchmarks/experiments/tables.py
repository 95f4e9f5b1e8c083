"""Results as Markdown tables; a cell whose arm was not run is a dash."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.experiments import paper
from benchmarks.experiments.bootstrap import acceptance, ratio, tokens_per_pass
from benchmarks.experiments.recipes import TITLES
from benchmarks.experiments.tasks import TASKS

Found = dict[str, Any]
_TARGETS = {"a": "starter-a", "b": "starter-b", "qwen2": "Qwen2", "llama3": "Llama-3"}
E1_ROWS = {
    "untrained": "not trained",
    **TITLES,
    **{f"{name}-lora": f"{title}, LoRA 32" for name, title in TITLES.items()},
}
E2_ROWS = {
    "untrained": "not trained",
    **TITLES,
    "ngram-tenth": "L_DM + 0.02 L_ngram",
    "ngram-p": "L_DM + p(t) L_ngram",
    "ngram-kl": "L_DM + 0.2 KL of n-grams",
    "renormalised": "L_DM + 0.2 L_ngram, q' renormalised",
    "trie-kl-reverse": "trie-KL, reverse",
    "forward-kl": "forward KL on the intersection",
}


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table, or a sentence where there is nothing to show."""
    body = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    if not body:
        return "*Not measured yet.*"
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body])


def main_table(results: Sequence[Found], task: str) -> str:
    """E1 on one task: acceptance, tokens per pass with the direct map and with the cache, gain, cache."""
    head = [
        "target", "drafter", "seeds", "acceptance, direct", "tokens/pass, direct", "acceptance, cache",
        "tokens/pass, cache", "gain: cache over the untrained direct map", "n-grams", "cache file",
    ]  # fmt: skip
    rows = []
    for target in ("a", "b"):
        seeds = _by_arm(results, target, task)
        base = seeds.get("untrained", [])
        for name, title in E1_ROWS.items():
            if name in seeds:
                rows.append([_TARGETS[target], title, len(seeds[name]), *_counted(seeds[name], base)])
    return markdown(head, rows)


def pass_table(results: Sequence[Found]) -> str:
    """E1's headline: whole passes over a task's answers."""
    head = [
        "task", "target", "loss", "answers", "acceptance, direct", "tokens/pass, direct",
        "acceptance, cache", "tokens/pass, cache", "gain: cache over the untrained direct map", "n-grams",
        "cache file",
    ]  # fmt: skip
    rows = []
    for task in TASKS:
        for target in ("a", "b"):
            base = _by_arm(results, target, task).get("untrained", [])
            for found in _sorted_passes(results, target, task):
                title = TITLES[found["arm"].removeprefix("pass-")]
                count = found["result"]["training"]["answers"]
                rows.append(
                    [TASKS[task].title, _TARGETS[target], title, f"{count:,}", *_counted([found], base)]
                )
    return markdown(head, rows)


def best_pass(results: Sequence[Found], target: str, task: str, loss: str) -> Found | None:
    """The longest pass of a loss, if there is any."""
    found = [f for f in _sorted_passes(results, target, task) if f["arm"] == f"pass-{loss}"]
    return found[-1] if found else None


def loss_table(results: Sequence[Found]) -> str:
    """trie-KL over the paper's loss, and over its first term, on the same prompts."""
    head = [
        "task",
        "target",
        "direct",
        "with the cache",
        "LoRA: with the cache",
        "over L_DM alone: with the cache",
    ]
    rows = []
    for task in TASKS:
        for target in ("a", "b"):
            seeds = _by_arm(results, target, task)
            cells = [
                _against(seeds.get(f"trie-kl{suffix}", []), seeds.get(f"dm-ngram{suffix}", []), way)
                for suffix, way in (("", "direct"), ("", "warm"), ("-lora", "warm"))
            ]
            cells.append(_against(seeds.get("trie-kl", []), seeds.get("dm", []), "warm"))
            rows.append([TASKS[task].title, _TARGETS[target], *cells])
    return markdown(head, rows)


def temperature_table(results: Sequence[Found]) -> str:
    """E2."""
    found = {(r["settings"]["target"], r["arm"]): r["result"] for r in results}
    keys = [f"{way} {t}" for t in ("0.01", "1.0") for way in ("direct", "warm")]
    head = ["target", "loss", *(f"T = {k.split()[1]}, {'cache' if 'warm' in k else 'direct'}" for k in keys)]
    rows = []
    for target in ("a", "b"):
        for name, title in E2_ROWS.items():
            r = found.get((target, name))
            if r is not None:
                cells = [f"{tokens_per_pass([r[k]]).value:.2f} / {acceptance([r[k]]):.2f}" for k in keys]
                rows.append([_TARGETS[target], title, *cells])
    return markdown(head, rows)


def eviction_table(results: Sequence[Found]) -> str:
    """E5: tokens per pass by budget."""
    order = [
        "none",
        "cold",
        "lfu 0.25",
        "lru 0.25",
        "lfu 0.5",
        "lru 0.5",
        "lfu 1.0",
        "prefilled",
    ]
    names = [
        "none (direct map)",
        "empty at first",
        "LFU 1/4",
        "LRU 1/4",
        "LFU 1/2",
        "LRU 1/2",
        "all",
        "pre-filled",
    ]
    rows = []
    for r in sorted(
        results, key=lambda r: (r["arm"] != "untrained", r["settings"]["task"], r["settings"]["target"])
    ):
        found = r["result"]
        cells = [f"{tokens_per_pass([found[k]]).value:.2f}" for k in order]
        full, pre = found["lfu 1.0"]["cache"]["entries"], found["prefilled"]["cache"]["entries"]
        title = "not trained" if r["arm"] == "untrained" else TITLES[r["arm"]]
        where = f"{TASKS[r['settings']['task']].title}, {_TARGETS[r['settings']['target']]}"
        rows.append([where, title, *cells, f"{full} / {pre:,}"])
    return markdown(["task, target", "drafter", *names, "n-grams: all / pre-filled"], rows)


def rank_table(results: Sequence[Found], main: Sequence[Found]) -> str:
    """E6, beside the whole drafter of E1."""
    rows: list[Sequence[object]] = []
    for target in ("a", "b"):
        base = _by_arm(main, target, "gsm8k").get("untrained", [])
        for r in sorted((r for r in results if r["settings"]["target"] == target), key=lambda r: r["arm"]):
            rows.append([_TARGETS[target], r["settings"]["rank"], *_counted([r], base)[:5]])
        whole = [f for f in _by_arm(main, target, "gsm8k").get("trie-kl", []) if f["settings"]["seed"] == 0]
        if whole:
            rows.append([_TARGETS[target], "every weight", *_counted(whole, base)[:5]])
    head = [
        "target",
        "rank",
        "acceptance, direct",
        "tokens/pass, direct",
        "acceptance, cache",
        "tokens/pass, cache",
        "gain: cache over the untrained direct map",
    ]
    return markdown(head, rows)


def growth_table(results: Sequence[Found]) -> str:
    """E7 beside the paper's counts."""
    found = {(r["settings"]["task"], r["settings"]["target"]): r["result"] for r in results}
    rows = []
    for task, title in ((t.name, t.title) for t in TASKS.values()):
        cells: list[object] = []
        for target in ("qwen2", "llama3"):
            r = found.get((task, target))
            cells += (
                [f"{r['cache']['entries']:,}", f"{r['cache']['file_bytes'] / 1e6:.3f} MB"]
                if r
                else ["-", "-"]
            )
        answers = next(
            (f"{found[task, t]['answers']:,}" for t in ("qwen2", "llama3") if (task, t) in found), "-"
        )
        theirs = f"{paper.ENTRIES[task]:,} ({paper.SAMPLES[task]:,} of {paper.TASKS[task]})"
        rows.append([title, answers, *cells, theirs, f"{paper.MEGABYTES[task]:.3f} MB"])
    head = ["task", "answers", "Qwen2", "its file", "Llama-3", "its file", "the paper's count", "its size"]
    return markdown(head, rows)


def speed_table(results: Sequence[Found]) -> str:
    """Measured ratios of speeds."""
    found = {(r["settings"]["task"], r["settings"]["target"], r["arm"]): r["result"] for r in results}
    rows = []
    for task, each in TASKS.items():
        for target in ("a", "b"):
            cells = []
            for arm in ("untrained", "trie-kl"):
                r = found.get((task, target, arm))
                cells.append(
                    "-" if r is None else "{:.2f}x ({:.2f}-{:.2f})".format(r["speed_up"], *r["interval_95"])
                )
            if cells != ["-", "-"]:
                rows.append([each.title, _TARGETS[target], *cells])
    return markdown(["task", "target", "direct map, not trained", "trie-KL, one pass, with the cache"], rows)


def text_table(results: Sequence[Found]) -> str:
    """What the targets say."""
    found = {(r["settings"]["task"], r["settings"]["target"]): r for r in results}
    rows = []
    for task, each in TASKS.items():
        for target in ("a", "b"):
            r = found.get((task, target))
            if r is not None:
                t, test = r["result"], r["settings"]["test"]
                shares = [f"{t['distinct_runs_of_4']:.0%}", f"{t['ngrams']:.1%}"]
                counted = [
                    f"{t['tokens'] / test:.0f}",
                    *(f"{t[n]} of {test}" for n in ("distinct", "in_training")),
                ]
                rows.append([each.title, _TARGETS[target], *counted, *shares])
    head = ["task", "target", "tokens an answer", "different answers", "said to a training prompt too"]
    return markdown([*head, "different runs of 4 tokens", "n-grams among tokens"], rows)


def head_table(results: Sequence[Found]) -> str:
    """E3: tokens per pass / draft tokens a round, and the speed-up that the pair's costs predict."""
    names = ["k=2", "k=4", "k=8", "head 0.3", "head 0.5", "head 0.7"]
    rows = []
    for r in sorted(results, key=lambda r: (r["settings"]["task"], r["settings"]["target"], r["arm"])):
        found = r["result"]
        cells = [
            f"{tokens_per_pass([found[n]]).value:.2f} / {_drafted(found[n]):.1f} / "
            f"{_predicted(found[n], found['costs']):.2f}x"
            for n in names
        ]
        where = f"{TASKS[r['settings']['task']].title}, {_TARGETS[r['settings']['target']]}"
        rows.append([where, r["arm"], *cells])
    titles = [n if n.startswith("k") else f"k = 8, {n.split()[1]}" for n in names]
    return markdown(["task, target", "head trained", *titles], rows)


def _drafted(found: Found) -> float:
    return sum(found["drafted"]) / sum(found["rounds"])


def _predicted(found: Found, costs: Found) -> float:
    """Plain seconds over speculative ones, from counts and the costs of the bundle alone."""
    target, emitted, rounds = costs["target"], sum(found["emitted"]), sum(found["rounds"])
    drafted = _drafted(found)
    at = min(drafted, len(target) - 2)
    low = int(at)
    verify = target[low] + (at - low) * (target[low + 1] - target[low])
    return emitted * target[0] / (rounds * (verify + drafted * costs["draft"]))


def paper_main() -> str:
    """The paper's main table, as far as the design has it."""
    rows = [
        [target, arm, *(f"{a:.2f} / {s:.2f}x" for a, s in cells)]
        for target, arms in paper.MAIN.items()
        for arm, cells in arms.items()
    ]
    return markdown(["target", "arm", *paper.TASKS.values()], rows)


def _by_arm(results: Sequence[Found], target: str, task: str) -> dict[str, list[Found]]:
    found = defaultdict[str, list[Found]](list)
    for r in results:
        if (r["settings"]["target"], r["settings"]["task"]) == (target, task):
            found[r["arm"]].append(r)
    return dict(found)


def _sorted_passes(results: Sequence[Found], target: str, task: str) -> list[Found]:
    found = [r for arm, rs in _by_arm(results, target, task).items() if arm.startswith("pass-") for r in rs]
    return sorted(found, key=lambda r: (r["settings"]["train"], r["arm"]))


def _counted(seeds: Sequence[Found], base: Sequence[Found]) -> list[str]:
    direct, warm = ([s["result"][way] for s in seeds] for way in ("direct", "warm"))
    gain = ratio(warm, [b["result"]["direct"] for b in base]) if base else "-"
    cache = seeds[0]["result"]["cache"]
    return [
        f"{acceptance(direct):.2f}", str(tokens_per_pass(direct)), f"{acceptance(warm):.2f}",
        str(tokens_per_pass(warm)), str(gain), f"{cache['entries']:,}", f"{cache['file_bytes'] / 1e3:.1f} kB",
    ]  # fmt: skip


def _against(mine: Sequence[Found], theirs: Sequence[Found], way: str) -> str:
    if not mine or not theirs:
        return "-"
    return str(ratio([m["result"][way] for m in mine], [t["result"][way] for t in theirs]))
